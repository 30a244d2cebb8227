"""A preview writes nothing: its sinks are blackholes."""

from __future__ import annotations

import pytest
import yaml

from streamling.pipeline.parse import parse_pipeline
from streamling.pipeline.preview import without_sinks
from streamling.plugins.registry import Registry

SOURCES = """\
sources:
  orders:
    type: file
    path: orders
    format: csv
    primary_key: id
"""
TRANSFORMS = """\
transforms:
  large:
    type: sql
    primary_key: id
    sql: SELECT * FROM orders WHERE total > 10
"""
SINKS = """\
sinks:
  out:
    type: postgres
    from: large
    schema: public
    table: "t"
  screen: {type: print, from: orders}
"""


def previewed(text: str) -> str:
    return without_sinks(text, Registry.builtin())


def sinks(text: str) -> dict:
    return yaml.safe_load(text)["sinks"]


def test_every_sink_becomes_a_blackhole_that_reads_the_same_node():
    assert sinks(previewed(SOURCES + TRANSFORMS + SINKS)) == {
        "out": {"type": "blackhole", "from": "large"},
        "screen": {"type": "blackhole", "from": "orders"},
    }


def test_a_dead_letter_sink_stays_one():
    assert sinks(previewed(SOURCES + "sinks:\n  bad: {type: print}\n")) == {"bad": {"type": "blackhole"}}


@pytest.mark.parametrize("section", ["", "sinks:\n", "sinks: {}\n"])
def test_without_sinks_the_nodes_that_nothing_reads_get_one(section):
    text = previewed(SOURCES + TRANSFORMS + section)
    assert sinks(text) == {"preview_of_large": {"type": "blackhole", "from": "large"}}


@pytest.mark.parametrize(
    "text",
    [SOURCES + TRANSFORMS + SINKS, SINKS + SOURCES + TRANSFORMS, SOURCES + SINKS + TRANSFORMS],
    ids=["last", "first", "in between"],
)
def test_other_lines_keep_their_numbers(text):
    before, after = text.splitlines(), previewed(text).splitlines()
    for line in ("sources:", "transforms:", "    sql: SELECT * FROM orders WHERE total > 10"):
        assert before.index(line) == after.index(line)


def test_a_file_in_one_line_works_as_well():
    text = "{sources: {a: {type: file, path: x, format: csv}}, sinks: {out: {type: print, from: a}}}"
    assert sinks(previewed(text)) == {"out": {"type": "blackhole", "from": "a"}}


def test_the_result_is_a_valid_pipeline():
    pipeline = parse_pipeline(previewed(SOURCES + TRANSFORMS + SINKS), registry=Registry.builtin())
    assert [(sink.name, sink.type, sink.upstreams) for sink in pipeline.sinks] == [
        ("out", "blackhole", ("large",)),
        ("screen", "blackhole", ("orders",)),
    ]


@pytest.mark.parametrize("text", ["", "- 1\n", "sources: [\n", "a: &x\nb: *y\n"])
def test_what_is_not_a_pipeline_is_left_to_the_parser(text):
    assert previewed(text) == text
