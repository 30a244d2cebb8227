"""ConnectionCheck checks for brokers and a schema registry."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from streamling.connectors.kafka.admin import KafkaAdmin, TopicInfo
from streamling.connectors.kafka.config import KafkaSettings
from streamling.connectors.kafka.reachable import check_reachable
from streamling.connectors.kafka.registry import SchemaRegistry
from streamling.connectors.kafka.settings import client_settings
from streamling.network.policy import NetworkPolicy
from streamling.pipeline.document.scalars import redact_url
from streamling.plugins.connections import ConnectionCheck

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: returns the Spark session, which is started on the first call
Sessions = Callable[[], "SparkSession"]


def topic_connection(
    config: KafkaSettings, section: str, topic: str, spark: Sessions, network: NetworkPolicy, *, must_exist: bool = True
) -> ConnectionCheck:
    """Return the check of the brokers and the topic, for `Operator.connections`."""
    check = partial(_check_topic, config, section, topic, spark, network, must_exist)
    return ConnectionCheck("Kafka", f"{config.brokers}, topic '{topic}'", check, uses_spark=True)


def registry_connection(
    config: KafkaSettings, section: str, subject: str, network: NetworkPolicy, *, must_exist: bool = True
) -> ConnectionCheck:
    """Return the check of the schema registry and the subject, for `Operator.connections`."""
    check = partial(_check_subject, config, section, subject, network, must_exist)
    return ConnectionCheck("schema registry", f"{redact_url(config.schema_registry_url)}, subject '{subject}'", check)


def _check_topic(
    config: KafkaSettings, section: str, topic: str, spark: Sessions, network: NetworkPolicy, must_exist: bool
) -> str:
    check_reachable(config.brokers, section, network)
    admin = KafkaAdmin(spark(), client_settings(config, section))
    try:
        found = admin.describe(topic) if must_exist else admin.find(topic)
    finally:
        admin.close()
    return "the topic will be created" if found is None else _partitions(found)


def _partitions(topic: TopicInfo) -> str:
    count = len(topic.partitions)
    return "1 partition" if count == 1 else f"{count} partitions"


def _check_subject(config: KafkaSettings, section: str, subject: str, network: NetworkPolicy, must_exist: bool) -> str:
    registry = SchemaRegistry.of(config, section, network)
    found = registry.latest(subject) if must_exist else registry.find_latest(subject)
    return "the schema will be registered" if found is None else f"schema {found.id}"
