"""The Kafka sink against a real broker and registry; messages are read back by other clients than the sink's."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter

import pyarrow as pa
import pytest

from streamling.connectors.kafka.encode.messages import ORDER, by_key, in_order, last_per_key
from streamling.dev.services.avro import decode
from tests.connectors.kafka.sink_driver import KafkaSinkBench, numbered, people, record

pytestmark = [pytest.mark.spark, pytest.mark.services]


@pytest.fixture
def bench(spark, kafka, registry) -> KafkaSinkBench:
    return KafkaSinkBench(spark, kafka, registry)


# ── messages ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("format", ["avro", "json"])
def test_a_hundred_rows_become_a_hundred_messages(bench: KafkaSinkBench, format: str) -> None:
    topic = bench.topic()
    bench.write(topic, numbered(0, 100), data_format=format)
    rows = sorted(bench.rows(topic), key=lambda row: row["id"])
    assert rows == [{"id": id, "name": f"n{id}", "_gs_op": "i"} for id in range(100)]


@pytest.mark.parametrize(
    ("options", "codec"),
    [
        ({"compression": "gzip"}, "gzip"),
        ({"compression": "none"}, "none"),
        ({"compression": "lz4"}, "lz4"),
        ({}, "lz4"),
    ],
)
def test_messages_are_stored_as_compressed_as_the_pipeline_says(bench: KafkaSinkBench, options, codec: str) -> None:
    topic = bench.topic()
    bench.write(topic, numbered(0, 50), **options)
    assert sorted(row["id"] for row in bench.rows(topic)) == list(range(50))
    assert {batch.codec for batch in bench.record_batches(topic)} == {codec}


@pytest.mark.parametrize(("batch_size", "least", "most"), [(1, 1, 1), (50, 20, 150), (5000, 500, 500)])
def test_batch_size_limits_the_messages_of_a_record_batch(
    bench: KafkaSinkBench, batch_size: int, least: int, most: int
) -> None:
    """The producer's limit is in bytes, a hundred per message; these messages have about forty."""
    topic, options = bench.topic(), {"batch_size": batch_size, "batch_flush_interval": "2s"}
    bench.write(topic, numbered(0, 500), topic_partitions=1, compression="none", **options)
    assert sorted(row["id"] for row in bench.rows(topic)) == list(range(500))
    assert bench.runs[-1].rows_written() == {"out": 500}
    assert least <= max(batch.messages for batch in bench.record_batches(topic)) <= most


def test_rows_wait_for_others_as_long_as_batch_flush_interval_says(bench: KafkaSinkBench) -> None:
    """Without waiting, the sender takes the first messages while others are still encoded."""
    batches = {}
    for interval in ("0s", "2s"):
        topic = bench.topic()
        bench.write(topic, numbered(0, 20_000), topic_partitions=1, batch_size=50_000, batch_flush_interval=interval)
        batches[interval] = len(bench.record_batches(topic))
    assert batches["2s"] == 1 < batches["0s"]


@pytest.mark.parametrize(
    ("options", "delivered"),
    [({}, 45), ({"deduplicate": False}, 50), ({"deduplicate": False, "parallelism": 2}, 50)],
)
def test_rows_that_stay_in_spark_are_counted(bench: KafkaSinkBench, options, delivered: int) -> None:
    """Five rows of the first batch have keys of later ones."""
    topic, sql = bench.topic(), "SELECT id % 50 AS id, name FROM given WHERE id % 2 = 0 AND id < 100"
    bench.write(topic, numbered(0, 60), numbered(60, 40), numbered(100, 10), sql=sql, **options)
    run = bench.runs[-1]
    assert run.rows_written() == {"out": delivered} == {"out": len(bench.messages(topic))}
    assert run.metrics.value("output_rows", "out") == delivered
    assert run.metrics.value("input_rows", "out") == 50
    assert run.summary() == ("50 to out" if delivered == 50 else "45 to out (5 deduplicated)")


def test_parallel_producers(bench: KafkaSinkBench) -> None:
    topic = bench.topic()
    bench.write(topic, numbered(0, 200), parallelism=4)
    assert sorted(row["id"] for row in bench.rows(topic)) == list(range(200))


