"""Pipelines of a server run once: they commit offsets to their consumer groups without being members."""

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
