"""Converts between positions of the engine and offsets of Kafka, and decides where reading starts."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from streamling.connectors.kafka.admin import Committed, KafkaAdmin, TopicInfo
from streamling.errors import StreamlingError
from streamling.plugins.sources import Position

_REMEDY = "clear the stored position with 'streamling state reset' to read the messages that are available"
#: brokers that have just started may not know their topics yet: number of attempts and seconds between them
_ATTEMPTS, _ATTEMPT_INTERVAL = 4, 0.5
#: prefix of the metadata of a committed offset; the id of the topic follows
_METADATA_PREFIX = "topic_id="

#: returns the committed offsets of a consumer group, by partition
GroupOffsets = Callable[[], Mapping[int, Committed]]


class Offsets:
    """Offsets of the next message by partition, under the state keys of one node and topic.

    Each entry holds the id of the topic it was read from. A topic that is deleted and recreated has another id, and its
    offsets refer to other messages. Positions of earlier versions have no id; it is added when they are stored next.
    """

    def __init__(self, node: str, topic: str, *, committed: bool, group: str, log: logging.Logger) -> None:
        """``committed``: skip messages of open and aborted transactions. ``group`` is the consumer group."""
        self._log = log
        self._committed_reason = f"the offset committed to the consumer group '{group}', because no position is stored"
        self.topic = topic
        self.prefix = f"{node}:{topic}:"
        self.committed = committed
        #: id of the topic that is being read
        self._topic_id: str | None = None
        #: the reason for the start offset of each partition
        self.reasons: dict[int, str] = {}

    def key(self, partition: int) -> str:
        """Return the state key of a partition."""
        return f"{self.prefix}{partition}"

    def of(self, position: Position) -> dict[int, int]:
        """Return the offsets in a position."""
        found = {}
        for key, value in position.items():
            partition = key.removeprefix(self.prefix)
            if key.startswith(self.prefix) and partition.isdecimal() and value is not None:
                found[int(partition)] = int(value["offset"])
        return found

    def position(self, offsets: Mapping[int, int], previous: Position) -> Position:
        """Return the position at ``offsets``; entries whose offset did not change are kept."""
        before, now = self.of(previous), int(time.time() * 1000)
        position: dict[str, Any] = dict(previous)
        for partition, offset in offsets.items():
            key = self.key(partition)
            if before.get(partition) != offset or position[key].get("topic_id") != self._topic_id:
                position[key] = self._entry(offset, now)
        return position

    def position_at(self, topic: TopicInfo, offsets: Mapping[int, int]) -> Position:
        """Return the position at ``offsets`` of ``topic``, which has not been read before."""
        self._topic_id = topic.id
        return self.position(offsets, {})

    def _entry(self, offset: int, now: int) -> dict[str, Any]:
        entry = {"offset": offset, "updated_at": now}
        return entry if self._topic_id is None else {**entry, "topic_id": self._topic_id}

    def parse(self, text: str) -> dict[int, int]:
        """Parse offsets as Spark writes them."""
        return {int(partition): offset for partition, offset in json.loads(text)[self.topic].items()}

    def spark(self, offsets: Mapping[int, int]) -> str:
        """Return offsets in Spark's format."""
        return json.dumps({self.topic: {str(partition): offset for partition, offset in sorted(offsets.items())}})

    def metadata(self) -> str:
        """Return the metadata of committed offsets: the id of their topic."""
        return f"{_METADATA_PREFIX}{self._topic_id}" if self._topic_id else ""

    def ends(self, admin: KafkaAdmin, group_offsets: GroupOffsets) -> Position:
        """Return the initial position with `latest`: the offsets committed to the group, else the end of the topic."""
        topic = self.describe(admin)
        self._topic_id = topic.id
        first = admin.earliest(self.topic, topic.partitions)
        end = self.latest(admin, topic.partitions)
        last = admin.latest(self.topic, topic.partitions)
        found = self._find_committed(group_offsets, topic, topic.partitions, first, last)
        self.reasons |= dict.fromkeys(topic.partitions, "the end of the topic (starting_offsets: latest)")
        self.reasons |= dict.fromkeys(found, self._committed_reason)
        return self.position({**end, **found}, {})

    def _find_committed(
        self,
        group_offsets: GroupOffsets,
        topic: TopicInfo,
        partitions: Collection[int],
        first: Mapping[int, int],
        end: Mapping[int, int],
    ) -> dict[int, int]:
        """Return the offsets committed to the group for the current topic. Missing messages are an error here too."""
        found = {}
        for partition, entry in group_offsets().items():
            if partition not in partitions:
                continue
            id = entry.metadata.removeprefix(_METADATA_PREFIX)
            is_other = entry.metadata.startswith(_METADATA_PREFIX) and topic.id is not None and id != topic.id
            if is_other or entry.offset > end[partition]:
                self._log.warning(
                    "ignoring offset %d, committed for partition %d of the topic '%s': it belongs to a topic that "
                    "has been deleted since",
                    entry.offset,
                    partition,
                    self.topic,
                )
                continue
            self._check(partition, entry.offset, first, end)
            found[partition] = entry.offset
        return found

    def latest(self, admin: KafkaAdmin, partitions: Iterable[int]) -> dict[int, int]:
        """Return the end of each partition, up to which it can be read."""
        return admin.latest(self.topic, partitions, committed=self.committed)

    def start(
        self,
        admin: KafkaAdmin,
        position: Position,
        starting: str,
        group_offsets: GroupOffsets,
        only: Iterable[int] | None = None,
    ) -> dict[int, int]:
        """Return the start offset of each partition, or of ``only`` some: the stored offset, else the offset committed
        to the group, else the configured one. Missing messages are an error, not a gap. `reasons` explains each
        offset."""
        topic = self.describe(admin)
        self._check_topic(topic, position)
        self._topic_id = topic.id
        partitions = topic.partitions if only is None else sorted(set(topic.partitions).intersection(only))
        first, end = admin.earliest(self.topic, partitions), admin.latest(self.topic, partitions)
        stored = self.of(position)
        for partition, offset in sorted(stored.items()):
            self._check(partition, offset, first, end)
        for partition in stored:
            self.reasons.setdefault(partition, "the stored position")
        new = [partition for partition in partitions if partition not in stored]
        known = self._find_committed(group_offsets, topic, new, first, end) if new else {}
        self.reasons |= dict.fromkeys(known, self._committed_reason)
        self._check_stable(admin, stored | known)
        new = [partition for partition in new if partition not in known]
        # `latest` is stored as a position on the first start: a partition without a position was added later and is
        # read from its start
        fresh = first
        self.reasons |= dict.fromkeys(new, f"starting_offsets ({'earliest' if starting == 'latest' else starting})")
        if starting not in ("earliest", "latest"):
            fresh = admin.at_time(self.topic, new, int(starting), committed=self.committed)
        return stored | known | {partition: fresh[partition] for partition in new}

    def is_recreated(self, topic_id: str | None) -> bool:
        """Return whether the topic was deleted and recreated with this id."""
        return None not in (topic_id, self._topic_id) and topic_id != self._topic_id

    def describe(self, admin: KafkaAdmin) -> TopicInfo:
        """Return the topic; waits for brokers that may not know it yet."""
        for _ in range(_ATTEMPTS):
            if (topic := admin.find(self.topic)) is not None:
                return topic
            time.sleep(_ATTEMPT_INTERVAL)
        return admin.describe(self.topic)

    def _check_topic(self, topic: TopicInfo, position: Position) -> None:
        for partition, offset in sorted(self.of(position).items()):
            stored = position[self.key(partition)].get("topic_id")
            if None not in (stored, topic.id) and stored != topic.id:
                raise StreamlingError.user(
                    f"the topic '{self.topic}' was deleted and recreated: its id is {topic.id}, but the stored "
                    f"position (partition {partition}, offset {offset}) belongs to the topic with id {stored}",
                    remedy=_REMEDY,
                )

    def _check(self, partition: int, offset: int, first: Mapping[int, int], end: Mapping[int, int]) -> None:
        location = f"partition {partition} of the topic '{self.topic}'"
        if partition not in first:
            raise StreamlingError.user(
                f"{location} no longer exists, but the next offset to read is {offset}", remedy=_REMEDY
            )
        if offset < first[partition]:
            raise StreamlingError.user(
                f"{location} starts at offset {first[partition]}, but the next offset to read is {offset}: "
                f"{first[partition] - offset} messages were deleted before they were read",
                remedy=_REMEDY,
            )
        if offset > end[partition]:
            raise StreamlingError.user(
                f"{location} ends at offset {end[partition]}, but the next offset to read is {offset}: the topic was "
                "recreated",
                remedy=_REMEDY,
            )

    def _check_stable(self, admin: KafkaAdmin, stored: Mapping[int, int]) -> None:
        """Raise if a stored offset lies inside an open transaction, which is possible if open transactions were read
        before."""
        stable = self.latest(admin, stored)
        for partition, offset in sorted(stored.items()):
            if offset > stable[partition]:
                raise StreamlingError.transient(
                    f"the next offset to read is {offset} of partition {partition} of the topic '{self.topic}', but "
                    f"a transaction that started at offset {stable[partition]} is still open"
                )
