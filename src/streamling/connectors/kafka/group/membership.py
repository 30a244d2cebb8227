"""Membership in a consumer group: polls, which keeps the membership alive, and tracks the assigned partitions. A member
that divides a topic with others has its own thread; those that read alone share one (`LoneMembers`).

**Handing over.** When partitions move to another member, the group waits until the thread polls again. Before that, the
stream stops after the current batch and a checkpoint stores everything that was delivered. So the next owner finds the
position in the state, and no row is in flight. Members that keep all of their partitions are not interrupted.

**Losing the session.** A member that was silent for longer than the session timeout has lost its partitions without
notice. Its stream stops as soon as it learns of that; the state rejects anything it may still try to store (claims).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from logging import Logger
from typing import Any, TypeVar

from streamling.connectors.kafka.admin import KafkaAdmin, Member
from streamling.connectors.kafka.group.consumer import GroupConsumer, RebalanceListener
from streamling.connectors.kafka.group.instances import GroupConflict, Instance
from streamling.connectors.kafka.group.lone_members import LoneMembers
from streamling.errors import StreamlingError
from streamling.threads import ContextThread

ResultT = TypeVar("ResultT")

#: seconds of one poll: delays commits, nothing else
_POLL = 5.0
#: seconds between two polls of an instance that reads alone: while it joins, and after a change in the group
_JOIN_PAUSE, _CHANGE_PAUSE = 0.2, 1.0
#: seconds after a change in the group in which another one may follow
_CHANGE = 10.0
#: seconds before an instance that reads everything joins the group, to keep the start fast
_ALONE_DELAY = 5.0
#: seconds between two checks of a conflicting member that may be dead
_CHECK_INTERVAL = 1.0
#: seconds to wait for the thread to end
_END = 6.0
#: fraction of the rebalance timeout that a hand-over may take
_SHARE_OF_REBALANCE = 0.9


@dataclass(frozen=True)
class ConsumerGroup:
    """A consumer group and its timeouts."""

    name: str
    session_timeout: float
    #: how long the group waits for a member that has to give up partitions
    rebalance_timeout: float


@dataclass(frozen=True)
class StreamControl:
    """What the membership may request of the stream that reads the partitions; see `NodeContext`."""

    restart: Callable[[float], bool]
    checkpoint: Callable[[float], bool]


class Membership(RebalanceListener):
    """The membership of one instance. Its own thread calls the methods of `RebalanceListener`; the others are
    thread-safe."""

    def __init__(
        self,
        connect: Callable[[RebalanceListener], GroupConsumer],
        admin: KafkaAdmin,
        group: ConsumerGroup,
        instance: Instance,
        stream: StreamControl,
        log: Logger,
        lone: LoneMembers,
    ) -> None:
        """``lone`` polls for this instance if it reads alone."""
        self.name = instance.client_id
        self.group_name = group.name
        self._lone = lone
        self._connect = connect
        self.admin = admin
        self._group = group
        self._instance = instance
        self._stream = stream
        self._log = log
        self._lock = threading.Lock()
        self._consumer: GroupConsumer | None = None
        #: our partitions, each with the number of its assignment; None until the first assignment
        self._assignment: dict[int, int] | None = None
        self._assignment_count = 0
        self._handing_over = False
        self._uncommitted: dict[int, int] = {}
        self._error: StreamlingError | None = None
        #: time of the next conflict check, and start of the conflict
        self._next_check: float | None = None
        self._conflict_since: float | None = None
        #: when the group has last changed
        self._changed_at = time.monotonic()
        self._stopping = threading.Event()
        #: held while the consumer is used: it allows one thread at a time
        self._polling = threading.Lock()
        self._thread = ContextThread(self._run, f"group {group.name}")

    # ── for the source ──────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """Join the group; returns immediately."""
        if self._instance.shares:
            self._thread.start()
        else:
            self._lone.add(self, _ALONE_DELAY)

    def check(self) -> None:
        """Raise the error that ended the membership."""
        with self._lock:
            if self._error is not None:
                raise self._error

    def assignment(self) -> Mapping[int, int] | None:
        """Return our partitions, each with a number that changes when the partition was reassigned in between. None:
        not known yet, or about to change; the stream is restarted then."""
        with self._lock:
            return None if self._assignment is None or self._handing_over else dict(self._assignment)

    def commit(self, offsets: Mapping[int, int]) -> bool:
        """Commit offsets of next messages as soon as these partitions are assigned to us; return False if they are not
        yet."""
        with self._lock:
            self._uncommitted.update(offsets)
            return self._assignment is not None

    def close(self) -> None:
        """Leave the group immediately, without handing over: everything is stored, or must not be."""
        self._stopping.set()
        with self._lock:
            consumer = self._consumer
        if consumer is not None:
            consumer.wakeup()
        if self._thread.ident is not None:
            self._thread.join(_END)
            return
        self._lone.remove(self)
        if self._polling.acquire(timeout=_END):
            try:
                self._leave()
            finally:
                self._polling.release()

    # ── called by the group ─────────────────────────────────────────────────────────────────────────────────

    def on_assigned(self, partitions: frozenset[int]) -> None:
        with self._lock:
            first = self._assignment is None
            assignment = self._assignment or {}
            for partition in partitions:
                self._assignment_count += 1
                assignment[partition] = self._assignment_count
            self._assignment = assignment
            self._changed_at = self._next_check = time.monotonic()
        if self._instance.shares and (partitions or first):
            self._stream.restart(0)

    def on_revoked(self, partitions: frozenset[int]) -> None:
        if self._instance.shares and not self._stopping.is_set():
            self._hand_over(partitions)
        self._drop(partitions)

    def on_lost(self, partitions: frozenset[int]) -> None:
        if not self._stopping.is_set() and self._instance.shares:
            self._log.warning(
                "the group '%s' revoked %s: this instance did not respond for %g s",
                self._group.name,
                format_partitions(partitions),
                self._group.session_timeout,
            )
        self._drop(partitions)

    def _hand_over(self, partitions: frozenset[int]) -> None:
        with self._lock:
            self._handing_over = True
        began = time.monotonic()
        until = began + self._group.rebalance_timeout * _SHARE_OF_REBALANCE
        if self._stream.restart(until - began) and self._stream.checkpoint(max(0.0, until - time.monotonic())):
            self._log.debug("%s handed over after %.1f s", format_partitions(partitions), time.monotonic() - began)
        elif not self._stopping.is_set():
            self._log.warning(
                "%s could not be finished within %.0f s: the next owner will replay rows since the last checkpoint",
                format_partitions(partitions),
                time.monotonic() - began,
            )

    def _drop(self, partitions: frozenset[int]) -> None:
        with self._lock:
            self._assignment = {p: gain for p, gain in (self._assignment or {}).items() if p not in partitions}
            self._handing_over = False
        if self._instance.shares:
            self._stream.restart(0)

    # ── polling ─────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        """Poll, on the thread of a member that divides its topic with others."""
        try:
            while not self._stopping.is_set():
                self._poll(_POLL if self._next_check is None else _CHECK_INTERVAL)
        except Exception as error:
            self._handle_failure(error)
        finally:
            self._leave()

    def step(self) -> float | None:
        """Poll once, for `LoneMembers`."""
        if not self._attempt(lambda: self._poll(0.0)):
            return None
        return _JOIN_PAUSE if self._assignment is None or self._next_check is not None else _CHANGE_PAUSE

    def check_members(self, members: list[Member] | None) -> bool:
        """Check for a conflict, for `LoneMembers`."""
        if members is None:
            return self._attempt(
                lambda: self._check_conflict(self.admin.members(self.group_name, self._instance.topic))
            )
        return self._attempt(lambda: self._check_conflict(members))

    def _attempt(self, action: Callable[[], None]) -> bool:
        """Call ``action`` on the thread of all members that read alone. Return False if the membership has ended."""
        with self._polling:
            if self._stopping.is_set():
                return False
            try:
                action()
            except Exception as error:
                if isinstance(error, StreamlingError) and error.retriable:
                    return True
                self._handle_failure(error)
                self._leave()
                return False
            return True

    def idle_consumer(self) -> Any | None:
        """Return the consumer if it has nothing to do, for `LoneMembers`."""
        with self._lock:
            is_idle = self._assignment is not None and self._next_check is None and not self._uncommitted
            is_settled = time.monotonic() - self._changed_at > _CHANGE
            if self._consumer is None or self._stopping.is_set() or not (is_idle and is_settled):
                return None
            return self._consumer.java

    def _poll(self, seconds: float) -> None:
        if (consumer := self._consumer) is None:
            consumer = self._translate_errors(lambda: self._connect(self))
            with self._lock:
                self._consumer, self._changed_at = consumer, time.monotonic()
        try:
            self._translate_errors(lambda: consumer.poll(seconds))
            if offsets := self._to_commit():
                self._translate_errors(lambda: consumer.commit(offsets))
            if self._instance.shares and self.is_check_due():
                self._check_conflict(self.admin.members(self._group.name, self._instance.topic))
        except StreamlingError as error:
            if not error.retriable:
                raise
            self._log.debug("consumer group '%s': %s", self._group.name, error)
            self._stopping.wait(min(seconds, 1.0))

    def _translate_errors(self, ask: Callable[[], ResultT]) -> ResultT:
        return self.admin.translate_errors(self._instance.topic, ask)

    def _to_commit(self) -> dict[int, int]:
        """Return the offsets to commit now; other members commit those of their own partitions."""
        with self._lock:
            if self._assignment is None:
                return {}
            offsets, self._uncommitted = self._uncommitted, {}
            return {partition: offset for partition, offset in offsets.items() if partition in self._assignment}

    def is_check_due(self) -> bool:
        """Return whether the group has changed and has to be checked for conflicts."""
        return self._next_check is not None and time.monotonic() >= self._next_check

    def _check_conflict(self, members: Iterable[Member]) -> None:
        """Raise if another member conflicts with this one. A conflicting member that stays longer than a dead one would
        is real."""
        now = time.monotonic()
        conflicting_member = self._instance.conflicting_member(members)
        if conflicting_member is None:
            self._next_check = self._conflict_since = None
            return
        self._next_check = now + _CHECK_INTERVAL
        self._conflict_since = self._conflict_since or now
        if now - self._conflict_since > self._group.session_timeout + _CHECK_INTERVAL:
            raise self._instance.conflict_error(self._group.name, conflicting_member)

    def _handle_failure(self, cause: Exception) -> None:
        if self._stopping.is_set():
            return
        error = StreamlingError.wrap(cause, f"consumer group '{self._group.name}'")
        if not self._instance.shares and not isinstance(error, GroupConflict):
            self._log.warning("cannot determine whether another instance is running: %s", error)
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
        except Exception as error:  # brokers are unavailable, or the JVM has exited: the session then times out
            self._log.debug("error while leaving the group '%s': %s", self._group.name, error)


def format_partitions(partitions: frozenset[int]) -> str:
    """Format partitions for messages."""
    return f"partition{'s' if len(partitions) != 1 else ''} {', '.join(map(str, sorted(partitions)))}"
