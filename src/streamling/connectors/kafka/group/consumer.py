"""A Java consumer that is a member of a group but fetches no messages: the source reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from streamling.connectors.kafka.admin import java_map, java_offsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: time limit in seconds for leaving the group
_LEAVE_SECONDS = 3
#: seconds after which new partitions of the topic are detected at the latest
_METADATA_AGE = 10
#: The client wakes up this often to see whether a heartbeat is due; by default ten times a second, for every member.
_ALONE = {"retry.backoff.ms": "2000", "retry.backoff.max.ms": "2000", "metadata.max.age.ms": "300000"}


class RebalanceListener(Protocol):
    """Receives changes of a member's partitions, while it polls."""

    def on_assigned(self, partitions: frozenset[int]) -> None:
        """Take over ``partitions``, which are assigned to us; empty if only others changed."""

    def on_revoked(self, partitions: frozenset[int]) -> None:
        """Hand over ``partitions``, which are assigned to another member as soon as this returns."""

    def on_lost(self, partitions: frozenset[int]) -> None:
        """Give up ``partitions``, which another member may already own."""


class GroupConsumer:
    """One member of one group for one topic. All calls must come from one thread, except `wakeup`.

    Errors are those of the Java client (`Py4JJavaError`).
    """

    def __init__(
        self,
        spark: SparkSession,
        settings: Mapping[str, str],
        *,
        group: str,
        topic: str,
        session_timeout: float,
        rebalance_timeout: float,
        partitions: RebalanceListener,
        metadata: Callable[[], str] = str,
        is_alone: bool = False,
    ) -> None:
        """``metadata`` is stored with the committed offsets. With ``is_alone`` nothing waits for this member."""
        from pyspark.java_gateway import ensure_callback_server_started

        jvm: Any = spark._jvm
        gateway: Any = spark.sparkContext._gateway
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
        self._jvm = jvm
        self._topic = topic
        self._metadata = metadata
        own = _settings(group, session_timeout, rebalance_timeout) | (_ALONE if is_alone else {})
        properties = java_map(jvm, {**settings, **own})
        deserializer = jvm.org.apache.kafka.common.serialization.ByteArrayDeserializer()
        self.java: Any = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(properties, deserializer, deserializer)
        #: milliseconds → Java object
        self._durations: dict[int, Any] = {}
        # keep a reference: the JVM knows it only by name
        self._listener = _Listener(self.java, partitions)
        self.java.subscribe(jvm.java.util.Collections.singletonList(topic), self._listener)

    def poll(self, seconds: float) -> None:
        """Process group events for about this long."""
        milliseconds = int(seconds * 1000)
        if milliseconds not in self._durations:
            self._durations[milliseconds] = self._jvm.java.time.Duration.ofMillis(milliseconds)
        self.java.poll(self._durations[milliseconds])

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Commit the offsets of the next messages, without waiting."""
        self.java.commitAsync(self._to_java_offsets(offsets), None)

    def close(self, offsets: Mapping[int, int]) -> None:
        """Commit ``offsets`` and leave the group."""
        duration = self._jvm.java.time.Duration.ofSeconds(_LEAVE_SECONDS)
        try:
            if offsets:
                self.java.commitSync(self._to_java_offsets(offsets), duration)
        finally:
            self.java.close(duration)
            self._listener.release()

    def wakeup(self) -> None:
        """End a poll early; it raises. Thread-safe."""
        self.java.wakeup()

    def _to_java_offsets(self, offsets: Mapping[int, int]) -> Any:
        return java_offsets(self._jvm, self._topic, offsets, self._metadata())


def _settings(group: str, session_timeout: float, rebalance_timeout: float) -> dict[str, str]:
    return {
        "group.id": group,
        "enable.auto.commit": "false",
        "allow.auto.create.topics": "false",
        # members that keep their partitions continue while others move
        "partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
        "session.timeout.ms": str(int(session_timeout * 1000)),
        "heartbeat.interval.ms": str(int(min(3.0, session_timeout / 3) * 1000)),
        "max.poll.interval.ms": str(int(rebalance_timeout * 1000)),
        "metadata.max.age.ms": str(_METADATA_AGE * 1000),
        # required for partitions without committed offsets, but never used
        "auto.offset.reset": "latest",
    }


class _Listener:
    """Called by the Java client inside ``poll``, on the thread that polls."""

    def __init__(self, consumer: Any, partitions: RebalanceListener) -> None:
        self._consumer = consumer
        self._partitions: RebalanceListener | None = partitions

    def release(self) -> None:
        """Refer to nothing any more: Py4j keeps this object until Java has collected its side, which may be never, and
        with it everything that belongs to the run."""
        self._consumer = self._partitions = None

    def onPartitionsAssigned(self, partitions: Any) -> None:  # noqa: N802 - the Java interface's name
        if self._partitions is not None:
            self._consumer.pause(partitions)
            self._partitions.on_assigned(_numbers(partitions))

    def onPartitionsRevoked(self, partitions: Any) -> None:  # noqa: N802
        if self._partitions is not None and (numbers := _numbers(partitions)):
            self._partitions.on_revoked(numbers)

    def onPartitionsLost(self, partitions: Any) -> None:  # noqa: N802
        if self._partitions is not None and (numbers := _numbers(partitions)):
            self._partitions.on_lost(numbers)

    def toString(self) -> str:  # noqa: N802 - called by Java's logging
        return type(self).__name__

    class Java:
        implements: ClassVar = ["org.apache.kafka.clients.consumer.ConsumerRebalanceListener"]


def _numbers(partitions: Iterable[Any]) -> frozenset[int]:
    return frozenset(topic_partition.partition() for topic_partition in partitions)
