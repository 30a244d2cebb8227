"""Defaults and fields of every built-in type, as files written for the original expect them."""

from __future__ import annotations

from typing import Any

import pytest

from streamling.pipeline.model import NodeKind
from streamling.pipeline.options import NodeOptions
from streamling.pipeline.validation_errors import field_name
from streamling.plugins.registry import Registry

COMMON = {"type", "primary_key", "telemetry"}
BATCHED = {"batch_size", "batch_flush_interval"}
#: what the original does not have
OURS = {"errors", "isolation_level", "latency", "wait_for_table"}
DECODING = {
    "validate_writer_schema_ordering",
    "schema_id_overrides",
    "skip_schema_resolution",
    "skip_schema_resolution_for_reader_schema_ids",
}
HTTP = {"url", "headers", "secret_name", "one_row_per_request", "payload_version"}

FIELDS: list[tuple[NodeKind, str, set[str], set[str]]] = [
    (
        NodeKind.SOURCE,
        "kafka",
        {"topic"},
        {"parallelism", "starting_offsets", "include_metadata", "filter", "data_format", "schema"} | BATCHED | DECODING,
    ),
    (NodeKind.SOURCE, "clickhouse", {"table_name"}, {"filter", "start_at", "columns"}),
    (NodeKind.SOURCE, "hybrid", {"bounded_sources", "unbounded_source"}, {"offset_table"}),
    (NodeKind.SOURCE, "file", {"path", "format"}, {"mode", "parallelism"}),
    (NodeKind.TRANSFORM, "sql", {"primary_key", "sql"}, {"parallelism"}),
    (
        NodeKind.TRANSFORM,
        "handler",
        {"primary_key", "from", "url"},
        {"schema_override", "parallelism"} | HTTP | BATCHED,
    ),
    (
        NodeKind.TRANSFORM,
        "script",
        {"primary_key", "from", "language", "script"},
        {"schema", "parallelism"} | BATCHED,
    ),
    (
        NodeKind.TRANSFORM,
        "dynamic_table",
        {"backend_type", "backend_entity_name"},
        {"sql", "schema", "column", "time_column", "cache", "cache_refresh_debounce_ms", "wait_for_table"},
    ),
    (
        NodeKind.SINK,
        "postgres",
        {"from", "table", "schema"},
        {"on_conflict", "update_where", "parallelism", "deduplicate", "evolve"} | BATCHED,
    ),
    (
        NodeKind.SINK,
        "postgres_aggregate",
        {"from", "schema", "landing_table", "agg_table", "aggregate"},
        {"group_by", "parallelism", "deduplicate"} | BATCHED,
    ),
    (
        NodeKind.SINK,
        "clickhouse",
        {"from", "table", "primary_key"},
        {
            "version_column_name",
            "parallelism",
            "append_only_mode",
            "deduplicate",
            "schema_override",
            "compression",
            "compression_level",
        }
        | BATCHED,
    ),
    (
        NodeKind.SINK,
        "kafka",
        {"from", "topic", "data_format"},
        {"topic_partitions", "message_max_bytes", "parallelism", "compression", "deduplicate"} | BATCHED,
    ),
    (NodeKind.SINK, "webhook", {"from", "url"}, {"skip_on_error", "parallelism"} | HTTP | BATCHED),
    (
        NodeKind.SINK,
        "print",
        {"from"},
        {"sample_every", "num_records_before_stop", "parallelism"} | BATCHED,
    ),
    (NodeKind.SINK, "blackhole", {"from"}, {"parallelism"} | BATCHED),
    (NodeKind.SINK, "memory", {"from"}, {"exclude_gs_op", "parallelism"}),
]


def model(kind: NodeKind, id: str) -> type[NodeOptions]:
    found = Registry.builtin().get(kind, id)
    assert found is not None
    return found.options


def read(kind: NodeKind, id: str, **fields: Any) -> Any:
    return model(kind, id).model_validate({"type": id, **fields})


@pytest.mark.parametrize(
    ("kind", "id", "required", "optional"), FIELDS, ids=lambda value: "" if isinstance(value, set) else str(value)
)
def test_fields(kind: NodeKind, id: str, required: set[str], optional: set[str]) -> None:
    fields = {field_name(name, info): info for name, info in model(kind, id).model_fields.items()}
    assert set(fields) >= COMMON | required | optional
    # the memory sink of the original is for tests and leaves out what ours shares with the others
    assert set(fields) - BATCHED - OURS <= COMMON | required | optional
    named_by_others = {"from"} if kind is NodeKind.SINK else set()  # a dead-letter sink
    assert {name for name, info in fields.items() if info.is_required()} == (required | {"type"}) - named_by_others


def test_kafka_source_defaults() -> None:
    options = read(NodeKind.SOURCE, "kafka", topic="t")
    assert (options.starting_offsets, options.data_format, options.include_metadata) == ("earliest", "avro", False)
    assert options.validate_writer_schema_ordering is True
    assert options.skip_schema_resolution is False
    assert options.instance_count == 1


@pytest.mark.parametrize("written", ["earliest", "latest", "1700000000000", 1700000000000])
def test_kafka_source_starts_at_a_name_or_a_time(written: object) -> None:
    options = read(NodeKind.SOURCE, "kafka", topic="t", starting_offsets=written)
    assert options.starting_offsets == str(written)


