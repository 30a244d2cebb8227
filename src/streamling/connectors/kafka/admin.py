"""Queries the brokers about topics and groups with the Java client that Spark ships."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from streamling.errors import StreamlingError
from streamling.plugins.shared import SharedResources
from streamling.spark.java import java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

_SECONDS = 15
#: longer, so that the client's own error is reported
_WAIT = _SECONDS + 1
#: the times of the first message and after the last one, as in Kafka's protocol
_EARLIEST, _LATEST = -2, -1
#: Kafka's zero UUID
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
_UNKNOWN_TOPIC = "UnknownTopicOrPartitionException"
_TOPIC_EXISTS = "TopicExistsException"
_UNKNOWN_GROUP = "GroupIdNotFoundException"
#: Java exceptions of permanent errors → the message
_PERMANENT_ERRORS = {
    "SaslAuthenticationException": "the brokers at {brokers} rejected the credentials",
    "SslAuthenticationException": "TLS connection to the brokers at {brokers} failed: {message}",
    "TopicAuthorizationException": "missing permission for the topic '{topic}'",
    "GroupAuthorizationException": "missing permission for the consumer group",
    "ClusterAuthorizationException": "missing permission on the brokers at {brokers}",
    "GroupSubscribedToTopicException": "the consumer group still has members that read the topic '{topic}': stop "
    "them, or wait until members that were killed time out",
    "InconsistentGroupProtocolException": "the consumer group has a member of another program that uses another "
    "assignment strategy",
    "UnsupportedSaslMechanismException": "the brokers at {brokers} do not support this SASL mechanism",
    "ConfigException": "the Kafka settings are invalid: {message}",
    "InvalidTopicException": "'{topic}' is not a valid topic name",
    "PolicyViolationException": "the brokers at {brokers} do not allow the topic '{topic}': {message}",
    "InvalidPartitionsException": "the topic '{topic}' cannot be created: {message}",
    "InvalidConfigurationException": "the topic '{topic}' cannot be created: {message}",
}


@dataclass(frozen=True)
class Member:
    """A member of a consumer group, as the brokers report it."""

    client_id: str
    host: str
    #: its partitions of the requested topic
    partitions: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Committed:
    """An offset that a consumer group has stored for a partition."""

    #: offset of the next message
    offset: int
    #: metadata stored with the offset
    metadata: str


@dataclass(frozen=True)
class TopicInfo:
    """A topic, as the brokers report it."""

    #: unchanged until the topic is deleted; None from brokers that do not assign topic ids
    id: str | None
    partitions: list[int]


class KafkaAdmin:
    """One connection to the brokers. Calls time out after 15 s and raise `StreamlingError`s."""

    def __init__(self, spark: SparkSession, settings: Mapping[str, str]) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._gateway: Any = spark.sparkContext._gateway
        self._topic_infos: Any = java_class(jvm, "streamling.kafka.TopicInfos")
        self._brokers = settings["bootstrap.servers"]
        timeout = str(_SECONDS * 1000)
        properties = java_map(jvm, {**settings, "default.api.timeout.ms": timeout, "request.timeout.ms": timeout})
        self._admin: Any = self.translate_errors("", lambda: self._clients.admin.AdminClient.create(properties))

    @classmethod
    def shared(cls, shared: SharedResources, spark: SparkSession, settings: Mapping[str, str]) -> KafkaAdmin:
        """Return the connection of all users of ``shared`` with equal settings, who release it."""
        gateway: Any = spark.sparkContext._gateway
        return shared.acquire(cls, lambda: cls(spark, settings), gateway, frozenset(settings.items()))

    @property
    def _clients(self) -> Any:
        return self._jvm.org.apache.kafka.clients

    def describe(self, topic: str) -> TopicInfo:
        """Return the id and the partitions of ``topic``."""
        names = self._jvm.java.util.Collections.singletonList(topic)

        def call() -> TopicInfo:
            described = self._result_of(self._admin.describeTopics(names).allTopicNames()).get(topic)
            id = str(described.topicId().toString())
            return TopicInfo(
                None if id == _NO_ID else id, sorted(entry.partition() for entry in described.partitions())
            )

        return self.translate_errors(topic, call)

    def find(self, topic: str) -> TopicInfo | None:
        """Return what `describe` does, or None if the topic does not exist."""
        try:
            return self.describe(topic)
        except _UnknownTopicError:
            return None

    def partitions(self, topic: str) -> list[int]:
        """Return the partition numbers of ``topic``."""
        return self.describe(topic).partitions

    def exists(self, topic: str) -> bool:
        """Return whether the topic exists."""
        return self.find(topic) is not None

    def create(self, topic: str, partitions: int, settings: Mapping[str, str]) -> None:
        """Create ``topic`` with the brokers' default number of replicas; an existing topic is left unchanged."""
        optional, properties = self._jvm.java.util.Optional, java_map(self._jvm, settings)
        new = self._clients.admin.NewTopic(topic, optional.of(partitions), optional.empty()).configs(properties)
        topics = self._jvm.java.util.Collections.singletonList(new)
        try:
            self.translate_errors(topic, lambda: self._result_of(self._admin.createTopics(topics).all()))
        except _TopicExistsError:
            return  # another sink was faster

    def earliest(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Return the first available offset, by partition."""
        return self._offsets(topic, partitions, _EARLIEST)

    def latest(self, topic: str, partitions: Iterable[int], *, committed: bool = False) -> dict[int, int]:
        """Return the offset of the next message, by partition; with ``committed`` the last stable offset: no message
        before it belongs to an open transaction."""
        return self._offsets(topic, partitions, _LATEST, committed=committed)

    def at_time(
        self, topic: str, partitions: Iterable[int], milliseconds: int, *, committed: bool = False
    ) -> dict[int, int]:
        """Return the first offset written at this time or later, by partition; the end of the partition if there is
        none."""
        requested = list(partitions)
        found = self._offsets(topic, requested, milliseconds, committed=committed)
        missing = [partition for partition in requested if found[partition] < 0]
        return found | self.latest(topic, missing, committed=committed)

    def ends(self, partitions: Iterable[tuple[str, int]], *, committed: bool) -> dict[tuple[str, int], int]:
        """Return the offset of the next message of these partitions of any topics, as `latest` does, with one request.
        Partitions that cannot be found are missing."""
        lines = "\n".join(f"{topic} {partition}" for topic, partition in partitions)
        found = self.translate_errors("", lambda: self._topic_infos.ends(self._admin, lines, committed))
        fields = (line.split(" ") for line in found.splitlines())
        return {(topic, int(partition)): int(offset) for topic, partition, offset in fields}

    def ids(self, topics: Iterable[str]) -> dict[str, str | None]:
        """Return the ids of ``topics``, with one request; topics that cannot be found are missing."""
        lines = "\n".join(topics)
        found = self.translate_errors("", lambda: self._topic_infos.ids(self._admin, lines))
        fields = (line.split(" ") for line in found.splitlines())
        return {topic: None if id == _NO_ID else id for topic, id in fields}

    def commit(self, group: str, topic: str, offsets: Mapping[int, int], metadata: str = "") -> None:
        """Commit ``offsets`` (of the next message) for a consumer group, each with ``metadata``."""
        committed = java_offsets(self._jvm, topic, offsets, metadata)
        self.translate_errors(
            topic, lambda: self._result_of(self._admin.alterConsumerGroupOffsets(group, committed).all())
        )

    def commit_later(
        self, group: str, topic: str, offsets: Mapping[int, int], metadata: str = ""
    ) -> StreamlingError | None:
        """Do the same without waiting. Returns why the call before has failed."""
        java, text = java_class(self._jvm, "streamling.kafka.GroupOffsets"), offsets_text(offsets)
        try:
            self.translate_errors(topic, lambda: java.commitLater(self._admin, group, topic, text, metadata))
        except StreamlingError as error:
            return error
        return None

    def committed(self, group: str, topic: str) -> dict[int, Committed]:
        """Return the offsets that a consumer group has committed for ``topic``; empty if the group does not exist."""

        def call() -> dict[int, Committed]:
            found = self._result_of(self._admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata())
            return {
                entry.getKey().partition(): Committed(entry.getValue().offset(), str(entry.getValue().metadata()))
                for entry in found.entrySet()
                if entry.getKey().topic() == topic and entry.getValue() is not None
            }

        try:
            return self.translate_errors(topic, call)
        except _UnknownGroupError:
            return {}

    def delete_committed(self, group: str, topic: str) -> bool:
        """Delete the offsets that a consumer group has committed for ``topic``; return False if there are none."""
        partitions = self.committed(group, topic)
        if not partitions:
            return False
        topic_partitions = self._jvm.java.util.HashSet()
        for partition in partitions:
            topic_partitions.add(self._jvm.org.apache.kafka.common.TopicPartition(topic, partition))
        try:
            self.translate_errors(
                topic, lambda: self._result_of(self._admin.deleteConsumerGroupOffsets(group, topic_partitions).all())
            )
        except _UnknownGroupError:
            return False
        return True

    def members(self, group: str, topic: str) -> list[Member]:
        """Return the members of a consumer group, with their partitions of ``topic``."""
        names = self._jvm.java.util.Collections.singletonList(group)

        def call() -> list[Member]:
            described = self._result_of(self._admin.describeConsumerGroups(names).all()).get(group)
            return [
                Member(
                    member.clientId(),
                    member.host().removeprefix("/"),
                    frozenset(p.partition() for p in member.assignment().topicPartitions() if p.topic() == topic),
                )
                for member in described.members()
            ]

        return self.translate_errors(topic, call)

    def members_of(self, groups: Iterable[str]) -> dict[str, list[Member]]:
        """Return the members of consumer groups, without partitions, with one request. Groups that cannot be described
        are missing: `members` raises the error."""
        lines = "\n".join(groups)
        members = java_class(self._jvm, "streamling.kafka.GroupMembers")
        found = self.translate_errors("", lambda: members.of(self._admin, lines))
        named: dict[str, list[Member]] = {}
        for line in found.splitlines():
            group, *fields = line.split("\t")
            pairs = zip(fields[::2], fields[1::2], strict=True)
            named[group] = [Member(client_id, host.removeprefix("/")) for client_id, host in pairs]
        return named

    def close(self) -> None:
        """Disconnect without waiting."""
        self._admin.close(self._jvm.java.time.Duration.ZERO)

    def _offsets(self, topic: str, partitions: Iterable[int], time: int, *, committed: bool = False) -> dict[int, int]:
        """Return the offsets at ``time``, in milliseconds, or one of Kafka's two special times."""
        numbers = " ".join(map(str, partitions))
        if not numbers:
            return {}

        def call() -> str:
            found: str = self._topic_infos.offsets(self._admin, topic, numbers, time, committed, _WAIT)
            return found

        pairs = (pair.split("=") for pair in self.translate_errors(topic, call).split())
        return {int(partition): int(offset) for partition, offset in pairs}

    def _result_of(self, future: Any) -> Any:
        return future.get(_WAIT, self._jvm.java.util.concurrent.TimeUnit.SECONDS)

    def translate_errors(self, topic: str, call: Callable[[], T]) -> T:
        """Call ``call``; translate exceptions of the Java client to `StreamlingError`s about ``topic``."""
        from py4j.protocol import Py4JJavaError

        try:
            return call()
        except Py4JJavaError as error:
            raise self.translate_error(error, topic) from None

    def translate_error(self, error: Any, topic: str) -> StreamlingError:
        """Translate a `Py4JJavaError` of the Java client."""
        cause = _root(error.java_exception)
        name, message = cause.getClass().getSimpleName(), str(cause.getMessage())
        if name == _UNKNOWN_TOPIC:
            return _UnknownTopicError.user(
                f"the topic '{topic}' does not exist at {self._brokers}", remedy="create it, or correct the name"
            ).about("topic")
        if name == _TOPIC_EXISTS:
            return _TopicExistsError.user(f"the topic '{topic}' already exists")
        if name == _UNKNOWN_GROUP:
            return _UnknownGroupError.user(f"the consumer group does not exist at {self._brokers}")
        if name in _PERMANENT_ERRORS:
            permanent = StreamlingError.user(
                _PERMANENT_ERRORS[name].format(brokers=self._brokers, topic=topic, message=message)
            )
            return permanent.about("topic") if "{topic}" in _PERMANENT_ERRORS[name] else permanent
        retriable = self._jvm.org.apache.kafka.common.errors.RetriableException
        is_retriable = name == "TimeoutException" or _is_instance(self._gateway, cause, retriable)
        text = f"the brokers at {self._brokers} do not respond: {name}: {message}{self._network_hint()}"
        return StreamlingError.transient(text) if is_retriable else StreamlingError(text)

    def _network_hint(self) -> str:
        """Return what to add to an error: the client does not say that it has refused the address of a broker
        (`DefaultHostResolver`)."""
        if self._jvm.java.lang.System.getProperty("streamling.network.denied") is None:
            return ""
        return " (network.deny_private is on: addresses that brokers name must be public, or in network.allow)"


def java_offsets(jvm: Any, topic: str, offsets: Mapping[int, int], metadata: str) -> Any:
    """Return offsets of next messages as the Java clients commit them, each with ``metadata``."""
    return java_class(jvm, "streamling.kafka.GroupOffsets").of(topic, offsets_text(offsets), metadata)


def offsets_text(offsets: Mapping[int, int]) -> str:
    """Return partitions and the offsets of their next messages: ``0=17 3=4``."""
    return " ".join(f"{partition}={offset}" for partition, offset in offsets.items())


def java_map(jvm: Any, entries: Mapping[Any, Any]) -> Any:
    """Return a Java map with these entries."""
    made = jvm.java.util.HashMap()
    for key, value in entries.items():
        made.put(key, value)
    return made


class _UnknownTopicError(StreamlingError):
    """The topic does not exist."""


class _UnknownGroupError(StreamlingError):
    """The consumer group does not exist."""


class _TopicExistsError(StreamlingError):
    """The topic to be created already exists."""


def _root(error: Any) -> Any:
    """Return the root of a chain of Java exceptions; wrappers of futures carry no information."""
    while error.getClass().getSimpleName() in ("ExecutionException", "CompletionException", "KafkaException"):
        if error.getCause() is None:
            break
        error = error.getCause()
    return error


def _is_instance(gateway: Any, thing: Any, java_class: Any) -> bool:
    from py4j.java_gateway import is_instance_of

    return bool(is_instance_of(gateway, thing, java_class))
