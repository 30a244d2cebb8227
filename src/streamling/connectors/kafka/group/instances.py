"""Instances of a pipeline, as they recognize each other in a consumer group: by client ids with their identity and
start time.

Instances with shared state divide a topic among themselves. An instance with its own state (a file, memory) reads the
whole topic and must be the only one. Of two instances that cannot run together, the one that started later is rejected.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import uuid4

from streamling.connectors.kafka.admin import Member
from streamling.errors import StreamlingError

_PREFIX = "streamling/"
_SHARED, _ALONE = "shared", "alone"


class GroupConflict(StreamlingError):
    """This instance cannot run alongside another member of its group."""


@dataclass(frozen=True)
class Instance:
    """One running instance of an application that reads a topic."""

    application: str
    topic: str
    #: whether other instances can see its positions
    shares: bool
    #: milliseconds since 1970, and a token for instances that started in the same one
    started: int
    token: str

    @classmethod
    def new(cls, application: str, topic: str, *, shares: bool) -> Instance:
        """Return the instance that starts now."""
        return cls(application, topic, shares, int(time.time() * 1000), uuid4().hex[:8])

    @classmethod
    def of(cls, client_id: str) -> Instance | None:
        """Return the instance with this client id, or None if it is not an instance of ours."""
        name, topic, kind, start = ["", "", "", "", *client_id.rsplit("/", 3)][-4:]
        started, _, token = start.partition("-")
        if not name.startswith(_PREFIX) or kind not in (_SHARED, _ALONE) or not started.isdecimal():
            return None
        return cls(name.removeprefix(_PREFIX), topic, kind == _SHARED, int(started), token)

    @property
    def client_id(self) -> str:
        kind = _SHARED if self.shares else _ALONE
        return f"{_PREFIX}{self.application}/{self.topic}/{kind}/{self.started}-{self.token}"

    @property
    def age(self) -> tuple[int, str]:
        """Sort key by start time; every instance computes the same order."""
        return self.started, self.token

    def runs_same_pipeline(self, other: Instance) -> bool:
        """Return whether ``other`` appears to run the same pipeline."""
        return (self.application, self.topic) == (other.application, other.topic)

    def conflicting_member(self, members: Iterable[Member]) -> Member | None:
        """Return the member of our group that we cannot run alongside, or None."""
        return next((member for member in members if self._collides(member)), None)

    def _collides(self, member: Member) -> bool:
        other = Instance.of(member.client_id)
        if other is not None and other.age >= self.age:
            return False  # this instance, or one that yields to it
        if other is not None and self.runs_same_pipeline(other):
            return not (self.shares and other.shares)
        # a foreign member only matters to instances that rely on the group's assignment
        return self.shares and bool(member.partitions)

    def conflict_error(self, group: str, conflicting_member: Member) -> GroupConflict:
        """Return the error that explains why we cannot run alongside ``conflicting_member``."""
        other = Instance.of(conflicting_member.client_id)
        if other is None or not self.runs_same_pipeline(other):
            return GroupConflict.user(
                f"the consumer group '{group}' has a member that is not an instance of this pipeline, "
                f"'{conflicting_member.client_id}' at {conflicting_member.host}, and partitions of the topic "
                f"'{self.topic}' are assigned to it",
                remedy="set kafka_source.consumer_group_id to a name that only this pipeline uses",
            )
        since = datetime.fromtimestamp(other.started / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return GroupConflict.user(
            f"another instance of the application '{self.application}' already reads the topic '{self.topic}' (at "
            f"{conflicting_member.host}, since {since}), and instances can only share a topic if they share their "
            "state",
            remedy="set state_backend.backend_type to Postgres for all of them, or give this pipeline its own "
            "application_id",
        )
