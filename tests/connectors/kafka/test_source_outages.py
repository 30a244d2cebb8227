"""Brokers and topics that become unavailable while a pipeline runs; secured listeners; the consumer group."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from streamling.connectors.kafka.reader import BUFFER_MESSAGES
from streamling.dev.services.topics import Client, delete_records, delete_topic
from streamling.errors import InvalidPipeline, StreamlingError
from tests.connectors.kafka.source_driver import ORDERS, KafkaBench, rows_in
from tests.harness.pipelines import eventually, finish
from tests.harness.services import KAFKA_PASSWORD, KAFKA_USER

pytestmark = [pytest.mark.spark, pytest.mark.services]


@pytest.fixture
def bench(spark, kafka, registry) -> KafkaBench:
    return KafkaBench(spark, kafka, registry)


def test_a_broker_outage_stops_neither_a_running_pipeline_nor_one_that_starts(
    spark, kafka, registry, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    running, starting = (KafkaBench(spark, kafka, registry) for _ in range(2))
    topics = [bench.topic() for bench in (running, starting)]
    for topic in topics:
        topic.write(ORDERS, {"id": 1})
    running.settings = {"consumer_fetch_timeout_sec": 5}
    starting.sections["startup_timeout_sec"] = 120
    first = running.begin(topics[0])
    eventually(lambda: rows_in(first) == 1)
    kafka.kill()
    try:
        second = starting.begin(topics[1])
        eventually(lambda: "cannot connect to the Kafka brokers" in caplog.text, 60)
        silence = f"the brokers of the topic '{topics[0].name}' do not respond; attempt 1, retrying"
        eventually(lambda: silence in caplog.text, 60)
    finally:
        kafka.start()
    topics[0].write(ORDERS, {"id": 2})
    assert [row["id"] for row in running.collected(first, 2)] == [1, 2]
    assert "kafka source 'rows': recovered after" in caplog.text
    assert [row["id"] for row in starting.collected(second, 1)] == [1]


def test_a_topic_deleted_under_the_pipeline_is_an_error(bench: KafkaBench) -> None:
    topic = bench.topic()
    topic.write(ORDERS, {"id": 1})
    run = bench.begin(topic)
    eventually(lambda: rows_in(run) == 1)
    delete_topic(topic.kafka.brokers, topic.name)
    with pytest.raises(StreamlingError, match=f"the topic '{topic.name}' does not exist"):
        finish(run, 90)


def test_messages_deleted_under_the_pipeline_are_an_error(bench: KafkaBench) -> None:
    topic = bench.topic()
    topic.write(ORDERS, *({"id": n} for n in range(5)))
    run = bench.begin(topic, batch_flush_interval="4s", batch_size=4 * BUFFER_MESSAGES)
    eventually(lambda: rows_in(run) == 5)
    topic.write(ORDERS, *({"id": n} for n in range(2 * BUFFER_MESSAGES)))  # more than have been read already
    delete_records(topic.kafka.brokers, topic.name, {0: 2 * BUFFER_MESSAGES})
    with pytest.raises(StreamlingError, match=f"starts at offset {2 * BUFFER_MESSAGES}, but the next offset to read"):
        finish(run, 90)


def test_a_missing_topic_is_named(bench: KafkaBench) -> None:
    topic = bench.topic()
    topic.register(ORDERS)
    delete_topic(topic.kafka.brokers, topic.name)
    run = bench.begin(topic)
    with pytest.raises(
        StreamlingError, match=f"kafka source 'rows': the topic '{topic.name}' does not exist"
    ) as caught:
        finish(run)
    place = run.pipeline["rows"].value_location("topic")
    assert place.line
    assert caught.value.location == f"{place.file}:{place.line}:{place.column}"


def test_a_missing_subject_is_named(bench: KafkaBench) -> None:
    topic = bench.topic()
    with pytest.raises(InvalidPipeline, match=f"has no entry for the subject '{topic.name}-value'"):
        bench.begin(topic)


def test_offsets_are_committed_to_the_group(bench: KafkaBench) -> None:
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    topic = bench.topic()
    topic.write(ORDERS, {"id": 1}, {"id": 2})
    bench.settings = {"consumer_group_id": "shop"}
    run = bench.begin(topic)
    consumer = Consumer({"bootstrap.servers": topic.kafka.brokers, "group.id": "shop-rows"})

    def committed() -> int:
        try:
            return int(consumer.committed([TopicPartition(topic.name, 0)], timeout=10)[0].offset)
        except KafkaException:  # the group's coordinator is not up yet
            return -1

    try:
        eventually(lambda: committed() == 2, 40)
    finally:
        consumer.close()
        run.stop("done")
        finish(run)


# ── secured listeners ───────────────────────────────────────────────────────────────────────────────────────


def _sasl(mechanism: str, password: str = KAFKA_PASSWORD) -> dict[str, Any]:
    return {"sasl_mechanism": mechanism, "sasl_username": KAFKA_USER, "sasl_password": password}


@pytest.mark.parametrize(
    ("listener", "mechanism"),
    [
        ("sasl_plaintext", "PLAIN"),
        ("sasl_plaintext", "SCRAM-SHA-256"),
        ("sasl_ssl", "SCRAM-SHA-512"),
        ("ssl", None),
        ("mtls", None),
    ],
)
def test_secured_listeners(bench: KafkaBench, kafka_certificates: Path, listener: str, mechanism: str | None) -> None:
    topic = bench.topic()
    topic.write(ORDERS, {"id": 1})
    client: Client = {
        "brokers": bench.kafka.secured_address(listener),
        "security_protocol": "ssl" if listener == "mtls" else listener,
        **({"ssl_ca_location": kafka_certificates / "ca.pem"} if listener.endswith(("ssl", "tls")) else {}),
        **(_sasl(mechanism) if mechanism else {}),
    }
    if listener == "mtls":
        pem = kafka_certificates / "client.pem"
        client = {**client, "ssl_certificate_location": pem, "ssl_key_location": pem}
    bench.settings = dict(client)
    assert [row["id"] for row in bench.rows(topic, 1)] == [1]


def test_a_wrong_password_is_reported_without_the_password(bench: KafkaBench) -> None:
    topic = bench.topic()
    topic.write(ORDERS, {"id": 1})
    bench.settings = {
        "brokers": bench.kafka.secured_address("sasl_plaintext"),
        "security_protocol": "sasl_plaintext",
        **_sasl("PLAIN", "wrong-password-9"),
    }
    run = bench.begin(topic)
    with pytest.raises(StreamlingError, match="rejected the credentials") as caught:
        finish(run)
    assert "wrong-password-9" not in str(caught.value) + "".join(caught.value.causes())


def test_a_broker_with_an_untrusted_certificate_is_rejected(bench: KafkaBench) -> None:
    topic = bench.topic()
    topic.write(ORDERS, {"id": 1})
    bench.settings = {"brokers": bench.kafka.secured_address("ssl"), "security_protocol": "ssl"}
    run = bench.begin(topic)
    with pytest.raises(StreamlingError, match="TLS connection to the brokers"):
        finish(run)
