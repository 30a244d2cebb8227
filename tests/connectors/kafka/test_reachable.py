from __future__ import annotations

import socket

import pytest

from streamling.connectors.kafka.reachable import check_reachable
from streamling.errors import Unreachable
from streamling.network.policy import ANY_ADDRESS


def test_every_broker_is_named_with_its_reason() -> None:
    with pytest.raises(Unreachable) as raised:
        check_reachable("127.0.0.1:1, no-such-host.invalid:9092", "kafka_source", ANY_ADDRESS)
    assert str(raised.value) == (
        "cannot connect to the Kafka brokers at 127.0.0.1:1: Connection refused; "
        "no-such-host.invalid:9092: the host name cannot be resolved"
    )
    assert raised.value.remedy == "start the brokers, or correct kafka_source.brokers"


def test_one_broker_that_responds_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        check_reachable(f"127.0.0.1:1,127.0.0.1:{listener.getsockname()[1]}", "kafka_source", ANY_ADDRESS)


def test_an_invalid_address_is_left_to_the_client() -> None:
    check_reachable("localhost", "kafka_source", ANY_ADDRESS)
    check_reachable("", "kafka_source", ANY_ADDRESS)
