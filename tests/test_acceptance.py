"""The page of acceptance tests names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


PAGE = (ROOT / "docs" / "acceptance.md").read_text(encoding="utf-8")


def test_every_test_on_the_page_exists() -> None:
    named = re.findall(r"`(\S+\.py)::(\w+)`", PAGE)
    assert len(named) > 40
    missing = [
        f"{file}::{test}"
        for file, test in named
        if f"def {test}(" not in (ROOT / "tests" / file).read_text(encoding="utf-8")
    ]
    assert missing == []


def test_every_pipeline_file_on_the_page_exists() -> None:
    named = re.findall(r"`(bad_pipelines/\S+\.yaml)`", PAGE)
    assert named
    assert [file for file in named if not list((ROOT / "tests").glob(file))] == []
