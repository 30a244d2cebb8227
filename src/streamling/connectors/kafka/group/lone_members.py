"""The memberships of all instances that read their topics alone, kept by one thread.

Such an instance is a member of its group only to detect a second one, so its membership may take its time. Members that
divide a topic have a thread each: a rebalance of one must not wait for another one that finishes its work.
"""

from __future__ import annotations

import contextvars
import heapq
import itertools
import logging
import threading
import time
from typing import TYPE_CHECKING, Any, Protocol

from streamling.errors import StreamlingError
from streamling.spark.java import java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamling.connectors.kafka.admin import KafkaAdmin, Member
    from streamling.plugins.shared import SharedResources

log = logging.getLogger(__name__)

#: seconds between two polls of members for which nothing happens
_IDLE_PAUSE = 5.0


class LoneMember(Protocol):
    """A member of a group. Its methods are called on one thread and must not raise."""

    name: str
    group_name: str
    admin: KafkaAdmin

    def step(self) -> float | None:
        """Poll once. Returns the seconds until the next call; None for none."""

    def is_check_due(self) -> bool:
        """Return whether to ask for the members of its group."""

    def check_members(self, members: list[Member] | None) -> bool:
        """Check the ``members`` of its group; None if they could not be determined. Return whether to poll again."""

    def idle_consumer(self) -> Any | None:
        """Return the Java consumer if it only has to be polled now and then, to stay in the group."""


#: a member, and the context of its pipeline
_Scheduled = tuple[LoneMember, contextvars.Context]


class LoneMembers:
    """Polls all members. Thread-safe."""

    def __init__(self, spark: SparkSession) -> None:
        #: polls all idle members in one call
        self._polls = java_class(spark._jvm, "streamling.kafka.LoneMembers")()
        self._changed = threading.Condition(threading.RLock())
        self._numbers = itertools.count()
        #: time of the next call, a number that breaks ties, the member and the context of its pipeline
        self._due: list[tuple[float, int, LoneMember, contextvars.Context]] = []
        self._idle: dict[str, _Scheduled] = {}
        self._next_poll = 0.0
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="lone members", daemon=True)
        self._thread.start()

    @classmethod
    def shared(cls, shared: SharedResources, spark: SparkSession) -> LoneMembers:
        """Return those of all users of ``shared`` with the same JVM."""
        return shared.acquire(cls, lambda: cls(spark), spark.sparkContext._gateway)

    def add(self, member: LoneMember, delay: float) -> None:
        """Poll ``member`` from ``delay`` seconds on, until its `LoneMember.step` returns None or it is removed."""
        self._schedule(member, contextvars.copy_context(), delay)

    def remove(self, member: LoneMember) -> None:
        """Do not poll ``member`` any more while it is idle."""
        with self._changed:
            if self._idle.pop(member.name, None) is not None:
                self._polls.remove(member.name)

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def _schedule(self, member: LoneMember, context: contextvars.Context, delay: float) -> None:
        with self._changed:
            heapq.heappush(self._due, (time.monotonic() + delay, next(self._numbers), member, context))
            self._changed.notify()

    def _run(self) -> None:
        try:
            while self._wait():
                if self._idle and time.monotonic() >= self._next_poll:
                    self._poll_idle()
                    self._next_poll = time.monotonic() + _IDLE_PAUSE
                self._step_all(self._take_due())
        except Exception as error:  # the JVM has ended: so will all pipelines
            log.debug("memberships are not kept any more: %s", type(error).__name__)

    def _wait(self) -> bool:
        """Wait until a member is due; False at the end."""
        with self._changed:
            while not self._is_closed:
                times = [self._due[0][0]] if self._due else []
                times += [self._next_poll] if self._idle else []
                left = min(times) - time.monotonic() if times else None
                if left is not None and left <= 0:
                    return True
                self._changed.wait(left)
            return False

    def _take_due(self) -> list[_Scheduled]:
        with self._changed:
            found, now = [], time.monotonic()
            while self._due and self._due[0][0] <= now:
                *_, member, context = heapq.heappop(self._due)
                found.append((member, context))
            return found

    def _step_all(self, due: list[_Scheduled]) -> None:
        stepped = [(member, context, context.run(member.step)) for member, context in due]
        polled = [(member, context, delay) for member, context, delay in stepped if delay is not None]
        leaving = self._check_all([(member, context) for member, context, _ in polled if member.is_check_due()])
        for member, context, delay in polled:
            if member.name not in leaving:
                self._continue(member, context, delay)

    def _check_all(self, due: list[_Scheduled]) -> set[str]:
        """Tell members who is in their groups, with one request for all that have the same client; returns the names of
        those that do not need to be polled again."""
        leaving = set()
        for admin in {member.admin for member, _ in due}:
            checked = [each for each in due if each[0].admin is admin]
            try:
                found = admin.members_of({member.group_name for member, _ in checked})
            except StreamlingError as error:
                log.debug("cannot determine the members of groups: %s", error)
                continue
            for member, context in checked:
                if not context.run(member.check_members, found.get(member.group_name)):
                    leaving.add(member.name)
        return leaving

    def _continue(self, member: LoneMember, context: contextvars.Context, delay: float) -> None:
        with self._changed:
            if (consumer := member.idle_consumer()) is None:
                self._schedule(member, context, delay)
            else:
                self._idle[member.name] = member, context
                self._polls.add(member.name, consumer)

    def _poll_idle(self) -> None:
        """Poll all idle members; those that have something to do are not idle any more."""
        failed = self._polls.poll().splitlines()
        with self._changed:
            for name, (member, context) in list(self._idle.items()):
                if name in failed or member.idle_consumer() is None:
                    del self._idle[name]
                    self._polls.remove(name)
                    self._schedule(member, context, 0.0)
