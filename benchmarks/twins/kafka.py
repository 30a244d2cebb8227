"""Change records from Kafka in plain PySpark, and read with only Kafka's own client."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.avro.functions import from_avro

_ROWS_PER_BATCH = 1_000_000
_OPERATION = (
    "CAST(try_element_at(headers.value, CAST(nullif(array_position(headers.key, 'dbz.op'), 0) AS INT)) AS STRING)"
)
_BYTES = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
#: large enough that the cost of a call from Python does not matter
_RECORDS_PER_POLL = 5000


def to_nowhere(
    spark: SparkSession,
    brokers: str,
    topic: str,
    schema: str,
    headers: bool,
    columns: Sequence[str],
    condition: str,
) -> None:
    """All of ``topic`` → Avro → SQL → Spark's noop writer, in batches."""
    options = {
        "kafka.bootstrap.servers": brokers,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(_ROWS_PER_BATCH),
        "includeHeaders": str(headers).lower(),
    }
    messages = spark.readStream.format("kafka").options(**options).load()
    operation = [f.expr(_OPERATION).alias("op")] if headers else []
    decoded = messages.select(from_avro(f.expr("substring(value, 6)"), schema).alias("row"), *operation)
    changes = decoded.select("row.*", *(["op"] if headers else [])).where(condition)
    query = changes.selectExpr(*columns, *(["op"] if headers else [])).writeStream.format("noop")
    with tempfile.TemporaryDirectory() as folder:
        query.option("checkpointLocation", folder).trigger(availableNow=True).start().awaitTermination()


def read_only(spark: SparkSession, brokers: str, topic: str, count: int) -> None:
    """Read and discard the first ``count`` messages of partition 0."""
    gateway: Any = spark.sparkContext._gateway
    jvm = gateway.jvm
    settings = jvm.java.util.HashMap()
    for name, value in {
        "bootstrap.servers": brokers,
        "key.deserializer": _BYTES,
        "value.deserializer": _BYTES,
        "enable.auto.commit": "false",
        "max.poll.records": str(_RECORDS_PER_POLL),
    }.items():
        settings.put(name, value)
    consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(settings)
    partition = jvm.java.util.Collections.singletonList(jvm.org.apache.kafka.common.TopicPartition(topic, 0))
    consumer.assign(partition)
    consumer.seekToBeginning(partition)
    wait = jvm.java.time.Duration.ofSeconds(1)
    while count > 0:
        records = consumer.poll(wait)
        count -= records.count()
        gateway.detach(records)  # immediately: the JVM keeps it until Python releases it
    consumer.close()
