from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from streamling.errors import InvalidPipeline, StreamlingError
from streamling.pipeline.model import NodeKind, Pipeline
from streamling.pipeline.options import dump
from streamling.pipeline.parse import DefaultRules, Preprocessor, load_pipeline, parse_pipeline
from streamling.plugins.registry import Registry
from tests.pipeline.plugins import registry_with_plugins

MINIMAL = """\
sources:
  s: {type: kafka, topic: t, primary_key: id}
transforms: {}
sinks:
  out: {type: blackhole, from: s}
"""


def parse(text: str, preprocessors: Sequence[Preprocessor] = (), **rules: bool) -> Pipeline:
    config = DefaultRules(**rules)
    return parse_pipeline(text, registry=registry_with_plugins(), config=config, preprocessors=preprocessors)


def problems(text: str, preprocessors: Sequence[Preprocessor] = (), **rules: bool) -> list[str]:
    with pytest.raises(InvalidPipeline) as raised:
        parse(text, preprocessors, **rules)
    return [str(problem) for problem in raised.value.problems]


# ── what comes out ───────────────────────────────────────────────────────────────────────────────────────


def test_nodes_know_their_kind_options_upstreams_and_place() -> None:
    pipeline = parse(MINIMAL)
    source, sink = pipeline
    assert (source.name, source.kind, source.type) == ("s", NodeKind.SOURCE, "kafka")
    assert str(sink) == "blackhole sink 'out'"
    assert sink.upstreams == ("s",)
    assert (sink.location.line, sink.location.column) == (5, 3)
    assert (sink.field_location("from").line, sink.field_location("from").column) == (5, 26)
    assert sink.value_location("from").column == 32
    assert pipeline.consumers("s") == (sink,)
    assert dump(source.options) == {"type": "kafka", "topic": "t", "primary_key": "id"}


@pytest.mark.parametrize("section", ["", "transforms:\n", "transforms: {}\n"], ids=["missing", "null", "empty"])
def test_transforms_are_optional(section: str) -> None:
    pipeline = parse(MINIMAL.replace("transforms: {}\n", section))
    assert [node.name for node in pipeline] == ["s", "out"]
    assert pipeline.transforms == ()


