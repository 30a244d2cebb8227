"""Fields of plugin nodes."""

from __future__ import annotations

from typing import Any

import pytest

from streamling.errors import InvalidPipeline
from streamling.pipeline.options import NodeOptions
from streamling.pipeline.parse import parse_pipeline
from tests.pipeline.plugins import registry_with_plugins


def options(section: str, type_: str, fields: str) -> Any:
    nodes = {
        "sources": "s: {type: kafka, topic: t, primary_key: id}",
        "transforms": "f: {type: basic_plugin.filter_transform, from: s}",
        "sinks": "o: {type: blackhole, from: f}",
    }
    name, upstream = {"sources": ("s", ""), "transforms": ("f", "from: s, "), "sinks": ("o", "from: f, ")}[section]
    nodes[section] = f"{name}: {{type: {type_}, {upstream}{fields}}}"
    text = "".join(f"{key}:\n  {node}\n" for key, node in nodes.items())
    return parse_pipeline(text, registry=registry_with_plugins())[name].options


def free(fields: str) -> dict[str, Any]:
    found = options("transforms", "basic_plugin.filter_transform", fields)
    assert isinstance(found, NodeOptions)
    return found.model_extra or {}


def test_options_may_be_nested_or_flat_and_flat_wins() -> None:
    assert free("options: {a: x, b: y}, b: z, c: w") == {"a": "x", "b": "z", "c": "w"}


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("1", "1"),
        ("1.50", "1.50"),
        ("0x10", "0x10"),
        ("true", "true"),
        ("True", "True"),
        ("'quoted'", "quoted"),
        ("[1, a]", '[1, "a"]'),
        ("{x: 1}", '{"x": 1}'),
        ("2026-01-01", "2026-01-01"),
    ],
)
def test_values_are_the_text_that_was_written(written: str, text: str) -> None:
    assert free(f"options: {{a: {written}}}") == {"a": text}
    assert free(f"a: {written}") == {"a": text}


def test_declared_fields_are_converted() -> None:
    found = options("sources", "basic_plugin.random_source", 'options: {max_rows: "5"}, record_batch_size: 0x10')
    assert (found.max_rows, found.record_batch_size) == (5, 16)


def test_declared_lists_stay_lists() -> None:
    assert options("sinks", "print_sink", "columns: [a, b], mode: 5").columns == ["a", "b"]
    assert options("sinks", "print_sink", "mode: 5").mode == "5"


def test_typed_fields_inside_options_are_dropped() -> None:
    found = options("sinks", "print_sink", "options: {primary_key: x, batch_size: 5, mode: batch}, primary_key: y")
    assert found.primary_key == ("y",)
    assert found.batch_size is None
    assert found.mode == "batch"


def test_every_plugin_below_a_source_can_be_rebatched_and_run_in_parallel() -> None:
    found = options(
        "transforms",
        "basic_plugin.filter_transform",
        "batch_size: 5, batch_flush_interval: 2s, parallelism: 3, telemetry: {labels: {team: x}}",
    )
    assert (found.rows_per_batch, found.flush_interval, found.instance_count) == (5, 2.0, 3)
    assert found.telemetry.labels == {"team": "x"}


def test_batch_size_of_a_source_is_an_option_like_any_other() -> None:
    found = options("sources", "dataset", "batch_size: 5, batch_flush_interval: x, parallelism: 2")
    assert found.model_extra == {"batch_size": "5", "batch_flush_interval": "x"}
    assert found.instance_count == 2


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("max_row: 5", "unknown field 'max_row' (did you mean 'max_rows'?)"),
        ("options: {max_rows: many}", "'max_rows' is 'many' where a whole number is expected"),
        ("max_rows: -1", "'max_rows' is -1; it must be at least 0"),
        ("telemetry: {labels: {type: x}}", "the label 'type' is set by every basic_plugin.random_source source"),
        ("options: [a]", "'options' is a list where a mapping is expected"),
    ],
)
def test_errors_in_plugin_nodes_are_explained(fields: str, message: str) -> None:
    with pytest.raises(InvalidPipeline) as raised:
        options("sources", "basic_plugin.random_source", fields)
    assert message in str(raised.value)
    assert "basic_plugin.random_source source 's'" in str(raised.value)


def test_an_error_below_options_has_its_place() -> None:
    with pytest.raises(InvalidPipeline) as raised:
        options("sources", "basic_plugin.random_source", "options: {max_rows: many}")
    (problem,) = raised.value.problems
    assert (problem.line, problem.column) == (2, 61)
