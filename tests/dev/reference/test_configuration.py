from __future__ import annotations

from streamling.dev.reference.configuration import configuration_page
from streamling.pipeline.config import AppConfig
from streamling.pipeline.config.schema import settings


def test_the_page_lists_every_setting_and_its_variable() -> None:
    page = configuration_page()

    for setting in settings(AppConfig):
        assert f"`{setting.name}`" in page
        assert f"`{setting.variable}`" in page
