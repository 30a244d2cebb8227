from __future__ import annotations

import logging

import pytest

from streamling.errors import InvalidPipeline
from streamling.pipeline.keys import check_key_columns, with_primary_keys
from streamling.pipeline.model import Pipeline
from streamling.pipeline.parse import parse_pipeline
from tests.pipeline.plugins import registry_with_plugins


def pipeline(source_key: str = "", sink: str = "type: blackhole") -> Pipeline:
    return parse_pipeline(
        f"""
sources:
  s:
    type: kafka
    topic: t
    {source_key}
transforms:
  f:
    type: basic_plugin.filter_transform
    from: s
sinks:
  out:
    from: f
    {sink}
""",
        registry=registry_with_plugins(),
    )


def keys(pipeline: Pipeline) -> dict[str, tuple[str, ...]]:
    return {node.name: node.primary_key for node in pipeline}


def test_key_is_inherited_down_the_graph() -> None:
    assert keys(pipeline("primary_key: id, at")) == dict.fromkeys(["s", "f", "out"], ("id", "at"))


def test_own_key_wins() -> None:
    found = keys(
        pipeline("primary_key: id", "{type: blackhole, primary_key: other}".strip("{}").replace(", ", "\n    "))
    )
    assert found["out"] == ("other",)


def test_inferred_key_is_used_and_inherited() -> None:
    resolved = with_primary_keys(pipeline(), {"s": ("block",)}, enforce=True)
    assert keys(resolved) == dict.fromkeys(["s", "f", "out"], ("block",))


def test_explicit_key_wins_over_the_inferred_one() -> None:
    resolved = with_primary_keys(pipeline("primary_key: id"), {"s": ("block",)}, enforce=True)
    assert keys(resolved)["s"] == ("id",)


def test_missing_keys_are_warnings(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        with_primary_keys(pipeline(), {}, enforce=False)
    texts = [record.getMessage() for record in caplog.records]
    assert len(texts) == 3
    assert "kafka source 's' has no primary key" in texts[0]
    assert "blackhole sink 'out' has no primary key, and none can be inherited from f" in texts[2]


def test_missing_keys_are_errors_when_enforced() -> None:
    with pytest.raises(InvalidPipeline) as raised:
        with_primary_keys(pipeline(), {}, enforce=True)
    assert len(raised.value.problems) == 3
    assert "enforce_primary_keys is on" in str(raised.value)


def test_sink_that_needs_a_key_is_refused_without_one() -> None:
    kafka = pipeline(sink="type: kafka\n    topic: t\n    data_format: json")
    with pytest.raises(InvalidPipeline, match="kafka sink 'out' needs a primary key"):
        with_primary_keys(kafka, {}, enforce=False)
    assert keys(with_primary_keys(kafka, {"s": ("id",)}, enforce=False))["out"] == ("id",)


def test_lookup_tables_need_no_key(caplog: pytest.LogCaptureFixture) -> None:
    parsed = parse_pipeline(
        """
sources: {s: {type: kafka, topic: t, primary_key: id}}
transforms: {seen: {type: dynamic_table, backend_type: in-memory, backend_entity_name: seen}}
sinks: {out: {type: blackhole, from: s}}
""",
        registry=registry_with_plugins(),
    )
    with_primary_keys(parsed, {}, enforce=True)
    assert not [record for record in caplog.records if "primary key" in record.getMessage()]


def test_missing_key_columns_are_named_with_those_there_are() -> None:
    node = pipeline("primary_key: id, at")["s"]
    assert check_key_columns(node, ["at", "id", "x"]) is None
    problem = check_key_columns(node, ["ident", "x"])
    assert problem is not None
    assert "primary key columns id, at not found; available columns: ident, x" in problem.message
    assert (problem.line, problem.column) == (6, 18)


def test_inherited_key_of_a_sink_is_checked_at_its_upstream() -> None:
    parsed = pipeline("primary_key: id")
    assert check_key_columns(parsed["f"], ["x"]) is not None
    assert check_key_columns(parsed["out"], ["x"]) is None