@pytest.mark.parametrize("format", ["avro", "json"])
def test_header_and_value_carry_the_operation(bench: KafkaSinkBench, format: str) -> None:
    topic = bench.topic()
    rows = people((1, "a", "i"), (2, "b", "u"), (3, None, "d"), (4, "e", None), (5, "f", "?"))
    bench.write(topic, rows, topic_partitions=1, data_format=format)
    messages = bench.messages(topic)
    assert [message.headers for message in messages] == [(("dbz.op", op),) for op in (b"c", b"u", b"d", b"c", b"c")]
    assert [message.key for message in messages] == [b"1", b"2", b"3", b"4", b"5"]
    if format == "json":
        assert messages[0].value == b'{"id":1,"name":"a","_gs_op":"i"}'
        values = [json.loads(message.value) for message in messages]
    else:
        values = [decode(bench.schemas, message.value) for message in messages]
    assert [value["_gs_op"] for value in values] == ["i", "u", "d", "i", "i"]


def test_a_key_of_several_columns_is_joined_by_colons(bench: KafkaSinkBench) -> None:
    topic = bench.topic()
    rows = pa.record_batch({"region": ["eu", "us"], "id": [1, 2], "hash": pa.array([b"\xab\xcd"] * 2, pa.binary(2))})
    bench.write(topic, rows, key="region,id,hash", topic_partitions=1)
    assert [message.key for message in bench.messages(topic)] == [b"eu:1:abcd", b"us:2:abcd"]


def test_text_in_any_script_is_kept(bench: KafkaSinkBench) -> None:
    topic = bench.topic()
    names = ["Grüße", "日本語", "\N{GRINNING FACE}", "e\u0301", "", "a:b'\"\\", None]
    for format in ("avro", "json"):
        bench.write(f"{topic}-{format}", people(*enumerate(names)), data_format=format, topic_partitions=1)
        assert [row["name"] for row in bench.rows(f"{topic}-{format}")] == names
    bench.write(f"{topic}-key", pa.record_batch({"name": names[:4]}), key="name", topic_partitions=1)
    assert [message.key.decode() for message in bench.messages(f"{topic}-key")] == names[:4]


def test_json_values_have_the_same_format_as_in_other_sinks(bench: KafkaSinkBench) -> None:
    topic = bench.topic()
    sql = """SELECT id, X'00FF' AS bytes, DATE '2024-02-29' AS day, TIMESTAMP_NTZ '2024-02-29 12:00:00.5' AS local,
        moment, 1.50BD AS price, array(X'01', NULL) AS parts, double('NaN') AS odd,
        named_struct('at', TIMESTAMP_NTZ '2024-01-01 00:00:00') AS inner, map('k', X'0A') AS named,
        CAST(NULL AS INT) AS nothing FROM given"""
    noon = pa.array([dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)], pa.timestamp("us", "UTC"))
    bench.write(topic, pa.record_batch({"id": [1], "moment": noon}), sql=sql, data_format="json")
    (message,) = bench.messages(topic)
    assert json.loads(message.value) == {
        "id": 1,
        "bytes": "00ff",
        "day": "2024-02-29",
        "local": "2024-02-29T12:00:00.5",
        "moment": "2024-02-29T12:00:00Z",
        "price": 1.5,
        "parts": ["01", None],
        "odd": None,
        "inner": {"at": "2024-01-01T00:00:00"},
        "named": {"k": "0a"},
        "nothing": None,
        "_gs_op": "i",
    }


# ── order ───────────────────────────────────────────────────────────────────────────────────────────────────

#: 300 changes of 7 keys, each with its number
_CHANGES = [(number % 7, str(number), "iud"[number % 3]) for number in range(300)]


@pytest.mark.parametrize("parallelism", [1, 3])
def test_changes_of_a_key_keep_their_order(bench: KafkaSinkBench, parallelism: int) -> None:
    topic = bench.topic()
    bench.write(topic, people(*_CHANGES), deduplicate=False, parallelism=parallelism)
    found = bench.rows(topic)
    for key in range(7):
        assert [int(row["name"]) for row in found if row["id"] == key] == list(range(key, 300, 7))


def test_rows_are_written_in_source_order_after_a_shuffle(spark) -> None:
    """In one process a shuffle happens to keep the order; between machines it does not."""
    order = [3, 0, 2, 5, 1, 4]
    shuffled = spark.createDataFrame([(n, f"n{n}") for n in order], f"{ORDER} long, name string").coalesce(1)
    assert [row["name"] for row in in_order(shuffled).collect()] == [f"n{n}" for n in range(6)]
    for arranged in (by_key, last_per_key):
        frame = spark.range(100, numPartitions=4)
        plan = arranged(frame, "CAST(id % 7 AS STRING)", 3)._jdf.queryExecution().optimizedPlan().toString()
        assert f"Sort [{ORDER}" in plan


