"""Kafka pipelines of a server: they commit offsets without being members of their groups, and share their topics."""

from __future__ import annotations

import threading
from uuid import uuid4

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from streamling.dev.services.topics import Message, create_topic, produce
from tests.serve.server import ServeProcess

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.slow]

#: longer than the time after which an instance that reads alone joins its group
_JOINED_AFTER = 8.0


def test_offsets_are_committed_and_nobody_joins(kafka, tmp_path):
    topic, group = f"no-member-{uuid4().hex[:8]}", "default.reader-rows"
    create_topic(kafka.brokers, topic, partitions=1)
    produce(kafka.brokers, topic, [Message(b'{"id": 1}')])
    admin = AdminClient({"bootstrap.servers": kafka.brokers, "log_level": 0})

    def offset() -> int:
        (future,) = admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])]
        ).values()
        try:
            return int(future.result().topic_partitions[0].offset)
        except KafkaException:  # the group does not exist yet, or its coordinator is being elected
            return -1

    definition = f"""
sources: {{rows: {{type: kafka, topic: {topic}, data_format: json, schema: {{id: bigint}}, primary_key: id}}}}
sinks: {{out: {{type: blackhole, from: rows}}}}
"""
    variables = {"STREAMLING__KAFKA_SOURCE__BROKERS": kafka.brokers, "STREAMLING__CHECKPOINT_INTERVAL_SEC": "0.5"}
    with ServeProcess(tmp_path, variables) as server:
        client = server.start()
        assert client.create("reader", definition).status == 201
        server.eventually(lambda: offset() == 1)
        threading.Event().wait(_JOINED_AFTER)
        produce(kafka.brokers, topic, [Message(b'{"id": 2}')])
        server.eventually(lambda: offset() == 2)
        assert admin.describe_consumer_groups([group])[group].result().members == []


def test_pipelines_know_what_they_cost_and_share(kafka, tmp_path):
    topic = f"shared-{uuid4().hex[:8]}"
    create_topic(kafka.brokers, topic, partitions=1)
    variables = {"STREAMLING__KAFKA_SOURCE__BROKERS": kafka.brokers}
    with ServeProcess(tmp_path, variables) as server:
        client = server.start()
        for name in ("one", "two"):
            definition = f"""
sources: {{rows: {{type: kafka, topic: {topic}, data_format: json, schema: {{id: bigint}}, primary_key: id}}}}
transforms: {{{name}: {{type: sql, primary_key: id, sql: "SELECT id FROM rows WHERE id > 1"}}}}
sinks: {{out: {{type: blackhole, from: {name}}}}}
"""
            assert client.create(name, definition).status == 201
        server.eventually(lambda: all(client.pipeline(name)["costs"]["shared_with"] == 1 for name in ("one", "two")))
        before = client.pipeline("one")["costs"]["cpu_seconds"]
        produce(kafka.brokers, topic, [Message(b'{"id": %d}' % number) for number in range(3000)])
        server.eventually(lambda: client.pipeline("one")["rows_in"] == 3000)
        costs = client.pipeline("one")["costs"]
        assert costs["cpu_seconds"] > before
        assert costs["cpu_percent"] > 0
        assert client.request("DELETE", "/pipelines/default/two").status == 202
        server.eventually(lambda: client.pipeline("one")["costs"]["shared_with"] == 0)
