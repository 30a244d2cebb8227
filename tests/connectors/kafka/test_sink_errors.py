"""The Kafka sink when brokers, the registry or rows are faulty."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from streamling.dev.services.topics import delete_topic
from streamling.errors import InvalidPipeline, StreamlingError
from tests.connectors.kafka.sink_driver import KafkaSinkBench, numbered, people, record
from tests.harness.pipelines import eventually
from tests.harness.services import KAFKA_PASSWORD, KAFKA_USER, REGISTRY_PASSWORD, REGISTRY_USER

pytestmark = [pytest.mark.spark, pytest.mark.services]


@pytest.fixture
def bench(spark, kafka, registry) -> KafkaSinkBench:
    return KafkaSinkBench(spark, kafka, registry)


def assert_reported(error: StreamlingError, *words: str) -> None:
    """Return a user error that names the node and does not show Spark's internals."""
    assert "kafka sink 'out'" in str(error)
    for word in words:
        assert word in str(error)
    assert not error.internal
    assert not error.retriable
    assert "org.apache" not in str(error)


# ── rows that cannot be written ─────────────────────────────────────────────────────────────────────────────


def test_a_row_without_its_key_is_rejected(bench: KafkaSinkBench) -> None:
    rows = pa.record_batch({"id": pa.array([1, None], pa.int64()), "na'me": ["a", "b"]})
    for deduplicate in (True, False):
        error = bench.failure(bench.topic(), rows, deduplicate=deduplicate, data_format="json")
        assert_reported(error, "the key column 'id' is null")


def test_a_null_that_the_schema_does_not_allow_names_the_column(bench: KafkaSinkBench) -> None:
    topic = bench.create(bench.topic(), schema=record(("id", "long"), ("name", "string")))
    assert_reported(bench.failure(topic, people((1, "a"), (2, None))), "column 'name' is null", "does not allow")


def test_a_value_that_an_enum_does_not_have_names_the_column(bench: KafkaSinkBench) -> None:
    colour = {"type": "enum", "name": "colour", "symbols": ["RED"]}
    topic = bench.create(bench.topic(), schema=record(("id", "long"), ("name", ["null", colour])))
    assert_reported(bench.failure(topic, people((1, "RED"), (2, "BLUE"))), "column 'name'", "BLUE")


def test_a_message_larger_than_allowed_fails_immediately(bench: KafkaSinkBench) -> None:
    error = bench.failure(bench.topic(), people((1, "x" * 5000)), message_max_bytes=2000, compression="none")
    assert_reported(error, "larger than allowed")
    assert error.remedy is not None
    assert "message_max_bytes" in error.remedy


def test_a_large_message_is_written_when_it_is_allowed(bench: KafkaSinkBench) -> None:
    topic = bench.topic()
    bench.write(topic, people((1, "x" * 3_000_000)), message_max_bytes=4_000_000, compression="none")
    assert len(bench.rows(topic)[0]["name"]) == 3_000_000


def test_an_invalid_avro_name_is_reported_before_anything_runs(bench: KafkaSinkBench) -> None:
    topic = bench.topic()
    error = bench.failure(topic, pa.record_batch({"id": [1], "größe": [1]}))
    assert_reported(error, "'größe'", "Avro does not allow")
    assert bench.partitions(topic) == 0
    bench.write(topic, pa.record_batch({"id": [1], "größe": [1]}), data_format="json")
    assert bench.rows(topic) == [{"id": 1, "größe": 1, "_gs_op": "i"}]


def test_a_failure_above_the_sink_is_not_blamed_on_it(bench: KafkaSinkBench) -> None:
    error = bench.failure(bench.topic(), numbered(0, 3), sql="SELECT id, 1 div id AS one FROM given")
    assert "sql transform 'shaped'" in str(error)
    assert "kafka sink" not in str(error)


