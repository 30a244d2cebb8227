"""Reads messages as they arrive, in the driver's JVM (`MessageReader.java`)."""

from __future__ import annotations

import math
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from streamling.connectors.kafka.admin import java_map
from streamling.connectors.kafka.local_plan import MessagePlan
from streamling.connectors.kafka.signals import Kind, signals_of
from streamling.plugins.sources import Wait
from streamling.plugins.streams import LocalRows, LocalStep, StepFailure, StepResult
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


_WAIT: Final = Wait(math.inf)

#: client settings, pace and topic
_Scan = tuple[frozenset[tuple[str, str]], float, str]
#: the open buffers: messages are read once for all of those with an equal scan
_scans: Counter[_Scan] = Counter()
_scans_lock: Final = threading.Lock()


def _count_scan(scan: _Scan, buffers: int) -> None:
    with _scans_lock:
        _scans[scan] += buffers
        if not _scans[scan]:
            del _scans[scan]


@dataclass(frozen=True)
class Taken:
    """Messages that were taken from the buffer, in one or more batches."""

    #: the Java object that holds those of the last batch until the next ones are taken
    messages: Any
    count: int
    #: offsets after them, of the partitions that have advanced
    offsets: Mapping[int, int]
    #: what each step has done with them
    results: Sequence[StepResult] = ()
    #: the plan that has failed with the messages that follow
    failure: StepFailure | None = None
    #: offsets after those
    failed_offsets: Mapping[int, int] = field(default_factory=dict)
    #: seconds of work
    busy: float = 0.0
    #: CPU time of the JVM for it, without that of writing
    cpu_seconds: float = 0.0
    #: whether further batches are being delivered
    continues: bool = False


