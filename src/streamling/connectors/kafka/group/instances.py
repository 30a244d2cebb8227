"""Instances of a pipeline, as they know each other in a consumer group: by client ids that say who and since when.

Instances whose state is shared divide a topic among themselves. One whose state is its own (a file, memory) reads the
whole topic and cannot have company. Of two instances that do not go together the one that began later is refused.
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
    """This instance cannot run beside another member of its group."""


@dataclass(frozen=True)
class Instance:
    """One running instance of an application that reads a topic."""

    application: str
    topic: str
    #: whether its positions are where other instances find them
    shares: bool
    #: milliseconds since 1970, and something to tell apart those that began in the same one
    started: int
    token: str

    @classmethod
    def new(cls, application: str, topic: str, *, shares: bool) -> Instance:
        """The instance that begins now."""
        return cls(application, topic, shares, int(time.time() * 1000), uuid4().hex[:8])

    @classmethod
    def of(cls, client_id: str) -> Instance | None:
        """The instance with this client id; None when it belongs to something else."""
        name, topic, kind, born = ["", "", "", "", *client_id.rsplit("/", 3)][-4:]
        started, _, token = born.partition("-")
        if not name.startswith(_PREFIX) or kind not in (_SHARED, _ALONE) or not started.isdecimal():
            return None
        return cls(name.removeprefix(_PREFIX), topic, kind == _SHARED, int(started), token)

    @property
    def client_id(self) -> str:
        kind = _SHARED if self.shares else _ALONE
        return f"{_PREFIX}{self.application}/{self.topic}/{kind}/{self.started}-{self.token}"

    @property
    def age(self) -> tuple[int, str]:
        """Instances in the order they began, the same seen from everywhere."""
        return self.started, self.token

    def is_like(self, other: Instance) -> bool:
        """Whether ``other`` runs the same pipeline, as far as can be seen."""
        return (self.application, self.topic) == (other.application, other.topic)

    def conflicting_member(self, members: Iterable[Member]) -> Member | None:
        """The member of our group that we cannot run beside; None when there is none."""
        return next((member for member in members if self._collides(member)), None)

    def _collides(self, member: Member) -> bool:
        other = Instance.of(member.client_id)
        if other is not None and other.age >= self.age:
            return False  # we, or one that gives way to us
        if other is not None and self.is_like(other):
            return not (self.shares and other.shares)
        # a stranger only harms those who rely on the group's division
        return self.shares and bool(member.partitions)

    def conflict_error(self, group: str, conflicting_member: Member) -> GroupConflict:
        """Why we cannot run beside ``conflicting_member``."""
        other = Instance.of(conflicting_member.client_id)
        if other is None or not self.is_like(other):
            return GroupConflict.user(
                f"the consumer group '{group}' has a member that is no instance of this pipeline, "
                f"'{conflicting_member.client_id}' at {conflicting_member.host}, and it takes partitions of the topic "
                f"'{self.topic}' away",
                remedy="set kafka_source.consumer_group_id to a name that only this pipeline uses",
            )
        since = datetime.fromtimestamp(other.started / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return GroupConflict.user(
            f"another instance of the application '{self.application}' reads the topic '{self.topic}' already "
            f"(at {conflicting_member.host}, since {since}), and instances can only share a topic when they share "
            "their state",
            remedy="set state_backend.backend_type to Postgres for all of them, "
            "or give this pipeline an application_id of its own",
        )
