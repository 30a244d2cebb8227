"""Which phase a hybrid source is in, as it is stored in the state."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, get_args

#: what decides where the topic is read from after the tables
StartOf = Literal["offset_table", "earliest", "latest"]


def state_key(node: str) -> str:
    """Return the state key of the phases of a node."""
    return f"hybrid_source_{node}_v1"


def cursor_key(node: str, phase: int) -> str:
    """Return the state key of the position in the table of a bounded phase. That of the first phase is the key that
    earlier versions used for all phases."""
    shared = f"clickhouse_source:{node}:v1"
    return shared if phase == 0 else f"{shared}:phase_{phase}"


@dataclass(frozen=True)
class Phases:
    """How far a hybrid source is."""

    #: the bounded phase that is read; their number if all of them are complete
    current: int = 0
    #: what decides where the topic starts; None: not known yet
    start: StartOf | None = None
    #: offsets from which the partitions of the topic are read after the bounded phases, as far as they are known
    offsets: Mapping[int, int] = field(default_factory=dict)
    #: whether the topic is being read: its own offsets count from then on
    is_handed_off: bool = False

    @classmethod
    def parse(cls, entry: Any, topic: str, count: int) -> Self | None:
        """Return the phases in an entry of the state; None if there is none or it is not readable. ``count`` is the
        number of bounded phases. Offsets that were recorded for a topic other than ``topic`` are left out."""
        current = _current(entry, count)
        if current is None:
            return None
        handoff = entry.get("handoff")
        if not isinstance(handoff, dict):  # stored by an implementation that looks offsets up when it switches
            return cls(current, is_handed_off=current >= count and entry["current_phase"] != count - 1)
        if handoff.get("topic") != topic or handoff.get("start") not in get_args(StartOf):
            return cls(current, is_handed_off=bool(handoff.get("done")))
        offsets = {int(partition): offset for partition, offset in entry["unbounded_offsets"].items()}
        return cls(current, handoff["start"], offsets, bool(handoff.get("done")))

    def entry(self, topic: str) -> dict[str, Any]:
        """Return the value for the state."""
        return {
            "current_phase": self.current,
            "completed_phases": list(range(self.current)),
            "unbounded_offsets": {str(partition): offset for partition, offset in sorted(self.offsets.items())},
            "handoff": {"topic": topic, "start": self.start, "done": self.is_handed_off},
        }

    def completed(self) -> Self:
        """Return the phases after the current one is complete."""
        return replace(self, current=self.current + 1)

    def handed_off(self) -> Self:
        """Return the phases after the switch to the topic."""
        return replace(self, is_handed_off=True)


def infer_phases(count: int, cursors: Collection[int], stored: Collection[int], expected: Collection[int]) -> Phases:
    """Return the phases of a state without a readable entry: ``cursors`` are the bounded phases with a position,
    ``stored`` the partitions of the topic with a stored offset, ``expected`` those in the offset table."""
    if stored and set(stored).issuperset(expected):
        return Phases(count, is_handed_off=True)
    return Phases(max(cursors, default=0))


def _current(entry: Any, count: int) -> int | None:
    if not isinstance(entry, dict):
        return None
    current, completed = entry.get("current_phase"), entry.get("completed_phases")
    if isinstance(current, str) and current.lower() == "unbounded":
        return count
    if isinstance(current, bool) or not isinstance(current, int) or current < 0:
        return None
    return current + 1 if isinstance(completed, list) and current in completed else current