class MessageBuffer:
    """The messages of a topic from given offsets on, and the steps that are run over each batch of them. All methods
    may be called on any thread, `poll` on one at a time. Errors are those of the Java client."""

    def __init__(
        self,
        spark: SparkSession,
        settings: Mapping[str, str],
        isolation_level: str,
        topic: str,
        offsets: Mapping[int, int],
        on_ready: Callable[[], None],
        *,
        is_whole: bool,
        pace: float = 0.0,
    ) -> None:
        """``on_ready`` is called when `poll` has something to return after a `Wait`. ``is_whole``: the stream reads all
        partitions and has to be restarted when there are new ones. Messages that follow others within ``pace`` seconds
        are read together, after this time."""
        jvm: Any = spark._jvm
        self._jvm = jvm
        client = {**settings, **_SETTINGS, "isolation.level": isolation_level}
        self._scan: _Scan = (frozenset(client.items()), pace, topic)
        self._subscription: Any = java_class(jvm, "streamling.kafka.MessageReader").subscribe(
            java_map(jvm, client),
            topic,
            java_map(jvm, offsets),
            is_whole,
            BUFFER_MESSAGES,
            _BUFFER_BYTES,
            int(pace * 1000),
        )
        self._loop: Any = java_class(jvm, "streamling.kafka.BatchLoop")(self._subscription)
        self._steps: Sequence[LocalStep] = ()
        self._signals = signals_of(jvm)
        self._number = int(self._loop.number())
        #: reports that have not been returned yet, and what the loop did after them
        self._reports: deque[tuple[Kind, bytes]] = deque()
        #: what the loop has been told since it stopped
        self._told: tuple[int, int, float] | None = None
        self._on_ready = on_ready
        self._signals.listen(self._number, self._on_signal)
        _count_scan(self._scan, 1)
        #: the byte of a file that is 1 while the JVM evaluates a step
        self._mark, _, self._marks = self._loop.markPlace().partition(" ")

    def run(self, steps: Sequence[LocalStep]) -> None:
        """Run ``steps`` over each batch that is taken. Called once."""
        self._steps = steps
        for step in steps:
            assert isinstance(step.plan, MessagePlan)
            self._loop.add(step.plan.java, step.writer)

    def poll(self, least: int, most: int, interval: float = 0.0) -> Taken | Wait | None:
        """Let batches of ``most`` messages at most be taken, as soon as there are ``least``, and return what has been
        taken within ``interval`` seconds, or until rows come to Python; wait for that until ``on_ready`` is called.
        None when woken, and if there are more messages than the buffer holds, but it holds fewer than ``most``
        (`is_full`). Unless the result `continues`, nothing is taken until the next call."""
        if self._reports:
            kind, report = self._reports.popleft()
            if kind is not Kind.REPORT:
                self._told = None
            if kind is Kind.FAILED:
                self._loop.raiseSourceFailure()
            return replace(self._taken(report), continues=kind is Kind.REPORT) if report else None
        if self._told != (wanted := (least, most, interval)):
            self._loop.resume(min(least, BUFFER_MESSAGES), most, int(interval * 1000), self._told is None)
            self._told = wanted
        return _WAIT

    def _on_signal(self, kind: Kind, report: bytes) -> None:
        self._reports.append((kind, report))
        self._on_ready()

    def _taken(self, data: bytes) -> Taken:
        """Parse a report (`BatchLoop.takeReport`)."""
        end = data.index(b"\n\n")
        first, *lines = data[:end].decode().split("\n")
        count, busy, cpu, failed_step, offsets = first.split(" ", 4)
        arrow, results = memoryview(data)[end + 2 :], []
        for number, line in enumerate(lines):
            rows, sent, planned, written, failed, size, observed = line.split(" ", 6)
            plan = self._steps[number].plan
            assert isinstance(plan, MessagePlan)
            results.append(
                StepResult(
                    plan.read(arrow[: int(size)]) if size != "0" else None,
                    int(rows),
                    int(sent),
                    LocalRows(self._loop.unwritten(number), int(failed)) if failed != "0" else None,
                    int(planned) / 1e9,
                    int(written) / 1e9,
                    _observed(observed),
                )
            )
            arrow = arrow[int(size) :]
        taken = Taken(
            self._subscription, int(count), _offsets(offsets), results, busy=int(busy) / 1e9, cpu_seconds=int(cpu) / 1e9
        )
        if failed_step == "-1":
            return taken
        try:
            self._loop.raiseFailure()
        except Exception as error:
            failed_offsets = _offsets(self._loop.takenOffsets())
            return replace(taken, failure=StepFailure(int(failed_step), error), failed_offsets=failed_offsets)
        raise AssertionError("a step has failed without an error")

    def is_evaluating(self) -> bool:
        """Return whether a step is being evaluated, also after the JVM has died because of it."""
        try:
            return Path(self._marks).read_bytes()[int(self._mark)] == 1
        except FileNotFoundError:  # the folder of the JVM has been removed
            return False

    def is_full(self) -> bool:
        """Return whether there may be more messages than the buffer holds."""
        return bool(self._subscription.isFull())

    def wake(self) -> None:
        """Let `poll` return as soon as no batch is being delivered."""
        with _unless_jvm_ended():
            self._loop.wake()

    def seek(self, offsets: Mapping[int, int]) -> None:
        """Drop all messages and continue at ``offsets``."""
        self._subscription.seek(java_map(self._jvm, offsets))

    @property
    def shared_with(self) -> int:
        """The number of other buffers of the process that get the messages of one consumer with it."""
        return max(0, _scans[self._scan] - 1)

    def close(self) -> None:
        if self._signals.ignore(self._number):
            _count_scan(self._scan, -1)
        with _unless_jvm_ended():
            self._loop.close()


@contextmanager
def _unless_jvm_ended() -> Iterator[None]:
    """Ignore that the JVM has ended: `MessageBuffer.poll` reports it."""
    from py4j.protocol import Py4JNetworkError

    with suppress(Py4JNetworkError):
        yield


def _offsets(text: str) -> dict[int, int]:
    pairs = (pair.split("=") for pair in text.split())
    return {int(partition): int(offset) for partition, offset in pairs}


def _observed(text: str) -> list[tuple[str, list[float | None]]]:
    pairs = (pair.split("=") for pair in text.split())
    return [(name, [float(value) if value else None for value in values.split(",")]) for name, values in pairs]
