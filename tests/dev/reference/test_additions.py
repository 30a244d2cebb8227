"""What `make generate` adds for a new node type."""

from __future__ import annotations

import re

import pytest
from tests.paths import ROOT

from streamling.dev.reference.additions import with_pages, with_sections, with_tested_types
from streamling.plugins.registry import Registry

REFERENCE = (ROOT / "docs" / "pipeline-file.md").read_text()
NAVIGATION = (ROOT / "mkdocs.yml").read_text()
MATRIX = ROOT / "tests" / "cluster" / "matrix.yaml"


@pytest.mark.parametrize(("kind", "id"), [("source", "memory"), ("transform", "dynamic_table"), ("sink", "kafka")])
def test_a_section_goes_to_the_end_of_its_kind(kind: str, id: str) -> None:
    mark = f"### {id}\n<!-- fields: {kind} {id} -->\n"
    without = REFERENCE.replace(mark, "")
    assert without != REFERENCE
    written = with_sections(without, Registry.builtin())
    assert written.count(mark) == 1
    of_kind = written.partition(f"\n## {kind.capitalize()}s\n")[2].partition("\n## ")[0]
    assert of_kind.endswith(f"\n\n{mark}<!-- end -->\n")
    assert with_sections(written, Registry.builtin()) == written


def test_a_page_follows_those_of_its_kind() -> None:
    line = "          - Print: sinks/print.md\n"
    without = NAVIGATION.replace(line, "")
    assert without != NAVIGATION
    assert re.search(rf"  - Memory: sinks/memory.md\n{line}  - SQL:", with_pages(without, ROOT / "docs"))


def test_a_page_that_is_listed_stays_where_it_is() -> None:
    assert with_pages(NAVIGATION, ROOT / "docs") == NAVIGATION


def test_types_are_listed_with_the_formats_of_the_matrix() -> None:
    page = with_tested_types("<!-- tested on a cluster -->\nold\n<!-- end -->\nrest\n", MATRIX, Registry.builtin())
    assert "| sinks | `blackhole`, `clickhouse`, `kafka` (json, avro), `postgres`" in page
    assert "`file` (csv, json, parquet, avro; bounded, continuous)" in page
    assert page.endswith("<!-- end -->\nrest\n")
    assert "old" not in page
