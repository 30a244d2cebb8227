"""Writes messages to the brokers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

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
            self._java_settings = _java_map(jvm, self._settings)
        execution: Any = messages._jdf.queryExecution()
        topic = jvm.scala.Option.apply(self._topic)
        jvm.org.apache.spark.sql.kafka010.KafkaWriter.write(execution, self._java_settings, topic)
        return execution


def _java_map(jvm: Any, settings: Mapping[str, str]) -> Any:
    properties = jvm.java.util.HashMap()
    for name, value in {**settings, "key.serializer": _BYTES, "value.serializer": _BYTES}.items():
        properties.put(name, value)
    return properties
