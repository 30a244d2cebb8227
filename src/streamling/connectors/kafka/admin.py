"""What the brokers know about a topic, asked with the Java client that Spark brings along."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from streamling.errors import StreamlingError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

_SECONDS = 15
#: Kafka's zero UUID
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
_UNKNOWN_TOPIC = "UnknownTopicOrPartitionException"
_TOPIC_EXISTS = "TopicExistsException"
_UNKNOWN_GROUP = "GroupIdNotFoundException"
#: Java exceptions that will not go away → the sentence
_REFUSED = {
    "SaslAuthenticationException": "the brokers at {brokers} refused the credentials",
    "SslAuthenticationException": "no TLS connection to the brokers at {brokers}: {said}",
    "TopicAuthorizationException": "no right to use the topic '{topic}'",
    "GroupAuthorizationException": "no right to use the consumer group",
    "ClusterAuthorizationException": "no right to do this on the brokers at {brokers}",
    "GroupSubscribedToTopicException": "the consumer group still has members that read the topic '{topic}': stop them, "
    "or wait until those that were killed time out",
    "InconsistentGroupProtocolException": "another program is in the consumer group and divides topics otherwise",
    "UnsupportedSaslMechanismException": "the brokers at {brokers} do not know this SASL mechanism",
    "ConfigException": "the Kafka settings are not usable: {said}",
    "InvalidTopicException": "'{topic}' is no name for a topic",
    "PolicyViolationException": "the brokers at {brokers} do not allow the topic '{topic}': {said}",
    "InvalidPartitionsException": "the topic '{topic}' cannot be created: {said}",
    "InvalidConfigurationException": "the topic '{topic}' cannot be created: {said}",
}


@dataclass(frozen=True)
class Member:
    """A member of a consumer group, as the brokers know it."""

    client_id: str
    host: str
    #: its partitions of the topic that was asked about
    partitions: frozenset[int]


@dataclass(frozen=True)
class Committed:
    """An offset that a consumer group has stored for a partition."""

    #: of the next message
    offset: int
    #: what whoever committed it wrote beside it
    metadata: str


@dataclass(frozen=True)
class TopicInfo:
    """A topic, as the brokers know it."""

    #: the same as long as the topic is not deleted; None from brokers that give topics no ids
    id: str | None
    partitions: list[int]


class KafkaAdmin:
    """One connection to the brokers. Calls wait at most 15 s and raise `StreamlingError`s."""

    def __init__(self, spark: SparkSession, settings: Mapping[str, str]) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._gateway: Any = spark.sparkContext._gateway
        self._brokers = settings["bootstrap.servers"]
        properties: Any = self._jvm.java.util.HashMap()
        for name, value in {**settings, "default.api.timeout.ms": str(_SECONDS * 1000)}.items():
            properties.put(name, value)
        properties.put("request.timeout.ms", str(_SECONDS * 1000))
        self._admin: Any = self.translate_errors("", lambda: self._clients.admin.AdminClient.create(properties))

    @property
    def _clients(self) -> Any:
        return self._jvm.org.apache.kafka.clients

    def describe(self, topic: str) -> TopicInfo:
        """The id and the partitions of ``topic``."""
        names = self._jvm.java.util.Collections.singletonList(topic)

        def ask() -> TopicInfo:
            described = self._result_of(self._admin.describeTopics(names).allTopicNames()).get(topic)
            id = str(described.topicId().toString())
            return TopicInfo(
                None if id == _NO_ID else id, sorted(entry.partition() for entry in described.partitions())
            )

        return self.translate_errors(topic, ask)

    def find(self, topic: str) -> TopicInfo | None:
        """The same; None when there is no such topic."""
        try:
            return self.describe(topic)
        except _UnknownTopicError:
            return None

    def partitions(self, topic: str) -> list[int]:
        """Numbers of the partitions of ``topic``."""
        return self.describe(topic).partitions

    def exists(self, topic: str) -> bool:
        """Whether there is a topic of this name."""
        return self.find(topic) is not None

    def create(self, topic: str, partitions: int, settings: Mapping[str, str]) -> None:
        """Make ``topic``, with as many replicas as the brokers choose; one that is there already stays as it is."""
        optional, properties = self._jvm.java.util.Optional, self._jvm.java.util.HashMap()
        for name, value in settings.items():
            properties.put(name, value)
        new = self._clients.admin.NewTopic(topic, optional.of(partitions), optional.empty()).configs(properties)
        topics = self._jvm.java.util.Collections.singletonList(new)
        try:
            self.translate_errors(topic, lambda: self._result_of(self._admin.createTopics(topics).all()))
        except _TopicExistsError:
            return  # another sink was faster

    def earliest(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """The first offset there is, by partition."""
        return self._offsets(topic, partitions, self._clients.admin.OffsetSpec.earliest())

    def latest(self, topic: str, partitions: Iterable[int], *, committed: bool = False) -> dict[int, int]:
        """The offset that the next message gets, by partition; with ``committed`` the last stable offset: nothing
        before it is part of an open transaction."""
        return self._offsets(topic, partitions, self._clients.admin.OffsetSpec.latest(), committed=committed)

    def at_time(
        self, topic: str, partitions: Iterable[int], milliseconds: int, *, committed: bool = False
    ) -> dict[int, int]:
        """The first offset written at a time or later, by partition; the end where there is none."""
        wanted, spec = list(partitions), self._clients.admin.OffsetSpec.forTimestamp(milliseconds)
        found = self._offsets(topic, wanted, spec, committed=committed)
        missing = [partition for partition in wanted if found[partition] < 0]
        return found | self.latest(topic, missing, committed=committed)

    def commit(self, group: str, topic: str, offsets: Mapping[int, int], metadata: str = "") -> None:
        """Store ``offsets`` (of the next message) for a consumer group, each with a ``metadata``."""
        places = self._jvm.java.util.HashMap()
        for partition, offset in offsets.items():
            places.put(
                self._topic_partition(topic, partition), self._clients.consumer.OffsetAndMetadata(offset, metadata)
            )
        self.translate_errors(
            topic, lambda: self._result_of(self._admin.alterConsumerGroupOffsets(group, places).all())
        )

    def committed(self, group: str, topic: str) -> dict[int, Committed]:
        """What a consumer group has stored for ``topic``; nothing when there is no such group."""

        def ask() -> dict[int, Committed]:
            found = self._result_of(self._admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata())
            return {
                entry.getKey().partition(): Committed(entry.getValue().offset(), str(entry.getValue().metadata()))
                for entry in found.entrySet()
                if entry.getKey().topic() == topic and entry.getValue() is not None
            }

        try:
            return self.translate_errors(topic, ask)
        except _UnknownGroupError:
            return {}

    def delete_committed(self, group: str, topic: str) -> bool:
        """Delete what a consumer group has stored for ``topic``; False when that is nothing."""
        partitions = self.committed(group, topic)
        if not partitions:
            return False
        places = self._jvm.java.util.HashSet()
        for partition in partitions:
            places.add(self._topic_partition(topic, partition))
        try:
            self.translate_errors(
                topic, lambda: self._result_of(self._admin.deleteConsumerGroupOffsets(group, places).all())
            )
        except _UnknownGroupError:
            return False
        return True

    def members(self, group: str, topic: str) -> list[Member]:
        """Who takes part in a consumer group, and what each has of ``topic``."""
        names = self._jvm.java.util.Collections.singletonList(group)

        def ask() -> list[Member]:
            described = self._result_of(self._admin.describeConsumerGroups(names).all()).get(group)
            return [
                Member(
                    member.clientId(),
                    member.host().removeprefix("/"),
                    frozenset(p.partition() for p in member.assignment().topicPartitions() if p.topic() == topic),
                )
                for member in described.members()
            ]

        return self.translate_errors(topic, ask)

    def close(self) -> None:
        """Disconnect without waiting."""
        self._admin.close(self._jvm.java.time.Duration.ZERO)

    def _offsets(self, topic: str, partitions: Iterable[int], spec: Any, *, committed: bool = False) -> dict[int, int]:
        places = {partition: self._topic_partition(topic, partition) for partition in partitions}
        if not places:
            return {}
        wanted = self._jvm.java.util.HashMap()
        for place in places.values():
            wanted.put(place, spec)

        levels = self._jvm.org.apache.kafka.common.IsolationLevel
        level = levels.READ_COMMITTED if committed else levels.READ_UNCOMMITTED
        options = self._clients.admin.ListOffsetsOptions(level)

        def ask() -> dict[int, int]:
            found = self._result_of(self._admin.listOffsets(wanted, options).all())
            return {partition: found.get(place).offset() for partition, place in places.items()}

        return self.translate_errors(topic, ask)

    def _topic_partition(self, topic: str, partition: int) -> Any:
        return self._jvm.org.apache.kafka.common.TopicPartition(topic, partition)

    def _result_of(self, future: Any) -> Any:
        return future.get(_SECONDS + 1, self._jvm.java.util.concurrent.TimeUnit.SECONDS)

    def translate_errors(self, topic: str, ask: Callable[[], T]) -> T:
        """What ``ask`` returns; what the Java client raises in there as a `StreamlingError` about ``topic``."""
        from py4j.protocol import Py4JJavaError

        try:
            return ask()
        except Py4JJavaError as error:
            raise self._translate_error(_root(error.java_exception), topic) from None

    def _translate_error(self, cause: Any, topic: str) -> StreamlingError:
        name, said = cause.getClass().getSimpleName(), str(cause.getMessage())
        if name == _UNKNOWN_TOPIC:
            return _UnknownTopicError.user(
                f"there is no topic '{topic}' at {self._brokers}", remedy="create it, or correct the name"
            ).about("topic")
        if name == _TOPIC_EXISTS:
            return _TopicExistsError.user(f"there is a topic '{topic}' already")
        if name == _UNKNOWN_GROUP:
            return _UnknownGroupError.user(f"there is no such consumer group at {self._brokers}")
        if name in _REFUSED:
            refused = StreamlingError.user(_REFUSED[name].format(brokers=self._brokers, topic=topic, said=said))
            return refused.about("topic") if "{topic}" in _REFUSED[name] else refused
        retriable = self._jvm.org.apache.kafka.common.errors.RetriableException
        passing = name == "TimeoutException" or _is_instance(self._gateway, cause, retriable)
        text = f"the brokers at {self._brokers} do not answer: {name}: {said}"
        return StreamlingError.transient(text) if passing else StreamlingError(text)


class _UnknownTopicError(StreamlingError):
    """The brokers do not know the topic they were asked about."""


class _UnknownGroupError(StreamlingError):
    """The brokers do not know the consumer group they were asked about."""


class _TopicExistsError(StreamlingError):
    """The topic that was to be created is there."""


def _root(error: Any) -> Any:
    """What a chain of Java exceptions began with; wrappers of futures say nothing."""
    while error.getClass().getSimpleName() in ("ExecutionException", "CompletionException", "KafkaException"):
        if error.getCause() is None:
            break
        error = error.getCause()
    return error


def _is_instance(gateway: Any, thing: Any, java_class: Any) -> bool:
    from py4j.java_gateway import is_instance_of

    return bool(is_instance_of(gateway, thing, java_class))
