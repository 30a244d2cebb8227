"""Reads messages as they arrive, in the driver's JVM (`MessageReader.java`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from streamling.connectors.kafka.admin import java_map
from streamling.spark.java import java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: What the buffer of a stream holds. More messages are a Spark job, which reads them with all cores.
BUFFER_MESSAGES: Final = 10_000
_BUFFER_BYTES = 4 << 20
_SETTINGS = {
    "enable.auto.commit": "false",
    "allow.auto.create.topics": "false",
    # a missing offset is an error
    "auto.offset.reset": "none",
    # One consumer reads for many streams: a fetch of one of them must not occupy the connection for long.
    "fetch.max.bytes": str(4 << 20),
    "max.partition.fetch.bytes": str(1 << 20),
    "max.poll.records": "2000",
    # A partition that is added waits for the answer to the current fetch.
    "fetch.max.wait.ms": "100",
    # seconds after which new partitions of the topic are detected at the latest
    "metadata.max.age.ms": "5000",
    "default.api.timeout.ms": "15000",
    # no JMX beans: there is one set per client id
    "metric.reporters": "",
}


@dataclass(frozen=True)
class Taken:
    """Messages that were taken from the buffer."""

    #: the Java object that holds them until the next ones are taken
    messages: Any
    count: int
    #: offsets after them, of the partitions that have advanced
    offsets: Mapping[int, int]


class MessageBuffer:
    """The messages of a topic from given offsets on. All methods may be called on any thread, `take` on one at a
    time. Errors are those of the Java client."""

    def __init__(
        self,
        spark: SparkSession,
        settings: Mapping[str, str],
        isolation_level: str,
        topic: str,
        offsets: Mapping[int, int],
        *,
        is_whole: bool,
    ) -> None:
        """``is_whole``: the stream reads all partitions and has to be restarted when there are new ones."""
        jvm: Any = spark._jvm
        self._jvm = jvm
        client = java_map(jvm, {**settings, **_SETTINGS, "isolation.level": isolation_level})
        self._subscription: Any = java_class(jvm, "streamling.kafka.MessageReader").subscribe(
            client, topic, java_map(jvm, offsets), is_whole, BUFFER_MESSAGES, _BUFFER_BYTES
        )

    def take(self, seconds: float, least: int, most: int) -> Taken | None:
        """Wait for ``least`` messages and take at most ``most``. None after this time, when woken, and if there are
        more messages than the buffer holds, but it holds fewer than ``most`` (`is_full`)."""
        taken = self._subscription.take(int(seconds * 1000), min(least, BUFFER_MESSAGES), most)
        if taken is None:
            return None
        count, *offsets = taken.split()
        return Taken(self._subscription, int(count), dict(_pair(text) for text in offsets))

    def is_full(self) -> bool:
        """Return whether there may be more messages than the buffer holds."""
        return bool(self._subscription.isFull())

    def sleep(self, seconds: float) -> None:
        """Wait for this time, or until woken."""
        self._subscription.sleep(int(seconds * 1000))

    def wake(self) -> None:
        """End the current call of `take` or `sleep`, or the next one."""
        with _unless_jvm_ended():
            self._subscription.wake()

    def seek(self, offsets: Mapping[int, int]) -> None:
        """Drop all messages and continue at ``offsets``."""
        self._subscription.seek(java_map(self._jvm, offsets))

    def close(self) -> None:
        with _unless_jvm_ended():
            self._subscription.close()


@contextmanager
def _unless_jvm_ended() -> Iterator[None]:
    """Ignore that the JVM has ended: the thread that waits in `MessageBuffer.take` reports it."""
    from py4j.protocol import Py4JNetworkError

    with suppress(Py4JNetworkError):
        yield


def _pair(text: str) -> tuple[int, int]:
    partition, _, offset = text.partition("=")
    return int(partition), int(offset)