@pytest.mark.parametrize("parallelism", [1, 3])
def test_only_the_last_change_of_a_key_in_a_batch_is_written(bench: KafkaSinkBench, parallelism: int) -> None:
    topic = bench.topic()
    bench.write(topic, people(*_CHANGES), people((0, "later", "d")), parallelism=parallelism)
    found = bench.rows(topic)
    assert Counter(row["id"] for row in found) == {0: 2, **dict.fromkeys(range(1, 7), 1)}
    assert {row["id"]: (row["name"], row["_gs_op"]) for row in found} == {
        **{key: (name, op) for key, name, op in _CHANGES},
        0: ("later", "d"),
    }
    assert [row["name"] for row in found if row["id"] == 0] == ["294", "later"]


# ── topic and subject ───────────────────────────────────────────────────────────────────────────────────────


def test_a_missing_topic_is_created_compacted_and_without_retention(bench: KafkaSinkBench) -> None:
    topic = bench.topic()
    bench.write(topic, numbered(0, 1))
    assert bench.partitions(topic) == 4
    settings = bench.configuration(topic)
    assert (settings["cleanup.policy"], settings["retention.ms"]) == ("compact", "-1")


def test_a_missing_topic_gets_as_many_partitions_as_topic_partitions_says(bench: KafkaSinkBench) -> None:
    topic = bench.topic()
    bench.write(topic, numbered(0, 1), topic_partitions=7)
    assert bench.partitions(topic) == 7


def test_an_existing_topic_is_not_changed(bench: KafkaSinkBench) -> None:
    topic = bench.create(bench.topic(), partitions=2, settings={"retention.ms": "86400000"})
    bench.write(topic, numbered(0, 10), topic_partitions=7)
    bench.write(topic, numbered(10, 10))
    assert bench.partitions(topic) == 2
    settings = bench.configuration(topic)
    assert (settings["cleanup.policy"], settings["retention.ms"]) == ("delete", "86400000")
    assert sorted(row["id"] for row in bench.rows(topic)) == list(range(20))


def test_a_subject_without_schema_gets_a_nullable_record_with_its_key(bench: KafkaSinkBench) -> None:
    topic = bench.topic()
    bench.write(topic, numbered(0, 1), sql="SELECT *, 1 AS sure FROM given")
    (message,) = bench.messages(topic)
    answer = bench.schemas.ask(f"/subjects/{topic}-value/versions/latest")
    nothing, written = json.loads(answer["schema"])
    assert nothing == "null"
    assert json.loads(written["doc"]) == {"primaryKeys": ["id"]}
    assert written["fields"] == [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "_gs_op", "type": "string"},
        {"name": "sure", "type": "long"},
    ]
    assert message.value[:6] == b"\0" + answer["id"].to_bytes(4, "big") + b"\x02"


def test_an_existing_schema_is_used(bench: KafkaSinkBench) -> None:
    schema = record(
        ("name", ["string", "null"]),
        ("id", "double"),
        ("note", ["null", "string"], None),
        ("level", "int", 3),
        ("label", "string", "it's"),
        name="person",
    )
    topic = bench.create(bench.topic(), schema=schema)
    rows = pa.record_batch({"id": pa.array([1], pa.int32()), "name": ["a"]})
    bench.write(topic, rows)
    expected = {"name": "a", "id": 1.0, "note": None, "level": 3, "label": "it's", "_gs_op": "i"}
    assert bench.rows(topic) == [expected]
    assert bench.schemas.ask(f"/subjects/{topic}-value/versions") == [1]


def test_with_a_schema_without_the_operation_only_the_header_has_it(bench: KafkaSinkBench) -> None:
    """Topics written before values carried `_gs_op` keep their schema."""
    old = ["null", record(("id", "long"), ("name", ["null", "string"], None))]
    topic = bench.create(bench.topic(), schema=old)
    bench.write(topic, people((1, "a", "u")))
    (message,) = bench.messages(topic)
    assert decode(bench.schemas, message.value) == {"id": 1, "name": "a"}
    assert message.header("dbz.op") == b"u"
    assert bench.schemas.ask(f"/subjects/{topic}-value/versions") == [1]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ([("id", "long")], "column 'name' is not in the schema, which has id"),
        ([("id", "int"), ("name", "string")], "column 'id' has type int64, but the schema requires int"),
        ([("id", "long"), ("name", ["null", "long"])], "column 'name' has type string, but the schema requires long"),
        ([("id", "long"), ("name", "string"), ("more", "long")], "a required field 'more'"),
    ],
)
def test_a_column_that_does_not_fit_an_existing_schema_is_named(bench: KafkaSinkBench, fields, said: str) -> None:
    topic = bench.create(bench.topic(), schema=record(*fields))
    error = bench.failure(topic, numbered(0, 1))
    assert said in str(error)
    assert "kafka sink 'out'" in str(error)
    assert error.remedy
    assert not error.internal
    assert bench.messages(topic) == []
