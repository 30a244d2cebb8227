from __future__ import annotations

from pathlib import Path

from streamling.dev.reference.configuration import configuration_page
from streamling.pipeline.config import AppConfig
from streamling.pipeline.config.schema import settings

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"


def test_the_page_in_docs_is_up_to_date() -> None:
    assert PAGE.read_text() == configuration_page(), (
        "run: python -m streamling.dev.reference.configuration > docs/configuration.md"
    )


def test_the_page_lists_every_setting_and_its_variable() -> None:
    page = configuration_page()

    for setting in settings(AppConfig):
        assert f"`{setting.name}`" in page
        assert f"`{setting.variable}`" in page