def test_file_is_named_in_places(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(MINIMAL)
    pipeline = load_pipeline(path, registry=registry_with_plugins())
    assert pipeline.file == str(path)
    assert pipeline["s"].location.file == str(path)


def test_nodes_come_in_an_order_in_which_rows_flow() -> None:
    text = MINIMAL.replace(
        "transforms: {}",
        """\
transforms:
  second: {type: basic_plugin.filter_transform, from: first}
  first: {type: basic_plugin.filter_transform, from: s}
  looked_up: {type: dynamic_table, backend_type: in-memory, backend_entity_name: x, sql: SELECT a FROM second}""",
    ).replace("from: s}\n", "from: second}\n", 2)
    text = text.replace(
        "first: {type: basic_plugin.filter_transform, from: second}",
        "first: {type: basic_plugin.filter_transform, from: s}",
    )
    assert [node.name for node in parse(text)] == ["s", "first", "second", "looked_up", "out"]


def test_union_reads_several_nodes_each_once() -> None:
    text = """
sources:
  a: {type: kafka, topic: t, primary_key: id}
  b: {type: kafka, topic: t, primary_key: id}
transforms:
  u:
    type: sql
    primary_key: id
    sql: SELECT * FROM b UNION ALL SELECT * FROM A UNION ALL SELECT * FROM b
sinks:
  out: {type: blackhole, from: U}
"""
    pipeline = parse(text)
    assert pipeline["u"].upstreams == ("b", "a")
    assert pipeline["out"].upstreams == ("u",)


def test_fields_left_empty_count_as_left_out() -> None:
    pipeline = parse(MINIMAL.replace("primary_key: id", "primary_key: id, telemetry: , filter: "))
    assert pipeline["s"].options.telemetry.labels == {}


# ── top level ────────────────────────────────────────────────────────────────────────────────────────────


def test_keys_of_the_hosted_product_are_tolerated(caplog: pytest.LogCaptureFixture) -> None:
    parse("name: x\nresource_size: s\ndescription: y\njob: true\nanything: else\n" + MINIMAL)
    assert not caplog.records


def test_top_level_key_that_looks_like_a_section_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        parse(MINIMAL + "sink: {}\n")
    (record,) = caplog.records
    assert "the top-level key 'sink' is ignored (did you mean 'sinks'?)" in record.getMessage()


def test_all_errors_are_reported_in_the_order_of_the_file() -> None:
    found = problems(
        """\
sources:
  s: {type: kafka, topic: t, primary_key: id, colour: red}
transforms:
  f: {type: basic_plugin.filter_transform, from: nowhere}
sinks:
  out: {type: blackhole, from: f, parallelism: 0}
  other: {type: print, from: s, sample_every: often}
"""
    )
    assert [text.split(":")[1] for text in found] == ["2", "4", "6", "7"]


# ── preprocessors ────────────────────────────────────────────────────────────────────────────────────────


def test_preprocessors_rewrite_the_text_one_after_the_other() -> None:
    pipeline = parse(
        MINIMAL.replace("type: kafka, topic: t", "type: hosted"),
        [lambda text: text.replace("hosted", "step"), lambda text: text.replace("step", "kafka, topic: t")],
    )
    assert pipeline["s"].type == "kafka"


def test_places_after_a_rewrite_say_so() -> None:
    (found,) = problems(MINIMAL, [lambda text: text.replace("topic", "topics")])
    assert found.startswith("pipeline.yaml (preprocessed):2:20: ")


def test_orphans_are_sought_before_preprocessing() -> None:
    orphaned = MINIMAL.replace("transforms", "  spare: {type: hosted}\ntransforms")
    (found,) = problems(orphaned, [lambda text: text.replace("  spare: {type: hosted}\n", "")])
    assert "nothing reads from source 'spare'" in found


def test_failing_preprocessor_is_named_as_the_step() -> None:
    def fail(text: str) -> str:
        raise ValueError("no such dataset")

    with pytest.raises(StreamlingError, match="preprocessing the pipeline file") as raised:
        parse(MINIMAL, [fail])
    assert list(raised.value.causes()) == ["ValueError: no such dataset"]


def test_definition_wrapper_is_understood_by_the_orphan_check() -> None:
    wrapped = "definition:\n" + "".join(f"  {line}\n" for line in MINIMAL.splitlines())
    assert parse(wrapped, [lambda text: MINIMAL]).sources
    spare = wrapped.replace("  transforms", "    spare: {type: hosted}\n  transforms")
    (found,) = problems(spare, [lambda text: MINIMAL])
    assert "source 'spare'" in found
    assert found.startswith("pipeline.yaml:4:5")


# ── orphans ──────────────────────────────────────────────────────────────────────────────────────────────


def test_sql_of_a_lookup_table_counts_as_a_reader() -> None:
    text = """
sources:
  s: {type: kafka, topic: t, primary_key: id}
  names: {type: kafka, topic: n, primary_key: id}
transforms:
  known: {type: dynamic_table, backend_type: in-memory, backend_entity_name: x, sql: SELECT n FROM "Names"}
sinks:
  out: {type: blackhole, from: s}
"""
    assert parse(text)["known"].upstreams == ("names",)


def test_an_orphan_is_not_reported_with_the_error_that_causes_it() -> None:
    (found,) = problems(MINIMAL.replace("from: s", "from: x"))
    assert "reads from 'x'" in found


# ── modes ────────────────────────────────────────────────────────────────────────────────────────────────


def test_hybrid_source_may_run_as_a_job() -> None:
    text = MINIMAL.replace(
        "type: kafka, topic: t",
        "type: hybrid, bounded_sources: [], unbounded_source: {source_type: kafka, topic: t}",
    )
    assert parse(text, job_mode=True)


def test_whether_a_plugin_ends_is_not_judged_here() -> None:
    text = MINIMAL.replace("type: kafka, topic: t", "type: basic_plugin.random_source")
    assert parse(text, job_mode=True)


def test_source_that_may_infer_its_key_is_not_refused_yet() -> None:
    assert parse(MINIMAL.replace(", primary_key: id", ""), enforce_primary_keys=True)


PIPELINE = """
sources:
  orders: {{type: kafka, topic: orders, primary_key: id}}
transforms:
  seen: {{type: dynamic_table, backend_type: Postgres, backend_entity_name: seen{fill}}}
  kept: {{type: sql, primary_key: id, sql: "SELECT * FROM orders WHERE {condition}"}}
sinks:
  out: {{type: blackhole, from: kept}}
"""


def warnings(caplog: pytest.LogCaptureFixture, *, fill: str = "", condition: str = "true") -> list[str]:
    with caplog.at_level(logging.WARNING):
        parse_pipeline(PIPELINE.format(fill=fill, condition=condition), registry=Registry.builtin())
    return [record.getMessage() for record in caplog.records]


def test_an_unused_table_is_a_warning_with_its_place(caplog):
    (warning,) = warnings(caplog)
    assert "pipeline.yaml:5:3: nothing looks values up in dynamic_table transform 'seen'" in warning
    assert "dynamic_table_check('seen', column), or remove it" in warning


def test_a_table_that_is_filled_may_be_for_others(caplog):
    assert warnings(caplog, fill=", sql: SELECT name FROM orders") == []


def test_the_name_of_a_table_is_case_insensitive(caplog):
    assert warnings(caplog, condition="NOT dynamic_table_check('Seen', name)") == []
