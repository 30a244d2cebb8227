"""Writes messages to the brokers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from streamling.connectors.kafka.admin import java_map
from streamling.plugins.streams import LocalRows
from streamling.spark.java import java_class

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
    """Writes the messages of small batches with one producer, created for the first of them (`MessageSender.java`).
    Errors are those of the Java client."""

    def __init__(self, topic: str, settings: Mapping[str, str], *, deduplicate: bool, is_text: bool) -> None:
        """``deduplicate``: write only the last message of each key. ``is_text``: values are text, not bytes."""
        self._topic = topic
        self._settings = settings
        self._deduplicate = deduplicate
        self._is_text = is_text
        self._sender: Any = None

    def send(self, rows: LocalRows) -> int:
        """Write rows of key, value and headers and return the number of messages, which are stored now."""
        if self._sender is None:
            self._sender = self._connect()
        try:
            return int(self._sender.send(rows.rows))
        except Exception:
            self.close()  # a producer that has lost messages may refuse all others
            raise

    def _connect(self) -> Any:
        from pyspark.sql import SparkSession

        jvm: Any = SparkSession.active()._jvm
        settings = java_map(jvm, self._settings)
        sender = java_class(jvm, "streamling.kafka.MessageSender")
        return sender(settings, self._topic, self._deduplicate, self._is_text)

    def close(self) -> None:
        """Disconnect without waiting."""
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.close()
