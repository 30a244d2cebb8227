"""`latency: realtime`: nodes at which rows would wait are errors."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

import pytest

from streamling.connectors.kafka.config import KafkaSinkSettings
from streamling.dev.services.topics import Message
from streamling.errors import InvalidPipeline
from tests.connectors.kafka.source_driver import KafkaBench, record, rows_in
from tests.harness.pipelines import eventually, finish, new_run

pytestmark = [pytest.mark.spark, pytest.mark.services]

COLUMNS = {"id": "int64", "name": "string"}


@pytest.fixture
def bench(spark, kafka, registry) -> KafkaBench:
    return KafkaBench(spark, kafka, registry)


def source(**options: Any) -> dict[str, Any]:
    fields = {"type": "kafka", "topic": "any", "latency": "realtime", "data_format": "json", "primary_key": "id"}
    return {**fields, "schema": COLUMNS, **options}


def sql(text: str, **options: Any) -> dict[str, Any]:
    return {"type": "sql", "primary_key": "id", "sql": text, **options}


SCRIPT = {
    "type": "script",
    "from": "rows",
    "primary_key": "id",
    "language": "javascript",
    "script": "function process(row) { return row; }",
}
TABLE = {"type": "dynamic_table", "backend_type": "InMemory", "backend_entity_name": "seen"}
PLAIN = sql("SELECT id, upper(name) AS name FROM rows WHERE id > 0")
KAFKA = {"type": "kafka", "from": "shaped", "topic": "other", "data_format": "json"}
MEMORY = {"type": "memory", "from": "shaped"}
WEBHOOK = {"type": "webhook", "from": "shaped", "url": "http://127.0.0.1:1/"}


def prepare(bench: KafkaBench, sources: Any, transforms: Any, sinks: Any, **settings: Any) -> None:
    text = json.dumps({"sources": sources, "transforms": transforms, "sinks": sinks})
    bench.prepare(text, **settings)


def refused(bench: KafkaBench, sources: Any, transforms: Any, sinks: Any, **settings: Any) -> list[str]:
    with pytest.raises(InvalidPipeline) as caught:
        prepare(bench, sources, transforms, sinks, **settings)
    return [f"{problem.message}; {problem.remedy}" for problem in caught.value.problems]


_JOB = (
    "{node}: needs a Spark job for each batch, because {reason}, but the source 'rows' has latency: realtime; "
    "{remedy}, or set latency: standard"
)

#: columns of the source, transforms, sinks, the node that is refused, why, and the remedy
_JOBS: dict[str, tuple[dict[str, str], dict[str, Any], dict[str, Any], str, str, str]] = {
    "a function in Python": (
        COLUMNS,
        {"shaped": sql("SELECT id, _gs_keccak256(name) AS hash FROM rows")},
        {"out": KAFKA},
        "sql transform 'shaped'",
        "it uses _gs_keccak256(), computed in Python",
        "use other functions",
    ),
    "a function in Python, some steps below": (
        COLUMNS,
        {"first": PLAIN, "shaped": sql("SELECT id, json_quote(name) AS name FROM first")},
        {"out": MEMORY},
        "sql transform 'shaped'",
        "it uses json_quote(), computed in Python",
        "use other functions",
    ),
    "wide numbers": (
        COLUMNS,
        {"shaped": sql("SELECT id, u256_add(to_u256(name), to_u256(name)) AS sum FROM rows")},
        {"out": MEMORY},
        "sql transform 'shaped'",
        "it uses wide numbers, computed in Python",
        "use other functions",
    ),
    "a wide column of the source": (
        {**COLUMNS, "wide": "u256"},
        {},
        {"out": {**MEMORY, "from": "rows"}},
        "kafka source 'rows'",
        "it uses wide numbers, computed in Python",
        "use other functions",
    ),
    "several tasks": (
        COLUMNS,
        {"shaped": {**PLAIN, "parallelism": 2}},
        {"out": KAFKA},
        "sql transform 'shaped'",
        "its rows are distributed to several tasks",
        "remove parallelism",
    ),
    "a time that is not that of the batch": (
        COLUMNS,
        {"shaped": sql("SELECT id, current_time() AS at FROM rows")},
        {"out": MEMORY},
        "sql transform 'shaped'",
        "it calls a function of the current time other than now() and current_date",
        "use now()",
    ),
    "random values for several consumers": (
        COLUMNS,
        {"random": sql("SELECT id, random() AS r FROM rows"), "shaped": sql("SELECT id, r FROM random WHERE r > 0.5")},
        {"out": MEMORY, "all": {**MEMORY, "from": "random"}},
        "sql transform 'shaped'",
        "'random' has several consumers, which must get the same random values or times",
        "leave one consumer",
    ),
    "SQL below a script": (
        COLUMNS,
        {"scripted": SCRIPT, "shaped": sql("SELECT * FROM scripted")},
        {"out": MEMORY},
        "sql transform 'shaped'",
        "its rows come from a node that runs in Python",
        "move its SQL above that node",
    ),
    "a dynamic table that is filled": (
        COLUMNS,
        {
            "seen": {
                "type": "dynamic_table",
                "backend_type": "InMemory",
                "backend_entity_name": "seen",
                "sql": "SELECT name FROM rows",
            }
        },
        {"out": {**MEMORY, "from": "rows"}},
        "dynamic_table transform 'seen'",
        "Spark selects the values of a dynamic table",
        "change this node",
    ),
    "a dynamic table that is queried": (
        COLUMNS,
        {
            "seen": TABLE,
            "shaped": sql("SELECT * FROM rows WHERE dynamic_table_check('seen', name)"),
        },
        {"out": MEMORY},
        "sql transform 'shaped'",
        "it queries a dynamic table",
        "remove dynamic_table_check",
    ),
}


@pytest.mark.parametrize("case", _JOBS)
def test_a_node_that_needs_a_spark_job_is_refused(bench: KafkaBench, case: str) -> None:
    columns, transforms, sinks, node, reason, remedy = _JOBS[case]
    found = refused(bench, {"rows": source(schema=columns)}, transforms, sinks)
    assert found == [_JOB.format(node=node, reason=reason, remedy=remedy)]


def test_a_node_that_reads_several_others_is_refused_for_each_real_time_source(bench: KafkaBench) -> None:
    sources = {"rows": source(), "more": source(latency="standard")}
    found = refused(bench, sources, {"shaped": sql("SELECT * FROM rows UNION ALL SELECT * FROM more")}, {"out": KAFKA})
    reason, remedy = "it reads several nodes", "use one node for each of them"
    assert found == [_JOB.format(node="sql transform 'shaped'", reason=reason, remedy=remedy)]


def test_wide_columns_that_a_kafka_sink_would_encode_are_refused(bench: KafkaBench) -> None:
    """Also below a script, where the sink gets rows in Python."""
    script = {**SCRIPT, "schema": {"id": "int64", "wide": "u256"}}
    found = refused(bench, {"rows": source()}, {"shaped": script}, {"out": KAFKA})
    assert [text.partition(",")[0] for text in found] == ["kafka sink 'out': needs a Spark job for each batch"]


_HELD = (
    "webhook sink 'out': collects rows into batches, but the source 'rows' has latency: realtime; write batch_size: 0 "
    "and no batch_flush_interval, also in the configuration, or set latency: standard"
)


@pytest.mark.parametrize("batching", [{"batch_size": 10}, {"batch_flush_interval": "1s"}])
def test_a_node_that_collects_rows_is_refused(bench: KafkaBench, batching: dict[str, Any]) -> None:
    sinks = {"out": {**WEBHOOK, **batching}}
    assert refused(bench, {"rows": source()}, {"shaped": PLAIN}, sinks) == [_HELD]
    prepare(bench, {"rows": source(latency="standard")}, {"shaped": PLAIN}, sinks)


def test_what_runs_on_executors_is_refused(bench: KafkaBench) -> None:
    from streamling.pipeline.config.core import SparkSettings

    master = SparkSettings(master="spark://cluster:7077")
    found = refused(bench, {"rows": source()}, {"shaped": SCRIPT}, {"out": WEBHOOK}, spark=master)
    reason, remedy = "it runs in Python on the executors", "run on a local master (spark.master)"
    assert found == [_JOB.format(node="script transform 'shaped'", reason=reason, remedy=remedy)]


@pytest.mark.parametrize(
    "sink",
    [
        KAFKA,
        {**KAFKA, "data_format": "avro"},
        MEMORY,
        {"type": "print", "from": "shaped"},
        {"type": "blackhole", "from": "shaped"},
        {"type": "postgres", "from": "shaped", "schema": "public", "table": "t"},
        WEBHOOK,
    ],
    ids=lambda sink: f"{sink['type']} {sink.get('data_format', '')}",
)
def test_sinks_that_write_rows_as_they_arrive_are_allowed(bench: KafkaBench, sink: dict[str, Any]) -> None:
    prepare(bench, {"rows": source()}, {"shaped": PLAIN}, {"out": sink})
    prepare(bench, {"rows": source()}, {"shaped": SCRIPT}, {"out": sink})


def test_a_batch_interval_of_the_source_contradicts_it(bench: KafkaBench) -> None:
    with pytest.raises(InvalidPipeline, match=re.escape("'batch_flush_interval' is set, but latency realtime")):
        prepare(bench, {"rows": source(batch_flush_interval="1s")}, {"shaped": PLAIN}, {"out": KAFKA})


def test_what_can_be_seen_without_spark_is_reported_without_it() -> None:
    union = sql("SELECT * FROM rows UNION ALL SELECT * FROM more")
    looking_up = sql("SELECT * FROM rows WHERE dynamic_table_check('seen', name)")
    definition = {
        "sources": {"rows": source(), "more": source(latency="standard")},
        "transforms": {"seen": TABLE, "both": union, "known": looking_up, "plain": PLAIN},
        "sinks": {
            "one": {**KAFKA, "from": "both"},
            "two": {**KAFKA, "from": "known"},
            "three": {**WEBHOOK, "from": "plain", "batch_size": 5},
            "four": {**WEBHOOK, "from": "more", "batch_size": 5},
        },
    }
    run = new_run(json.dumps(definition))
    with pytest.raises(InvalidPipeline) as caught:
        run.check_without_spark()
    assert [problem.message.partition(", ")[0] for problem in caught.value.problems] == [
        "sql transform 'both': needs a Spark job for each batch",
        "sql transform 'known': needs a Spark job for each batch",
        "webhook sink 'three': collects rows into batches",
    ]


# ── running ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_interval_in_the_configuration_is_not_for_real_time_sources(bench: KafkaBench) -> None:
    topic = bench.topic()
    topic.send(Message(b'{"id": 1}'))
    bench.sections["record_batch_interval_ms"] = 7_200_000
    run = bench.begin(topic, data_format="json", primary_key="id", schema=COLUMNS, latency="realtime")
    eventually(lambda: rows_in(run) == 1)
    topic.send(Message(b'{"id": 2}'))
    assert [row["id"] for row in bench.collected(run, 2)] == [1, 2]


def test_a_new_column_for_which_rows_wait_is_logged(bench: KafkaBench, caplog: pytest.LogCaptureFixture) -> None:
    topic = bench.topic()
    topic.write(record("id"), {"id": 1})
    rows = {"type": "kafka", "topic": topic.name, "latency": "realtime", "primary_key": "id"}
    out = {"type": "kafka", "from": "rows", "topic": f"{topic.name}-out", "data_format": "json"}
    bench.sections["kafka_sink"] = KafkaSinkSettings(brokers=bench.kafka.brokers)
    run = bench.begin_text(json.dumps({"sources": {"rows": rows}, "sinks": {"out": out}}))
    eventually(lambda: rows_in(run) == 1, 60)
    assert "latency: realtime" not in caplog.text
    wide = {"type": "bytes", "logicalType": "decimal", "precision": 77, "scale": 0}
    topic.write(record("id", ("wide", ["null", wide], None)), {"id": 2, "wide": Decimal(3)})
    eventually(lambda: rows_in(run) == 2, 60)
    run.stop("enough")
    finish(run)
    assert "kafka sink 'out': needs a Spark job for each batch, because it uses wide numbers" in caplog.text
