"""Taking part in a consumer group: a thread that keeps the membership alive and tells which partitions are ours.

**Handing over.** When partitions are to go to another member, the group waits for the thread to poll again. Before
that the stream is stopped after the batch under way and a checkpoint stores everything that was delivered; so the next
owner finds the position in the state, and no row is on its way any more. Members that keep all of their partitions
are not disturbed.

**Being cut off.** A member that was silent for longer than the session time-out has lost its partitions without being
asked. Its stream is stopped as soon as it hears of that; what it may still try to store is refused by the state
(claims).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from logging import Logger
from typing import TypeVar

from streamling.connectors.kafka.admin import KafkaAdmin
from streamling.connectors.kafka.group.consumer import GroupConsumer, RebalanceListener
from streamling.connectors.kafka.group.instances import GroupConflict, Instance
from streamling.errors import StreamlingError

ResultT = TypeVar("ResultT")

#: seconds of one poll: how late a commit may be, nothing else waits for it
_POLL = 1.0
#: seconds before an instance that reads everything anyway shows up in the group: the start is busy enough
_ALONE_DELAY = 5.0
#: seconds between two looks at a rival that may be dead
_CHECK_INTERVAL = 1.0
#: seconds for the thread to end
_END = 6.0
#: part of the time that the group waits for us which a hand-over may take
_SHARE_OF_REBALANCE = 0.9


@dataclass(frozen=True)
class ConsumerGroup:
    """A consumer group, and how patient its brokers are with a member."""

    name: str
    session_timeout: float
    #: how long others wait for a member that has to give partitions away
    rebalance_timeout: float


@dataclass(frozen=True)
class StreamControl:
    """What the membership may ask of the stream that reads the partitions; see `NodeContext`."""

    restart: Callable[[float], bool]
    checkpoint: Callable[[float], bool]


class Membership(RebalanceListener):
    """The membership of one instance. Its own thread calls the methods of `RebalanceListener`; any thread may call the
    others."""

    def __init__(
        self,
        connect: Callable[[RebalanceListener], GroupConsumer],
        admin: KafkaAdmin,
        group: ConsumerGroup,
        me: Instance,
        stream: StreamControl,
        log: Logger,
    ) -> None:
        self._connect = connect
        self._admin = admin
        self._group = group
        self._me = me
        self._stream = stream
        self._log = log
        self._lock = threading.Lock()
        self._consumer: GroupConsumer | None = None
        #: our partitions, each with the number of the time we got it; None until the group has told
        self._assignment: dict[int, int] | None = None
        self._assignment_count = 0
        self._handing_over = False
        self._uncommitted: dict[int, int] = {}
        self._error: StreamlingError | None = None
        #: when to look for rivals next, and since when there is one
        self._next_check: float | None = None
        self._conflict_since: float | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"group {group.name}", daemon=True)

    # ── for the source ──────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """Join the group; returns at once."""
        self._thread.start()

    def check(self) -> None:
        """Raise what made the membership fail."""
        with self._lock:
            if self._error is not None:
                raise self._error

    def assignment(self) -> Mapping[int, int] | None:
        """Our partitions, each with a number that changes when it was away in between. None: not known yet, or
        about to change; the stream is restarted when it is."""
        with self._lock:
            return None if self._assignment is None or self._handing_over else dict(self._assignment)

    def commit(self, offsets: Mapping[int, int]) -> bool:
        """Tell the group offsets of next messages, as soon as we are a member with these partitions; False when that
        is not so yet."""
        with self._lock:
            self._uncommitted.update(offsets)
            return self._assignment is not None

    def close(self) -> None:
        """Leave the group, at once and without handing over: everything is stored, or is not to be."""
        self._stopping.set()
        with self._lock:
            consumer = self._consumer
        if consumer is not None:
            consumer.wakeup()
        if self._thread.ident is not None:
            self._thread.join(_END)

    # ── told by the group ───────────────────────────────────────────────────────────────────────────────────

    def on_assigned(self, partitions: frozenset[int]) -> None:
        with self._lock:
            first = self._assignment is None
            assignment = self._assignment or {}
            for partition in partitions:
                self._assignment_count += 1
                assignment[partition] = self._assignment_count
            self._assignment = assignment
            self._next_check = time.monotonic()
        if self._me.shares and (partitions or first):
            self._stream.restart(0)

    def on_revoked(self, partitions: frozenset[int]) -> None:
        if self._me.shares and not self._stopping.is_set():
            self._hand_over(partitions)
        self._drop(partitions)

    def on_lost(self, partitions: frozenset[int]) -> None:
        if not self._stopping.is_set() and self._me.shares:
            self._log.warning(
                "the group '%s' took %s away: this instance did not answer for %g s",
                self._group.name,
                listed(partitions),
                self._group.session_timeout,
            )
        self._drop(partitions)

    def _hand_over(self, partitions: frozenset[int]) -> None:
        with self._lock:
            self._handing_over = True
        began = time.monotonic()
        until = began + self._group.rebalance_timeout * _SHARE_OF_REBALANCE
        if self._stream.restart(until - began) and self._stream.checkpoint(max(0.0, until - time.monotonic())):
            self._log.debug("%s handed over after %.1f s", listed(partitions), time.monotonic() - began)
        elif not self._stopping.is_set():
            self._log.warning(
                "%s could not be finished within %.0f s: rows since the last checkpoint come again where they go",
                listed(partitions),
                time.monotonic() - began,
            )

    def _drop(self, partitions: frozenset[int]) -> None:
        with self._lock:
            self._assignment = {p: gain for p, gain in (self._assignment or {}).items() if p not in partitions}
            self._handing_over = False
        if self._me.shares:
            self._stream.restart(0)

    # ── the thread ──────────────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        try:
            if self._me.shares or not self._stopping.wait(_ALONE_DELAY):
                self._poll_loop()
        except Exception as error:
            if not self._stopping.is_set():
                self._failed(StreamlingError.wrap(error, f"consumer group '{self._group.name}'"))
        finally:
            self._leave()

    def _poll_loop(self) -> None:
        consumer = self._translate_errors(lambda: self._connect(self))
        with self._lock:
            self._consumer = consumer
        while not self._stopping.is_set():
            try:
                self._translate_errors(lambda: consumer.poll(_POLL))
                if offsets := self._to_commit():
                    self._translate_errors(lambda: consumer.commit(offsets))
                self._check_conflict()
            except StreamlingError as error:
                if not error.retriable:
                    raise
                self._log.debug("consumer group '%s': %s", self._group.name, error)
                self._stopping.wait(_POLL)

    def _translate_errors(self, ask: Callable[[], ResultT]) -> ResultT:
        return self._admin.translate_errors(self._me.topic, ask)

    def _to_commit(self) -> dict[int, int]:
        """What is to be committed now: for partitions of others, they do it."""
        with self._lock:
            if self._assignment is None:
                return {}
            offsets, self._uncommitted = self._uncommitted, {}
            return {partition: offset for partition, offset in offsets.items() if partition in self._assignment}

    def _check_conflict(self) -> None:
        """After each change in the group: a rival that stays longer than a dead member would is real."""
        now = time.monotonic()
        if self._next_check is None or now < self._next_check:
            return
        conflicting_member = self._me.conflicting_member(self._admin.members(self._group.name, self._me.topic))
        if conflicting_member is None:
            self._next_check = self._conflict_since = None
            return
        self._next_check = now + _CHECK_INTERVAL
        self._conflict_since = self._conflict_since or now
        if now - self._conflict_since > self._group.session_timeout + _CHECK_INTERVAL:
            raise self._me.conflict_error(self._group.name, conflicting_member)

    def _failed(self, error: StreamlingError) -> None:
        if not self._me.shares and not isinstance(error, GroupConflict):
            self._log.warning("whether another instance runs is not known: %s", error)
            return
        with self._lock:
            self._error = error
        self._stream.restart(0)

    def _leave(self) -> None:
        offsets = self._to_commit()
        with self._lock:
            consumer, self._consumer = self._consumer, None
        if consumer is None:
            return
        try:
            consumer.close(offsets)
        except Exception as error:  # brokers that are away, or a JVM that has gone: the session times out then
            self._log.debug("left the group '%s' with: %s", self._group.name, error)


def listed(partitions: frozenset[int]) -> str:
    """Partitions for people."""
    return f"partition{'s' if len(partitions) != 1 else ''} {', '.join(map(str, sorted(partitions)))}"
