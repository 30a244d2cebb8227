from __future__ import annotations

from pathlib import Path

import pytest
from tests.harness.services import KAFKA_PASSWORD, KAFKA_USER

from streamling.dev.services.kafka import LocalKafka
from streamling.dev.services.packages import Packages
from streamling.dev.services.topics import Message, consume, create_topic, end_offsets, produce
from streamling.errors import StreamlingError

pytestmark = pytest.mark.services


@pytest.mark.soak
def test_messages_and_ports_survive_a_kill(tmp_path: Path, packages: Packages) -> None:
    broker = LocalKafka(tmp_path / "kafka", packages=packages)
    broker.start()
    address, pid = broker.brokers, broker.pid
    create_topic(address, "orders")
    produce(address, "orders", [Message(b"1"), Message(b"2")])

    broker.kill()
    assert not broker.running
    again = LocalKafka(tmp_path / "kafka", packages=packages)  # as another process would find it
    again.start()
    try:
        assert again.brokers == address
        assert again.pid != pid
        assert [message.value for message in consume(address, "orders")] == [b"1", b"2"]
        assert LocalKafka(tmp_path / "kafka", packages=packages).running
    finally:
        again.stop()
    assert not broker.running


def test_writing_to_a_missing_topic_does_not_create_it(kafka: LocalKafka) -> None:
    with pytest.raises(StreamlingError, match="cannot write to the topic 'nowhere'"):
        produce(kafka.brokers, "nowhere", [Message(b"1")])


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("listener", ["sasl_plaintext", "sasl_ssl"])
def test_a_secured_listener_demands_the_password(
    kafka: LocalKafka, kafka_certificates: Path, listener: str, mechanism: str
) -> None:
    topic = f"{listener}-{mechanism}"
    create_topic(kafka.brokers, topic)
    client = {
        "security.protocol": listener,
        "ssl.ca.location": str(kafka_certificates / "ca.pem"),
        "sasl.mechanism": mechanism,
        "sasl.username": KAFKA_USER,
        "sasl.password": KAFKA_PASSWORD,
    }
    address = kafka.secured_address(listener)
    assert produce(address, topic, [Message(b"1")], client=client) == 1

    wrong = {**client, "sasl.password": "wrong", "message.timeout.ms": 2000}
    with pytest.raises(StreamlingError, match="cannot write"):
        produce(address, topic, [Message(b"2")], client=wrong)
    assert end_offsets(kafka.brokers, topic) == {0: 1}


def test_tls_listeners_demand_trust_and_a_client_certificate(kafka: LocalKafka, kafka_certificates: Path) -> None:
    create_topic(kafka.brokers, "tls")
    trusting = {"security.protocol": "ssl", "ssl.ca.location": str(kafka_certificates / "ca.pem")}
    client_pem = str(kafka_certificates / "client.pem")
    known = {**trusting, "ssl.key.location": client_pem, "ssl.certificate.location": client_pem}

    assert produce(kafka.secured_address("ssl"), "tls", [Message(b"1")], client=trusting) == 1
    assert produce(kafka.secured_address("mtls"), "tls", [Message(b"1")], client=known) == 1
    soon = {"message.timeout.ms": 2000}
    with pytest.raises(StreamlingError, match="cannot write"):
        produce(kafka.secured_address("mtls"), "tls", [Message(b"1")], client={**trusting, **soon})
    with pytest.raises(StreamlingError, match="cannot write"):
        produce(kafka.secured_address("ssl"), "tls", [Message(b"1")], client={"security.protocol": "ssl", **soon})
    assert end_offsets(kafka.brokers, "tls") == {0: 2}
