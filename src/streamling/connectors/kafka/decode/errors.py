"""What Spark's Kafka source and its Avro decoder say when they fail, in the user's terms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from streamling.connectors.kafka.batch_options import STREAM_ONLY
from streamling.errors import StreamlingError
from streamling.plugins.operators import StreamRestart

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

#: signs of the reading side; the Kafka sink has others. What fails outside of a batch is the look-up of offsets, and
#: there Spark's text has the query instead of a Java stack.
_READING = (
    "kafka010.consumer.",
    "kafka010.KafkaOffsetReader",
    "kafka010.KafkaMicroBatchStream",
    "KafkaDataConsumer",
    "=== Streaming Query ===",
)
_MOVED = (
    "KAFKA_DATA_LOSS",
    "OffsetOutOfRangeException",
    "KafkaIllegalStateException",
    "UnknownTopicOrPartitionException",
    "UnknownTopicIdException",
)
_RETRIABLE = (
    "TimeoutException",
    "DisconnectException",
    "NetworkException",
    "NotLeaderOrFollowerException",
    "LeaderNotAvailableException",
    "BrokerNotAvailableException",
    "CoordinatorNotAvailableException",
    "KafkaStorageException",
    "RetriableException",
    "No resolvable bootstrap urls",
)


def is_undecodable(text: str) -> bool:
    """Whether Spark's Avro decoder gave up on a message."""
    return "AvroDataToCatalyst" in text or "MALFORMED_AVRO_MESSAGE" in text


def broker_error(text: str, topic: str) -> StreamlingError | None:
    """A failure of the reading side that a new query may get over."""
    if not any(name in text for name in _READING):
        return None
    if any(word in text for word in _MOVED):
        # what is missing comes out when the next query looks for its place
        return StreamRestart(f"messages of the topic '{topic}' are not where they were", retriable=True)
    if any(word in text for word in _RETRIABLE):
        return StreamRestart(f"the brokers of the topic '{topic}' do not answer", retriable=True)
    return None


def first_undecodable(
    spark: SparkSession, options: Mapping[str, str], is_decodable: Column
) -> tuple[int, int, int] | None:
    """Partition, offset and schema id of the first message from the starting offsets on that cannot be decoded; None
    when it cannot be found."""
    kept = {name: value for name, value in options.items() if name not in STREAM_ONLY}
    try:
        messages = spark.read.format("kafka").options(**kept).load()
        bad = messages.where("value IS NOT NULL").where(~is_decodable)
        bad = bad.selectExpr("partition", "offset", "CAST(conv(hex(substring(value, 2, 4)), 16, 10) AS BIGINT) AS id")
        found = bad.orderBy("partition", "offset").limit(1).collect()
    except Exception:  # a search that fails must not hide what it was to explain
        return None
    return (found[0]["partition"], found[0]["offset"], found[0]["id"]) if found else None
