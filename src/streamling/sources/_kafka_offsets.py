"""Where a topic is read from: positions of the engine ↔ offsets of Kafka."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from typing import Any

from streamling.errors import StreamlingError
from streamling.kafka.admin import KafkaAdmin
from streamling.plugins.operators import Position

#: brokers that have just started may not know their topics yet: how often to look for one, and how long between
_LOOKS, _BETWEEN_LOOKS = 4, 0.5


class Offsets:
    """Offsets of the next message by partition, under the state keys of one node and topic."""

    def __init__(self, node: str, topic: str) -> None:
        self.topic = topic
        self.prefix = f"{node}:{topic}:"

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
            if before.get(partition) != offset:
                position[self.key(partition)] = {"offset": offset, "updated_at": now}
        return position

    def parse(self, text: str) -> dict[int, int]:
        """Offsets as Spark writes them."""
        return {int(partition): offset for partition, offset in json.loads(text)[self.topic].items()}

    def spark(self, offsets: Mapping[int, int]) -> str:
        """Offsets as Spark reads them."""
        return json.dumps({self.topic: {str(partition): offset for partition, offset in sorted(offsets.items())}})

    def ends(self, admin: KafkaAdmin) -> Position:
        """The position at the end of the topic."""
        return self.position(admin.latest(self.topic, self._partitions(admin)), {})

    def start(
        self, admin: KafkaAdmin, position: Position, starting: str, only: Iterable[int] | None = None
    ) -> dict[int, int]:
        """Where to start each partition, or ``only`` some: the stored offset, else as configured. Messages that are
        gone are an error, not a gap."""
        partitions = self._partitions(admin)
        if only is not None:
            partitions = sorted(set(partitions).intersection(only))
        first, end = admin.earliest(self.topic, partitions), admin.latest(self.topic, partitions)
        stored = self.of(position)
        for partition, offset in sorted(stored.items()):
            self._check(partition, offset, first, end)
        new = [partition for partition in partitions if partition not in stored]
        # latest is a stored position from the first start on: what is not there was added since, and nobody has read it
        fresh = first if starting in ("earliest", "latest") else admin.at_time(self.topic, new, int(starting))
        return stored | {partition: fresh[partition] for partition in new}

    def _partitions(self, admin: KafkaAdmin) -> list[int]:
        for _ in range(_LOOKS):
            if admin.exists(self.topic):
                break
            time.sleep(_BETWEEN_LOOKS)
        return admin.partitions(self.topic)

    def _check(self, partition: int, offset: int, first: Mapping[int, int], end: Mapping[int, int]) -> None:
        place = f"partition {partition} of the topic '{self.topic}'"
        remedy = "clear the stored position with 'streamling state reset' to read what there is"
        if partition not in first:
            raise StreamlingError.user(f"{place} is gone, and offset {offset} was to be read next", remedy=remedy)
        if offset < first[partition]:
            raise StreamlingError.user(
                f"{place} begins at offset {first[partition]}, and offset {offset} was to be read next: "
                f"{first[partition] - offset} messages were deleted unread",
                remedy=remedy,
            )
        if offset > end[partition]:
            raise StreamlingError.user(
                f"{place} ends at offset {end[partition]}, and offset {offset} was to be read next: "
                "the topic was created anew",
                remedy=remedy,
            )
