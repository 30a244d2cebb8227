"""Where a topic is read from: positions of the engine ↔ offsets of Kafka."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from streamling.connectors.kafka.admin import Committed, KafkaAdmin, TopicInfo
from streamling.errors import StreamlingError
from streamling.plugins.operators import Position

_REMEDY = "clear the stored position with 'streamling state reset' to read what there is"
#: brokers that have just started may not know their topics yet: how often to look for one, and how long between
_ATTEMPTS, _ATTEMPT_INTERVAL = 4, 0.5
#: begins the note beside a committed offset; the id of the topic follows
_METADATA_PREFIX = "topic_id="

#: asks what a consumer group has committed, by partition
GroupOffsets = Callable[[], Mapping[int, Committed]]


class Offsets:
    """Offsets of the next message by partition, under the state keys of one node and topic.

    Each entry has the id of the topic it was read from. A topic that is deleted and created again has another one, and
    its offsets mean other messages. Positions of earlier versions have no id; it is added when they are stored next.
    """

    def __init__(self, node: str, topic: str, *, committed: bool, group: str, log: logging.Logger) -> None:
        """``committed``: messages of open and aborted transactions are not read. ``group`` is the consumer group."""
        self._log = log
        self._committed_reason = f"the offset committed to the consumer group '{group}', as no position is stored"
        self.topic = topic
        self.prefix = f"{node}:{topic}:"
        self._committed = committed
        #: id of the topic that is being read
        self._topic_id: str | None = None
        #: why each partition starts where it does
        self.reasons: dict[int, str] = {}

    def key(self, partition: int) -> str:
        """The state key of a partition."""
        return f"{self.prefix}{partition}"

    def of(self, position: Position) -> dict[int, int]:
        """The offsets a position stands for."""
        found = {}
        for key, value in position.items():
            partition = key.removeprefix(self.prefix)
            if key.startswith(self.prefix) and partition.isdecimal() and value is not None:
                found[int(partition)] = int(value["offset"])
        return found

    def position(self, offsets: Mapping[int, int], previous: Position) -> Position:
        """The position at ``offsets``; entries that did not move stay as they were."""
        before, now = self.of(previous), int(time.time() * 1000)
        position: dict[str, Any] = dict(previous)
        for partition, offset in offsets.items():
            key = self.key(partition)
            if before.get(partition) != offset or position[key].get("topic_id") != self._topic_id:
                position[key] = self._entry(offset, now)
        return position

    def _entry(self, offset: int, now: int) -> dict[str, Any]:
        entry = {"offset": offset, "updated_at": now}
        return entry if self._topic_id is None else {**entry, "topic_id": self._topic_id}

    def parse(self, text: str) -> dict[int, int]:
        """Offsets as Spark writes them."""
        return {int(partition): offset for partition, offset in json.loads(text)[self.topic].items()}

    def spark(self, offsets: Mapping[int, int]) -> str:
        """Offsets as Spark reads them."""
        return json.dumps({self.topic: {str(partition): offset for partition, offset in sorted(offsets.items())}})

    def metadata(self) -> str:
        """What is written beside offsets that are committed to a group: of which topic they are."""
        return f"{_METADATA_PREFIX}{self._topic_id}" if self._topic_id else ""

    def ends(self, admin: KafkaAdmin, group_offsets: GroupOffsets) -> Position:
        """Where a first start with `latest` begins: what was committed to the group, else the end of the topic."""
        topic = self._describe(admin)
        self._topic_id = topic.id
        first = admin.earliest(self.topic, topic.partitions)
        end = self.latest(admin, topic.partitions)
        last = admin.latest(self.topic, topic.partitions)
        found = self._usable(group_offsets, topic, topic.partitions, first, last)
        self.reasons |= dict.fromkeys(topic.partitions, "the end of the topic (starting_offsets: latest)")
        self.reasons |= dict.fromkeys(found, self._committed_reason)
        return self.position({**end, **found}, {})

    def _usable(
        self,
        group_offsets: GroupOffsets,
        topic: TopicInfo,
        partitions: Collection[int],
        first: Mapping[int, int],
        end: Mapping[int, int],
    ) -> dict[int, int]:
        """Offsets that were committed to the group for the topic as it is now. Messages that are gone are an error here
        too."""
        found = {}
        for partition, entry in group_offsets().items():
            if partition not in partitions:
                continue
            id = entry.metadata.removeprefix(_METADATA_PREFIX)
            is_other = entry.metadata.startswith(_METADATA_PREFIX) and topic.id is not None and id != topic.id
            if is_other or entry.offset > end[partition]:
                self._log.warning(
                    "offset %d, which was committed for partition %d of the topic '%s', belongs to a topic that has "
                    "been deleted since: it is ignored",
                    entry.offset,
                    partition,
                    self.topic,
                )
                continue
            self._check(partition, entry.offset, first, end)
            found[partition] = entry.offset
        return found

    def latest(self, admin: KafkaAdmin, partitions: Iterable[int]) -> dict[int, int]:
        """The end of each partition, as far as it is read."""
        return admin.latest(self.topic, partitions, committed=self._committed)

    def start(
        self,
        admin: KafkaAdmin,
        position: Position,
        starting: str,
        group_offsets: GroupOffsets,
        only: Iterable[int] | None = None,
    ) -> dict[int, int]:
        """Where to start each partition, or ``only`` some: the stored offset, else what was committed to the group,
        else as configured. Messages that are gone are an error, not a gap. `reasons` has why."""
        topic = self._describe(admin)
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
        known = self._usable(group_offsets, topic, new, first, end) if new else {}
        self.reasons |= dict.fromkeys(known, self._committed_reason)
        self._check_stable(admin, stored | known)
        new = [partition for partition in new if partition not in known]
        # latest is a stored position from the first start on: what is not there was added since, and nobody has read it
        fresh = first
        self.reasons |= dict.fromkeys(new, f"starting_offsets ({'earliest' if starting == 'latest' else starting})")
        if starting not in ("earliest", "latest"):
            fresh = admin.at_time(self.topic, new, int(starting), committed=self._committed)
        return stored | known | {partition: fresh[partition] for partition in new}

    def is_recreated(self, admin: KafkaAdmin) -> bool:
        """Whether the topic is not the one that is being read."""
        topic = admin.find(self.topic)
        return topic is not None and None not in (topic.id, self._topic_id) and topic.id != self._topic_id

    def _describe(self, admin: KafkaAdmin) -> TopicInfo:
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
                    f"the topic '{self.topic}' was deleted and created again: it has the id {topic.id}, and the stored "
                    f"position (partition {partition}, offset {offset}) is of the topic with the id {stored}",
                    remedy=_REMEDY,
                )

    def _check(self, partition: int, offset: int, first: Mapping[int, int], end: Mapping[int, int]) -> None:
        place = f"partition {partition} of the topic '{self.topic}'"
        if partition not in first:
            raise StreamlingError.user(f"{place} is gone, and offset {offset} was to be read next", remedy=_REMEDY)
        if offset < first[partition]:
            raise StreamlingError.user(
                f"{place} begins at offset {first[partition]}, and offset {offset} was to be read next: "
                f"{first[partition] - offset} messages were deleted unread",
                remedy=_REMEDY,
            )
        if offset > end[partition]:
            raise StreamlingError.user(
                f"{place} ends at offset {end[partition]}, and offset {offset} was to be read next: "
                "the topic was created anew",
                remedy=_REMEDY,
            )

    def _check_stable(self, admin: KafkaAdmin, stored: Mapping[int, int]) -> None:
        """A position that was stored when open transactions were read too may be inside of one."""
        stable = self.latest(admin, stored)
        for partition, offset in sorted(stored.items()):
            if offset > stable[partition]:
                raise StreamlingError.transient(
                    f"offset {offset} of partition {partition} of the topic '{self.topic}' is to be read next, and a "
                    f"transaction that began at offset {stable[partition]} is still open"
                )