@pytest.mark.parametrize("written", ["JSON", "Json", "json"])
def test_case_of_data_formats_does_not_count(written: str) -> None:
    assert read(NodeKind.SOURCE, "kafka", topic="t", data_format=written, schema={"a": "Int64"}).data_format == "json"
    assert read(NodeKind.SINK, "kafka", **{"from": "s"}, topic="t", data_format=written).data_format == "json"


def test_hybrid_source_keeps_its_phases() -> None:
    options = read(
        NodeKind.SOURCE,
        "hybrid",
        bounded_sources=[
            {"source_type": "clickhouse", "table_name": "a", "start_at": 5, "columns": "x, y"},
            {"source_type": "clickhouse", "table_name": "b", "filter": "x > 1"},
        ],
        unbounded_source={"source_type": "kafka", "topic": "t"},
        offset_table={"topic_name": "t"},
    )
    first, second = options.bounded_sources
    assert (first.table_name, first.start_at, first.columns) == ("a", "5", ("x", "y"))
    assert (second.filter, second.columns) == ("x > 1", None)
    assert options.unbounded_source.start_at == "earliest"
    assert options.offset_table.offset_column == "offset"


@pytest.mark.parametrize(
    ("written", "language"),
    [("javascript", "javascript"), ("js", "javascript"), ("TypeScript", "typescript"), ("ts", "typescript")],
)
def test_script_languages_have_short_names(written: str, language: str) -> None:
    options = script(language=written)
    assert options.language == language


def script(**fields: Any) -> Any:
    return read(
        NodeKind.TRANSFORM,
        "script",
        **{"from": "s", "primary_key": "id", "language": "js", "script": "x => x", **fields},
    )


def test_script_waits_a_second_for_a_full_batch() -> None:
    assert script().flush_interval is None
    assert script(batch_size=0).rows_per_batch is None
    assert script(batch_size=0).flush_interval is None
    assert script(batch_size=10).flush_interval == 1.0
    assert script(batch_size=10, batch_flush_interval="2s").flush_interval == 2.0


@pytest.mark.parametrize(
    ("written", "backend"),
    [("InMemory", "InMemory"), ("in-memory", "InMemory"), ("in_memory", "InMemory"), ("POSTGRES", "Postgres")],
)
def test_backends_are_recognised_however_they_are_spelt(written: str, backend: str) -> None:
    options = read(NodeKind.TRANSFORM, "dynamic_table", backend_type=written, backend_entity_name="x")
    assert (options.backend_type, options.column, options.cache) == (backend, "value", None)


def test_postgres_sink_defaults() -> None:
    options = read(NodeKind.SINK, "postgres", **{"from": "s"}, schema="public", table="t")
    assert (options.on_conflict, options.update_where, options.deduplicate) == ("update", {}, True)


def test_kafka_sink_defaults() -> None:
    options = read(NodeKind.SINK, "kafka", **{"from": "s"}, topic="t", data_format="avro")
    assert (options.topic_partitions, options.compression, options.deduplicate) == (4, "lz4", True)


def test_kafka_sink_is_batched_by_its_producer_only() -> None:
    options = read(
        NodeKind.SINK, "kafka", **{"from": "s"}, topic="t", data_format="avro", batch_size=5, batch_flush_interval="1s"
    )
    assert (options.rows_per_batch, options.flush_interval) == (None, None)


@pytest.mark.parametrize("spelling", ["schema_override", "schema_overrides"])
def test_clickhouse_sink_takes_both_spellings(spelling: str) -> None:
    options = read(NodeKind.SINK, "clickhouse", **{"from": "s", spelling: {"a": "UInt256"}}, table="t", primary_key="a")
    assert options.schema_override == {"a": "UInt256"}
    assert (options.append_only_mode, options.deduplicate, options.compression) == (True, True, None)


def test_handler_may_remove_columns() -> None:
    options = read(
        NodeKind.TRANSFORM,
        "handler",
        **{"from": "s"},
        url="http://localhost/x",
        primary_key="id",
        schema_override={"gone": None, "new": "Utf8"},
    )
    assert options.schema_override == {"gone": None, "new": "Utf8"}


def test_aggregate_columns_may_have_no_fields() -> None:
    options = read(
        NodeKind.SINK,
        "postgres_aggregate",
        **{"from": "s"},
        schema="s",
        landing_table="l",
        agg_table="a",
        group_by={"account": None},
        aggregate={"n": {"fn": "count"}},
    )
    assert options.group_by["account"].from_ is None


RESERVED = {
    (NodeKind.SOURCE, "kafka"): {"topic"},
    (NodeKind.SOURCE, "clickhouse"): {"table"},
    (NodeKind.SOURCE, "hybrid"): {"table", "topic"},
    (NodeKind.SOURCE, "file"): {"path"},
    (NodeKind.TRANSFORM, "script"): {"language"},
    (NodeKind.SINK, "postgres"): {"table"},
    (NodeKind.SINK, "postgres_aggregate"): {"table"},
    (NodeKind.SINK, "clickhouse"): {"table"},
    (NodeKind.SINK, "kafka"): {"topic"},
    (NodeKind.SINK, "webhook"): {"url"},
}


@pytest.mark.parametrize(("kind", "id"), [(kind, id) for kind in NodeKind for id in Registry.builtin().ids(kind)])
def test_labels_that_a_type_sets_itself(kind: NodeKind, id: str) -> None:
    assert model(kind, id).reserved_labels == RESERVED.get((kind, id), set())
