"""What is generated from declarations is up to date."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.paths import ROOT

from streamling.dev.reference.__main__ import generated

FILES = dict(generated(ROOT))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_file_is_up_to_date(path: Path) -> None:
    assert path.read_text() == FILES[path], "run: make generate"
