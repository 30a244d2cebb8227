"""The architecture page lists the rooms as `make lint` checks them."""

from __future__ import annotations

import re
import tomllib

from tests.paths import ROOT

PACKAGE = re.compile(r"`(\w+)(?:/|\.py)`")


def _layers_of_the_contract() -> list[set[str]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contract = settings["tool"]["importlinter"]["contracts"][0]
    return [set(layer.split(" : ")) for layer in contract["layers"]]


def _layers_of_the_page() -> list[set[str]]:
    page = (ROOT / "docs" / "architecture.md").read_text()
    table = page.partition("\n## Rooms\n")[2].partition("\n|---|---|\n")[2].partition("\n\n")[0]
    return [set(PACKAGE.findall(row.split("|")[1])) for row in table.splitlines()]


def test_the_page_lists_all_rooms_in_the_order_in_which_they_may_import():
    assert _layers_of_the_page() == _layers_of_the_contract()


def test_every_module_that_the_page_names_exists():
    page = (ROOT / "docs" / "architecture.md").read_text()
    named = {path for path in re.findall(r"`((?:\w+/)+\w+\.py)`", page) if not path.startswith(("tests/", "java/"))}
    assert {path for path in named if not (ROOT / "src" / "streamling" / path).is_file()} == set()
