"""Translates errors of Spark's Kafka source and Avro decoder into the user's terms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamling.errors import StreamlingError
from streamling.plugins.streams import StreamRestart

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: signs of the reading side; the Kafka sink has others
_READING = (
    "kafka010.consumer.",
    "kafka010.KafkaOffsetReader",
    "KafkaDataConsumer",
)
_NEW_PARTITIONS = "NewPartitionsException"
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
    """Return whether Spark's Avro decoder failed on a message."""
    return "AvroDataToCatalyst" in text or "MALFORMED_AVRO_MESSAGE" in text


def broker_error(text: str, topic: str) -> StreamlingError | None:
    """Return the error if the reading side failed and a new stream may recover. ``text`` is that of any exception of a
    plan."""
    return reading_error(text, topic) if any(name in text for name in _READING) else None


def reading_error(text: str, topic: str) -> StreamRestart | None:
    """Return the error if a new stream may recover. ``text`` is that of an exception of the reading side."""
    if _NEW_PARTITIONS in text:
        return StreamRestart(f"the topic '{topic}' has new partitions")
    if any(word in text for word in _MOVED):
        # the next stream reports what is missing when it looks up its offsets
        return StreamRestart(f"messages of the topic '{topic}' are no longer at their offsets", retriable=True)
    if any(word in text for word in _RETRIABLE):
        return StreamRestart(f"the brokers of the topic '{topic}' do not respond", retriable=True)
    return None


def first_undecodable(messages: DataFrame, is_decodable: Column) -> tuple[int, int, int] | None:
    """Return partition, offset and schema id of the first message that cannot be decoded, or None if it is not
    found."""
    try:
        bad = messages.where("value IS NOT NULL").where(~is_decodable)
        bad = bad.selectExpr("partition", "offset", "CAST(conv(hex(substring(value, 2, 4)), 16, 10) AS BIGINT) AS id")
        found = bad.orderBy("partition", "offset").limit(1).collect()
    except Exception:  # a failed search must not hide the original error
        return None
    return (found[0]["partition"], found[0]["offset"], found[0]["id"]) if found else None
