"""Writes messages to the brokers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from streamling.connectors.kafka.admin import java_map
from streamling.plugins.streams import LocalRows
from streamling.spark.java import java_class

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BYTES = "org.apache.kafka.common.serialization.ByteArraySerializer"


class MessageWriter:
    """Does what Spark's ``write.format("kafka").save()`` does, but with a plan that we keep: row counters cannot be
    read from the plan of a `save`. ``settings`` are those of the producer."""

    def __init__(self, topic: str, settings: Mapping[str, str]) -> None:
        self._topic = topic
        self._settings = settings
        self._java_settings: Any = None

    def write(self, messages: DataFrame) -> Any:
        """Write ``messages`` and return the execution of the plan."""
        jvm: Any = messages.sparkSession._jvm
        if self._java_settings is None:
            serializers = {"key.serializer": _BYTES, "value.serializer": _BYTES}
            self._java_settings = java_map(jvm, {**self._settings, **serializers})
        execution: Any = messages._jdf.queryExecution()
        topic = jvm.scala.Option.apply(self._topic)
        jvm.org.apache.spark.sql.kafka010.KafkaWriter.write(execution, self._java_settings, topic)
        return execution


class MessageSender:
    """Writes the messages of small batches with one producer, which is created for the first of them
    (`MessageSender.java`). Errors are those of the Java client."""

    def __init__(self, topic: str, settings: Mapping[str, str], *, deduplicate: bool, is_text: bool) -> None:
        """``deduplicate``: write only the last message of each key. ``is_text``: values are text, not bytes."""
        self._topic = topic
        self._settings = settings
        self._deduplicate = deduplicate
        self._is_text = is_text
        self._sender: Any = None

    def send(self, rows: LocalRows) -> int:
        """Write rows of key, value and headers and return the number of messages, which are stored now."""
        from pyspark.sql import SparkSession

        return int(self.java(SparkSession.active()).send(rows.rows))

    def java(self, spark: SparkSession) -> Any:
        """Return the Java object, which writes rows, too."""
        if self._sender is None:
            settings = java_map(spark._jvm, self._settings)
            sender = java_class(spark._jvm, "streamling.kafka.MessageSender")
            self._sender = sender(settings, self._topic, self._deduplicate, self._is_text)
        return self._sender

    def close(self) -> None:
        """Disconnect without waiting."""
        if self._sender is not None:
            self._sender.close()
