from __future__ import annotations

from pathlib import Path

from streamling.config import AppConfig
from streamling.config.schema import settings
from streamling.reference.configuration import configuration_page

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_page_in_docs_is_up_to_date() -> None:
    assert PAGE.read_text() == configuration_page(), (
        "run: python -m streamling.reference.configuration > docs/configuration.md"
    )


def test_the_page_lists_every_setting_and_its_variable() -> None:
    page = configuration_page()

    for setting in settings(AppConfig):
        assert f"`{setting.name}`" in page
        assert f"`{setting.variable}`" in page