# ── the file ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_sink_without_a_key_is_named(bench: KafkaSinkBench) -> None:
    sink = {"type": "kafka", "topic": "t", "data_format": "json", "from": "given"}
    text = json.dumps({"sources": {"given": {"type": "given"}}, "transforms": {}, "sinks": {"out": sink}})
    bench.batches = [numbered(0, 1)]
    with pytest.raises(InvalidPipeline, match="'out'"):
        bench.prepare(text)


def test_describing_a_pipeline_creates_no_topic_and_connects_to_nothing(bench: KafkaSinkBench) -> None:
    topic = bench.topic()
    bench.batches = [numbered(0, 1)]
    bench.prepare(bench.text(topic))  # with the default addresses, where nothing listens
    assert bench.partitions(topic) == 0


# ── services ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_writing_with_a_password(bench: KafkaSinkBench, mechanism: str) -> None:
    bench.settings = _with_password(bench, KAFKA_PASSWORD) | {"sasl_mechanism": mechanism}
    topic = bench.topic()
    bench.write(topic, numbered(0, 5))
    assert len(bench.rows(topic)) == 5


def test_a_wrong_password_fails_immediately_and_is_not_shown(bench: KafkaSinkBench) -> None:
    bench.settings = _with_password(bench, "wrong-one")
    error = bench.failure(bench.topic(), numbered(0, 5))
    assert_reported(error, "rejected the credentials")
    assert "wrong-one" not in "\n".join([str(error), *error.causes()])


def _with_password(bench: KafkaSinkBench, password: str) -> dict[str, Any]:
    return {
        "brokers": bench.kafka.secured_address("sasl_plaintext"),
        "security_protocol": "sasl_plaintext",
        "sasl_mechanism": "PLAIN",
        "sasl_username": KAFKA_USER,
        "sasl_password": password,
    }


def test_a_registry_that_requires_a_password(bench: KafkaSinkBench, secured_registry_url: str) -> None:
    user = {"schema_registry_url": secured_registry_url, "schema_registry_username": REGISTRY_USER}
    topic = bench.topic()
    bench.settings = {**user, "schema_registry_password": "wrong"}
    assert_reported(bench.failure(topic, numbered(0, 5)), "rejected the credentials")
    bench.settings = {**user, "schema_registry_password": REGISTRY_PASSWORD}
    bench.write(topic, numbered(0, 5))
    assert len(bench.rows(topic)) == 5


def test_an_unavailable_registry_is_retried(bench: KafkaSinkBench) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        bench.settings = {"schema_registry_url": f"http://127.0.0.1:{nobody.getsockname()[1]}"}
        bench.batches = [numbered(0, 1)]
        topic, failed = bench.topic(), []
        starting = threading.Thread(target=lambda: failed.append(_failure(lambda: bench.write(topic, numbered(0, 1)))))
        starting.start()
        eventually(lambda: bench.partitions(topic) == 4)
        assert starting.is_alive()
        starting.join(0.5)
        assert starting.is_alive()
        bench.runs[-1].stop("the test has seen enough")
        starting.join(20)
        assert "does not respond" in str(failed[0])


def _failure(call: Callable[[], object]) -> Exception | None:
    try:
        call()
    except StreamlingError as error:
        return error
    return None


def test_a_topic_deleted_under_the_pipeline_is_an_error(bench: KafkaSinkBench) -> None:
    topic = bench.topic()
    bench.between = lambda number: delete_topic(bench.kafka.brokers, topic) if number == 1 else None
    assert_reported(bench.failure(topic, numbered(0, 5), numbered(5, 5)), f"the topic '{topic}' was deleted")
    assert bench.partitions(topic) == 0


def test_columns_that_a_newer_schema_has_are_written_with_it(bench: KafkaSinkBench) -> None:
    topic = bench.create(bench.topic(), schema=record(("id", "long")))
    wider = record(("id", "long"), ("name", ["null", "string"], None))

    def register(number: int) -> None:
        if number == 0:
            bench.schemas.register(f"{topic}-value", wider)

    bench.between = register
    bench.write(topic, numbered(0, 1))
    assert bench.rows(topic) == [{"id": 0, "name": "n0", "_gs_op": "i"}]
