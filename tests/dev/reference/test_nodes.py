"""The page on the pipeline file matches the models."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from streamling.dev.reference.nodes import field_table
from streamling.pipeline.model import NodeKind
from streamling.pipeline.parse import parse_pipeline
from streamling.plugins.registry import Registry

PAGE = Path(__file__).parents[3] / "docs" / "pipeline-file.md"


def test_page_has_every_type() -> None:
    registry = Registry.builtin()
    every = {(kind.value, id) for kind in NodeKind for id in registry.ids(kind)}
    assert set(re.findall(r"<!-- fields: (\w+) (\w+) -->", PAGE.read_text())) == every


def test_first_example_of_the_page_is_a_pipeline() -> None:
    example = PAGE.read_text().split("```yaml\n")[1].split("```")[0]
    assert [node.name for node in parse_pipeline(example, registry=Registry.builtin())] == [
        "orders",
        "large_orders",
        "out",
    ]


def test_table_shows_values_defaults_and_meaning() -> None:
    rows = field_table(Registry.builtin(), "sink", "kafka").splitlines()
    assert "| **`topic`** | text |  | Topic to write to; created if it does not exist. |" in rows
    assert "| `compression` | `none`, `gzip`, `lz4` | `lz4` | Compression of messages. |" in rows
    assert rows[-1].startswith("| `telemetry` |")


def test_unknown_type_has_no_table() -> None:
    with pytest.raises(KeyError):
        field_table(Registry.builtin(), "sink", "nothing")
