"""What coding assistants read: AGENTS.md, and docs/llms.md with its twelve examples."""

from __future__ import annotations

import re

import pytest
import yaml

from streamling.errors import InvalidPipeline
from streamling.pipeline.model import NodeKind
from streamling.plugins.registry import Registry
from streamling.sql.problems import InvalidSql
from tests.docs.blocks import blocks_of
from tests.docs.pipelines import check_pipeline, runnable
from tests.paths import ROOT

PAGE = ROOT / "docs" / "llms.md"
AGENTS = ROOT / "AGENTS.md"

EXAMPLES = [block for block in blocks_of(PAGE) if block.comments.get("file") == "pipeline.yaml"]


def test_there_are_twelve_examples_of_different_kinds() -> None:
    assert len(EXAMPLES) == 12
    nodes = [
        f"{section} {node['type']}"
        for block in EXAMPLES
        for section, entries in yaml.safe_load(block.text).items()
        if isinstance(entries, dict)
        for node in entries.values()
    ]
    registry = Registry.builtin()
    types = {f"{kind.section} {id}" for kind in NodeKind for id in registry.ids(kind)}
    assert set(nodes) == types, "the examples use every node type"


def test_the_examples_without_services_are_run() -> None:
    """`test_snippets` runs them and compares their rows; the others it validates."""
    run = {str(block) for block in runnable()}
    assert [str(block) in run for block in EXAMPLES] == [True] * 6 + [False] * 6


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ("{type: sql, sql: SELECT id FROM rows}", "primary_key"),
        ("{type: sql, primary_key: id, sql: SELECT id FROM rows, from: rows}", "from"),
        ("{type: sql, primary_key: id, sql: SELECT a.id FROM rows a JOIN rows b ON a.id = b.id}", "JOIN"),
        ("{type: sql, primary_key: id, sql: SELECT id FROM rows ORDER BY id}", "ORDER BY"),
        ("{type: sql, primary_key: id, sql: SELECT CAST(now() AS BIGINT) AS id FROM rows}", "extract"),
        ("{type: script, from: rows, language: js, script: 'x => x'}", "primary_key"),
    ],
)
def test_what_the_rules_forbid_is_an_error(node: str, message: str) -> None:
    pipeline = (
        "sources: {rows: {type: kafka, topic: t, primary_key: id}}\n"
        f"transforms: {{out: {node}}}\n"
        "sinks: {screen: {type: print, from: out}}\n"
    )
    with pytest.raises((InvalidPipeline, InvalidSql), match=message):
        check_pipeline(pipeline, Registry.builtin())


def test_the_guide_for_changes_names_what_exists() -> None:
    text = AGENTS.read_text()
    for target in re.findall(r"`make ([a-z-]+)`", text):
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), target
    for path in re.findall(r"(?<![\w/])(?:src|tests|docs)/[\w./-]*\w", text):
        assert (ROOT / path).exists(), path
    for path in re.findall(r"\]\((?!http)([^)#]+)", text):
        assert (ROOT / path).exists(), path
