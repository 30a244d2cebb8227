"""Small batches are evaluated in the driver, large ones are Spark jobs; the rows are the same."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from streamling.connectors.kafka.config import KafkaSinkSettings
from streamling.connectors.kafka.reader import BUFFER_MESSAGES
from streamling.connectors.memory import collected_rows
from streamling.dev.services.topics import Message, add_partitions, consume, create_topic
from tests.connectors.kafka.source_driver import KafkaBench, Topic, at_any_latency, rows_in
from tests.harness.pipelines import eventually, finish

pytestmark = [pytest.mark.spark, pytest.mark.services]

JSON: dict[str, Any] = {
    "data_format": "json",
    "primary_key": "id",
    "schema": {"id": "int64", "name": "string", "tags": "string"},
}


@pytest.fixture
def bench(spark, kafka, registry) -> KafkaBench:
    return KafkaBench(spark, kafka, registry)


def send(topic: Topic, first: int, count: int = 1, **message: Any) -> None:
    values = ({"id": id, "name": f"n{id}", "tags": "a,b"} for id in range(first, first + count))
    topic.send(*(Message(json.dumps(value).encode(), **message) for value in values))


def jobs(bench: KafkaBench) -> set[int]:
    return set(bench.spark.sparkContext.statusTracker().getJobIdsForGroup(None))


def batches(run: Any) -> list[int]:
    return [batch.num_rows for sink in run.graph.operators["out"] for batch in sink.batches]


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return [row["id"] for row in rows]


def stop(run: Any) -> None:
    run.stop("the test has what it wants")
    finish(run)


SQL = "SELECT id, upper(name) AS name, _gs_op FROM rows WHERE id <> 1"


@at_any_latency
def test_a_small_batch_needs_no_spark_job(bench: KafkaBench, latency: str) -> None:
    topic = bench.topic()
    send(topic, 0, 3)
    before = jobs(bench)
    rows = bench.rows(topic, 2, SQL, **JSON, latency=latency)
    assert rows == [{"id": 0, "name": "N0", "_gs_op": "i"}, {"id": 2, "name": "N2", "_gs_op": "i"}]
    assert jobs(bench) == before


@at_any_latency
def test_a_backlog_is_read_by_spark_and_what_follows_is_not(bench: KafkaBench, latency: str) -> None:
    topic, count = bench.topic(partitions=2), 2 * BUFFER_MESSAGES
    send(topic, 0, count, partition=0)
    send(topic, count, count, partition=1)
    before = jobs(bench)
    run = bench.begin(topic, **JSON, latency=latency)
    eventually(lambda: rows_in(run) == 2 * count, 60)
    after = jobs(bench)
    assert after > before
    send(topic, 2 * count, 5)
    assert sorted(ids(bench.collected(run, 2 * count + 5))) == list(range(2 * count + 5))
    assert jobs(bench) == after


def test_messages_that_arrive_faster_than_they_are_read_are_read_once(bench: KafkaBench) -> None:
    """The buffer is dropped, and Spark reads on exactly where the last batch ended."""
    topic = bench.topic()
    send(topic, 0)
    run = bench.begin(topic, **JSON)
    eventually(lambda: rows_in(run) == 1)
    before, at = jobs(bench), 1
    while jobs(bench) == before and at < 50 * BUFFER_MESSAGES:
        send(topic, at, 3 * BUFFER_MESSAGES)
        at += 3 * BUFFER_MESSAGES
    send(topic, at, 7)
    assert ids(bench.collected(run, at + 7)) == list(range(at + 7))
    assert jobs(bench) > before


def test_batches_are_not_larger_than_batch_size(bench: KafkaBench) -> None:
    topic = bench.topic()
    send(topic, 0, 95)
    run = bench.begin(topic, **JSON, batch_size=10)
    bench.collected(run, 95)
    assert max(batches(run)) == 10


def test_a_batch_waits_for_the_interval_or_until_it_is_full(bench: KafkaBench) -> None:
    topic = bench.topic()
    send(topic, 0)
    run = bench.begin(topic, **JSON, batch_size=4, batch_flush_interval="2h")
    eventually(lambda: batches(run) == [1])  # the first one does not wait
    for id in range(1, 7):
        send(topic, id)
    eventually(lambda: batches(run) == [1, 4])
    send(topic, 7, 2)
    eventually(lambda: batches(run) == [1, 4, 4])
    stop(run)


def test_a_large_batch_waits_for_the_interval_or_until_it_is_full(bench: KafkaBench) -> None:
    topic, full = bench.topic(), 3 * BUFFER_MESSAGES
    send(topic, 0)
    run = bench.begin(topic, **JSON, batch_size=full, batch_flush_interval="2h")
    eventually(lambda: batches(run) == [1])
    send(topic, 1, 2 * BUFFER_MESSAGES)
    send(topic, 1 + 2 * BUFFER_MESSAGES, BUFFER_MESSAGES)
    eventually(lambda: batches(run) == [1, full], 60)
    stop(run)


def test_the_rest_of_a_batch_is_a_job_if_the_driver_cannot_evaluate_it(bench: KafkaBench) -> None:
    topic = bench.topic()
    send(topic, 0, 3)
    (row,) = bench.rows(topic, 1, "SELECT id, _gs_keccak256(name) AS hash FROM rows WHERE id = 2", **JSON)
    assert (row["id"], row["hash"][:2]) == (2, "0x")


def test_lists_become_rows_in_the_driver(bench: KafkaBench) -> None:
    topic = bench.topic()
    send(topic, 0, 2)
    before = jobs(bench)
    rows = bench.rows(topic, 4, "SELECT id, unnest(string_to_array(tags, ',')) AS tag FROM rows", **JSON)
    assert [(row["id"], row["tag"]) for row in rows] == [(0, "a"), (0, "b"), (1, "a"), (1, "b")]
    assert jobs(bench) == before


def test_the_current_time_is_that_of_each_batch(bench: KafkaBench) -> None:
    topic = bench.topic()
    send(topic, 0)
    run = bench.begin(topic, "SELECT id, now() AS at FROM rows", **JSON)
    eventually(lambda: rows_in(run) == 1)
    between = datetime.now(UTC)
    send(topic, 1)
    first, second = (row["at"].replace(tzinfo=UTC) for row in bench.collected(run, 2))
    assert first <= between <= second


@at_any_latency
def test_rejected_messages_need_no_job_either(bench: KafkaBench, latency: str) -> None:
    topic = bench.topic()
    send(topic, 0)
    topic.send(Message(b"not JSON"))
    send(topic, 2)
    before = jobs(bench)
    run = bench.begin(topic, SQL, **JSON, latency=latency, errors={"to": "bad"})
    assert ids(bench.collected(run, 3)) == [0, 2]
    (error,) = collected_rows(run, "bad").column("error").to_pylist()
    assert "is not exactly one JSON object" in error
    assert jobs(bench) == before


def test_rows_are_counted_where_metrics_are_exported(bench: KafkaBench) -> None:
    topic = bench.topic()
    send(topic, 0, 5)
    text = json.dumps(
        {
            "sources": {"rows": {"type": "kafka", "topic": topic.name, **JSON}},
            "transforms": {
                "some": {"type": "sql", "primary_key": "id", "sql": "SELECT * FROM rows WHERE id < 4"},
                "few": {"type": "sql", "primary_key": "id", "sql": "SELECT * FROM some WHERE id < 2"},
            },
            "sinks": {"out": {"type": "blackhole", "from": "few"}},
        }
    )
    run = bench.begin_text(text, count_in_spark=True)
    eventually(lambda: rows_in(run) == 2)
    stop(run)
    counted = {node: run.metrics.value("output_rows", node) for node in ("rows", "some", "few", "out")}
    assert counted == {"rows": 5, "some": 4, "few": 2, "out": 2}
    assert run.status().rows_in == 5


def fan_out(topic: Topic, shared: str) -> str:
    return json.dumps(
        {
            "sources": {"rows": {"type": "kafka", "topic": topic.name, **JSON}},
            "transforms": {
                "shared": {"type": "sql", "primary_key": "id", "sql": shared},
                "even": {"type": "sql", "primary_key": "id", "sql": "SELECT * FROM shared WHERE id % 2 = 0"},
                "odd": {"type": "sql", "primary_key": "id", "sql": "SELECT * FROM shared WHERE id % 2 = 1"},
            },
            "sinks": {
                "out": {"type": "memory", "from": "even"},
                "other": {"type": "memory", "from": "odd"},
                "all": {"type": "memory", "from": "shared"},
            },
        }
    )


def test_several_consumers_of_a_node_need_no_job(bench: KafkaBench) -> None:
    topic = bench.topic()
    send(topic, 0, 5)
    before = jobs(bench)
    run = bench.begin_text(fan_out(topic, "SELECT id, upper(name) AS name FROM rows WHERE id > 0"), count_in_spark=True)
    eventually(lambda: rows_in(run) == 8)
    stop(run)
    assert jobs(bench) == before
    found = {sink: collected_rows(run, sink).column("name").to_pylist() for sink in ("out", "other", "all")}
    assert found == {"out": ["N2", "N4"], "other": ["N1", "N3"], "all": ["N1", "N2", "N3", "N4"]}
    nodes = ("rows", "shared", "even", "odd")
    assert [run.metrics.value("output_rows", node) for node in nodes] == [5, 4, 2, 2]
    assert [run.metrics.value("input_rows", node) for node in nodes[1:]] == [5, 4, 4]


def test_several_consumers_of_a_node_get_the_same_random_values(bench: KafkaBench) -> None:
    topic = bench.topic()
    send(topic, 0, 4)
    run = bench.begin_text(fan_out(topic, "SELECT id, random() AS name FROM rows"))
    eventually(lambda: rows_in(run) == 8)
    stop(run)
    values = {sink: collected_rows(run, sink).to_pylist() for sink in ("out", "other", "all")}
    assert sorted(values["out"] + values["other"], key=lambda row: row["id"]) == values["all"]


@at_any_latency
def test_new_partitions_are_read_from_their_start(bench: KafkaBench, latency: str) -> None:
    topic = bench.topic()
    send(topic, 0, 2)
    run = bench.begin(topic, **JSON, latency=latency)
    eventually(lambda: rows_in(run) == 2)
    add_partitions(topic.kafka.brokers, topic.name, 2)
    send(topic, 2, 3, partition=1)
    assert sorted(ids(bench.collected(run, 5))) == [0, 1, 2, 3, 4]


# ── to Kafka ────────────────────────────────────────────────────────────────────────────────────────────────


def to_kafka(bench: KafkaBench, topic: Topic, sql: str, *, latency: str = "standard", **sink: Any) -> Any:
    out = f"{topic.name}-out"
    create_topic(topic.kafka.brokers, out)
    text = json.dumps(
        {
            "sources": {"rows": {"type": "kafka", "topic": topic.name, **JSON, "latency": latency}},
            "transforms": {"shaped": {"type": "sql", "primary_key": "id", "sql": sql}},
            "sinks": {"out": {"type": "kafka", "from": "shaped", "topic": out, "data_format": "json", **sink}},
        }
    )
    config = KafkaSinkSettings(brokers=topic.kafka.brokers, schema_registry_url=bench.registry_service.url)
    bench.sections["kafka_sink"] = config
    return bench.begin_text(text)


def written(topic: Topic) -> list[Message]:
    return list(consume(topic.kafka.brokers, f"{topic.name}-out"))


@at_any_latency
def test_a_small_batch_is_written_to_kafka_without_a_job(bench: KafkaBench, latency: str) -> None:
    topic = bench.topic()
    send(topic, 0, 3, headers=(("dbz.op", b"u"),))
    before = jobs(bench)
    run = to_kafka(bench, topic, "SELECT id, name, _gs_op FROM rows", latency=latency)
    eventually(lambda: rows_in(run) == 3)
    stop(run)
    assert jobs(bench) == before
    messages = written(topic)
    assert [message.key for message in messages] == [b"0", b"1", b"2"]
    assert json.loads(messages[1].value or b"") == {"id": 1, "name": "n1", "_gs_op": "u"}
    assert {message.headers for message in messages} == {(("dbz.op", b"u"),)}


@pytest.mark.parametrize(("deduplicate", "names"), [(True, ["n2", "n3"]), (False, ["n0", "n1", "n2", "n3"])])
def test_only_the_last_message_of_a_key_is_written(bench: KafkaBench, deduplicate: bool, names: list[str]) -> None:
    topic = bench.topic()
    send(topic, 0, 4)
    run = to_kafka(bench, topic, "SELECT id % 2 AS id, name FROM rows", deduplicate=deduplicate)
    eventually(lambda: rows_in(run) == len(names))
    stop(run)
    assert [json.loads(message.value or b"")["name"] for message in written(topic)] == names


def test_avro_messages_are_written_without_a_job(bench: KafkaBench) -> None:
    from streamling.dev.services.avro import decode

    topic = bench.topic()
    send(topic, 0, 2)
    before = jobs(bench)
    run = to_kafka(bench, topic, "SELECT id, name FROM rows", data_format="avro")
    eventually(lambda: rows_in(run) == 2)
    stop(run)
    assert jobs(bench) == before
    rows = [decode(topic.registry, message.value or b"") for message in written(topic)]
    assert [row["name"] for row in rows] == ["n0", "n1"]


def test_a_row_without_a_key_is_an_error_of_the_sink(bench: KafkaBench) -> None:
    from streamling.errors import StreamlingError

    topic = bench.topic()
    send(topic, 0)
    run = to_kafka(bench, topic, "SELECT nullif(id, 0) AS id FROM rows")
    with pytest.raises(StreamlingError, match="kafka sink 'out': the key column 'id' is null in a row"):
        finish(run)
