"""The example does what its page says."""

from __future__ import annotations

import json

import pytest

from streamling.connectors.memory import collected_rows
from tests.paths import ROOT
from tests.transforms.dynamic_table.pipelines import run_pipeline

pytestmark = pytest.mark.spark


def test_the_example_prints_what_its_page_shows(spark, monkeypatch):
    monkeypatch.chdir(ROOT)
    folder = ROOT / "examples" / "dynamic-table"
    text = (folder / "pipeline.yaml").read_text().replace("type: print", "type: memory")
    shown = [json.loads(line) for line in (folder / "README.md").read_text().splitlines() if line.startswith("{")]
    assert len(shown) == 5
    assert collected_rows(run_pipeline(spark, text, {}), "screen").to_pylist() == shown
