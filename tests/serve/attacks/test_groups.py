"""An operator tries to use, move or delete the position of a pipeline in another namespace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from streamling.dev.services.kafka import LocalKafka
from streamling.dev.services.topics import Message, create_topic, produce
from tests.serve.attacks.attempts import Attacker
from tests.serve.server import Client

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.services]


class Victim:
    """The pipeline `shop/reader` has read ten messages."""

    def __init__(self, attacker: Attacker, shop: Client, kafka: LocalKafka) -> None:
        self.topic = f"read-by-shop-{uuid4().hex[:8]}"
        self.config = {"kafka_source": {"brokers": kafka.brokers, "security_protocol": "plaintext"}}
        self._admin = AdminClient({"bootstrap.servers": kafka.brokers, "log_level": 0})
        create_topic(kafka.brokers, self.topic, partitions=1)
        self._brokers = kafka.brokers
        self.produce(10)
        self.definition = f"""
sources: {{rows: {{type: kafka, topic: {self.topic}, data_format: json, schema: {{id: bigint}}, primary_key: id}}}}
sinks: {{out: {{type: blackhole, from: rows}}}}
"""
        fields: dict[str, Any] = {"namespace": "shop", "config": self.config}
        assert shop.create("reader", self.definition, **fields).status == 201
        attacker.server.eventually(lambda: self.offset("shop.reader-rows") == 10)

    def produce(self, rows: int) -> None:
        produce(self._brokers, self.topic, [Message(json.dumps({"id": id}).encode()) for id in range(rows)])

    def offset(self, group: str) -> int:
        """The committed offset of partition 0, -1001 if there is none."""
        request = ConsumerGroupTopicPartitions(group, [TopicPartition(self.topic, 0)])
        (future,) = self._admin.list_consumer_group_offsets([request]).values()
        try:
            return int(future.result().topic_partitions[0].offset)
        except KafkaException:  # the group's coordinator is being elected
            return -1


@pytest.fixture(scope="module")
def clients(server: Any) -> tuple[Attacker, Client]:
    from tests.serve.attacks.conftest import TOKENS

    return Attacker(server, Client(server.address, TOKENS["evil"]), "evil"), Client(server.address, TOKENS["shop"])


@pytest.fixture(scope="module")
def victim(clients: tuple[Attacker, Client], kafka: LocalKafka) -> Iterator[Victim]:
    yield Victim(*clients, kafka)
    clients[1].request("DELETE", "/pipelines/shop/reader")


@pytest.mark.parametrize(
    ("name", "head"),
    [("reader", ""), ("shop.reader", ""), ("reader-rows", ""), ("shop-reader", ""), ("named", "name: shop.reader")],
)
def test_an_operator_deletes_the_group_of_a_pipeline_with_the_same_name(
    victim: Victim, evil: Attacker, shop: Client, name, head
):
    definition = f"{head}\n{victim.definition}"
    body = {"name": name, "namespace": "evil", "definition": definition, "config": victim.config}
    assert evil.client.post("/pipelines", body).status == 201
    path = f"/pipelines/evil/{name}"
    evil.server.eventually(lambda: victim.offset(f"evil.{name}-rows") == 10)
    assert evil.client.request("DELETE", f"{path}?state=delete").status == 202
    evil.server.eventually(lambda: evil.client.get(path).status == 404)
    evil.server.eventually(lambda: victim.offset(f"evil.{name}-rows") < 0)
    assert victim.offset("shop.reader-rows") == 10
    known = shop.get("/pipelines/shop/reader").json
    assert (known["state"], known["restarts"], known["rows"]) == ("running", 0, {"out": 10})


def test_an_operator_deletes_positions_in_the_state_of_another_namespace(victim: Victim, evil: Attacker, shop: Client):
    """After its own positions are gone, those of the victim are still there: it reads only what is new."""
    body = {"name": "reader", "namespace": "evil", "definition": victim.definition, "config": victim.config}
    assert evil.client.post("/pipelines", body).status == 201
    evil.server.eventually(lambda: victim.offset("evil.reader-rows") == 10)
    assert evil.client.request("DELETE", "/pipelines/evil/reader?state=delete").status == 202
    evil.server.eventually(lambda: evil.client.get("/pipelines/evil/reader").status == 404)
    assert shop.post("/pipelines/shop/reader/restart").status in (200, 202)
    evil.server.eventually(lambda: is_current(shop.get("/pipelines/shop/reader").json))
    victim.produce(1)
    evil.server.eventually(lambda: victim.offset("shop.reader-rows") == 11)
    evil.server.eventually(lambda: shop.get("/pipelines/shop/reader").json["rows"] == {"out": 1})


def is_current(pipeline: dict[str, Any]) -> bool:
    """Whether what runs was started after the last change."""
    return bool(pipeline["current"] and pipeline["ready"])


@pytest.mark.parametrize("group", ["shop.reader", "shop.reader-rows", ""])
def test_an_operator_names_the_group_of_another_namespace(victim: Victim, evil: Attacker, group):
    config = {"kafka_source": {**victim.config["kafka_source"], "consumer_group_id": group}}
    before = victim.offset("shop.reader-rows")
    outcome = evil.create(victim.definition, config)
    assert outcome.status == 422
    assert "'kafka_source.consumer_group_id' cannot be set for one pipeline" in outcome.texts
    assert victim.offset("shop.reader-rows") == before
