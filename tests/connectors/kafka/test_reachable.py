from __future__ import annotations

import socket
from typing import Any

import pytest

from streamling.connectors.kafka.reachable import check_cluster_policy, check_reachable
from streamling.connectors.kafka.sink import KafkaSink
from streamling.connectors.kafka.source import KafkaSource
from streamling.engine.run.contexts import NodeStateView
from streamling.engine.state.memory import MemoryState
from streamling.errors import StreamlingError, Unreachable
from streamling.network.policy import ANY_ADDRESS
from streamling.pipeline.config import AppConfig
from streamling.pipeline.config.core import NetworkSettings, SparkSettings
from streamling.plugins.context import NodeContext
from streamling.plugins.placeholders import NoopMetrics


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


def on_cluster(brokers: str, allow: tuple[str, ...] = (), *, master: str = "spark://host:7077") -> None:
    network = NetworkSettings(deny_private=True, allow=allow)
    check_cluster_policy(brokers, "kafka_sink", AppConfig(spark=SparkSettings(master=master), network=network))


def test_executors_connect_to_allowed_brokers_only() -> None:
    with pytest.raises(StreamlingError) as raised:
        on_cluster("kafka.example.com:9092, other.example.org:9092", ("*.example.com",))
    assert str(raised.value) == (
        "kafka_sink.brokers has 'other.example.org:9092', which the executors of a cluster may not connect to while "
        "network.deny_private is on"
    )


def test_allowed_brokers_and_brokers_of_a_local_master_pass() -> None:
    on_cluster("kafka.example.com:9092,[fd00::1]:9092", ("*.example.com", "fd00::/8"))
    on_cluster("kafka.example.com:9092", master="local[2]")


@pytest.mark.parametrize(
    ("operator", "options", "section"),
    [
        (KafkaSource, {"type": "kafka", "topic": "t", "data_format": "json", "schema": {"id": "int"}}, "kafka_source"),
        (
            KafkaSink,
            {"type": "kafka", "from": "rows", "topic": "t", "primary_key": "id", "data_format": "json"},
            "kafka_sink",
        ),
    ],
)
def test_source_and_sink_are_refused(operator: Any, options: dict[str, Any], section: str) -> None:
    settings = {"network": {"deny_private": True}, "spark": {"master": "spark://host:7077"}}
    config = AppConfig.model_validate({**settings, section: {"brokers": "kafka.example.com:9092"}})
    with pytest.raises(StreamlingError, match=f"{section}.brokers has 'kafka.example.com:9092'"):
        operator(node_context(config, operator.Options.model_validate(options)))


def node_context(config: AppConfig, options: Any) -> NodeContext[Any]:
    state = NodeStateView(MemoryState(), "node", ())
    return NodeContext(name="node", options=options, config=config, state=state, metrics=NoopMetrics())
