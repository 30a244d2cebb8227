"""Translates errors of Spark's Kafka writer and Avro encoder into the user's terms."""

from __future__ import annotations

import re

from streamling.connectors.kafka.encode.messages import NULL_KEY
from streamling.errors import StreamlingError

#: classes of the writing side; the Kafka source has others
_WRITING = (
    "kafka010.KafkaWriteTask",
    "kafka010.KafkaWriter",
    "kafka010.KafkaRowWriter",
    "kafka010.producer.",
    "streamling.kafka.MessageSender",
)
_PERMANENT_ERRORS = {
    "RecordTooLargeException": "a message is larger than allowed: {message}",
    "TopicAuthorizationException": "missing permission to write to the topic '{topic}'",
    "ClusterAuthorizationException": "missing permission to write to the brokers",
    "TransactionalIdAuthorizationException": "missing permission to write to the brokers",
    "SaslAuthenticationException": "the brokers rejected the credentials",
    "SslAuthenticationException": "TLS connection to the brokers failed: {message}",
    "UnsupportedSaslMechanismException": "the brokers do not support this SASL mechanism",
    "InvalidTopicException": "'{topic}' is not a valid topic name",
    "ConfigException": "the settings of the producer are invalid: {message}",
    "PolicyViolationException": "the brokers rejected a message: {message}",
    "InvalidRecordException": "the brokers rejected a message: {message}",
}
_REMEDIES = {
    "RecordTooLargeException": "raise message_max_bytes, and max.message.bytes of the topic",
}
_RETRIABLE = (
    "TimeoutException",
    "DisconnectException",
    "NetworkException",
    "UnknownTopicOrPartitionException",
    "NotLeaderOrFollowerException",
    "LeaderNotAvailableException",
    "NotEnoughReplicas",
    "BrokerNotAvailableException",
    "CoordinatorNotAvailableException",
    "KafkaStorageException",
    "RetriableException",
    "OutOfOrderSequenceException",
    "No resolvable bootstrap urls",
)
_AVRO_NULL = re.compile(r"AVRO_CANNOT_WRITE_NULL_FIELD\] Cannot write null value for field `(\S+?)` ")
_AVRO_VALUE = re.compile(r"Cannot convert SQL field '(.+?)' to Avro field '.+?' because (.+)")


def write_error(text: str, topic: str) -> StreamlingError | None:
    """Translate ``text``, the whole text of an exception; return None if it is not about writing."""
    return _bad_row(text) or _broker_error(text, topic)


def _bad_row(text: str) -> StreamlingError | None:
    if found := re.search(re.escape(NULL_KEY) + r"(.*?)(?: SQLSTATE|$)", text, re.MULTILINE):
        return StreamlingError.user(
            f"the key column '{found[1].strip()}' is null in a row, but every message needs a key",
            remedy="filter such rows out with WHERE in a sql transform",
        )
    if found := _AVRO_NULL.search(text):
        return StreamlingError.user(
            f"column '{found[1]}' is null in a row, but the Avro schema does not allow null",
            remedy="give it a value with COALESCE in a sql transform, or register a schema that allows null",
        )
    if found := _AVRO_VALUE.search(text):
        return StreamlingError.user(f"a value of column '{found[1]}' does not fit the Avro schema: {found[2].strip()}")
    return None


def _broker_error(text: str, topic: str) -> StreamlingError | None:
    if not any(name in text for name in _WRITING):
        return None
    for name, sentence in _PERMANENT_ERRORS.items():
        if found := re.search(rf"{name}:? ?(.*)", text):
            return StreamlingError.user(
                sentence.format(topic=topic, message=found[1].strip() or name), remedy=_REMEDIES.get(name)
            )
    if any(word in text for word in _RETRIABLE):
        message = re.search(r"kafka\.common\.errors\.(\w+: .*)", text)
        return StreamlingError.transient(
            f"the brokers do not accept messages for the topic '{topic}'{f': {message[1].strip()}' if message else ''}"
        )
    return None
