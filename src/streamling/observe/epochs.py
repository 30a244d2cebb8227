"""The last epochs of a run: when they started, who reported when, and who is missing."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal

Status = Literal["running", "complete", "failed"]

#: epochs that are kept
CAPACITY: Final = 50


@dataclass
class EpochRecord:
    """One epoch; times are in seconds since its start."""

    epoch: int
    started_at: datetime
    terminal: bool
    #: flows that have not sent the marker, and sinks that have not acknowledged it
    unmarked: set[str]
    unacknowledged: set[str]
    status: Status = "running"
    duration: float | None = None
    positions: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    markers: dict[str, float] = field(default_factory=dict)
    acks: dict[str, float] = field(default_factory=dict)
    #: when the marker arrived at each node that runs in lanes, and when it had been passed on
    arrivals: dict[str, float] = field(default_factory=dict)
    departures: dict[str, float] = field(default_factory=dict)
    #: when all flows and sinks had reported
    stored_from: float | None = None

    @property
    def phases(self) -> tuple[float | None, float | None, float | None]:
        """Seconds until all flows had sent the marker, from there until all sinks had flushed, and to store the
        positions; None for a phase that has not ended."""
        is_marked = self.stored_from is not None or not self.unmarked
        marked = max(self.markers.values(), default=0.0) if is_marked else None
        flushed = None if marked is None or self.stored_from is None else max(0.0, self.stored_from - marked)
        stored = None if self.duration is None or self.stored_from is None else self.duration - self.stored_from
        return marked, flushed, stored

    @property
    def missing(self) -> list[str]:
        """Who delays the epoch, or has failed it: a sink cannot acknowledge a marker that a flow has not sent."""
        return sorted(self.unmarked or self.unacknowledged) if self.stored_from is None else ["state backend"]

    def as_object(self) -> dict[str, Any]:
        """Return the epoch as the admin API shows it."""
        mark, flush, store = map(_milliseconds, self.phases)
        return {
            "epoch": self.epoch,
            "started_at": self.started_at.isoformat(timespec="milliseconds"),
            "status": self.status,
            "duration_ms": _milliseconds(self.duration),
            "phases": {"mark_ms": mark, "flush_ms": flush, "store_ms": store},
            "positions": self.positions,
            "markers": {name: {"at_ms": _milliseconds(at)} for name, at in self.markers.items()},
            "acks": {name: {"at_ms": _milliseconds(at)} for name, at in self.acks.items()},
            "waiting_for": self.missing if self.status == "running" else [],
        }


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)


class EpochLog:
    """A ring of the last epochs. Written by the checkpoint thread and by lanes, read by observers."""

    def __init__(self, capacity: int = CAPACITY, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._records: deque[EpochRecord] = deque(maxlen=capacity)
        self._began: dict[int, float] = {}
        self._lock = threading.Lock()
        #: called with every epoch that has ended, by the thread that ended it
        self.on_end: Callable[[EpochRecord], None] = lambda record: None

    def started(self, epoch: int, terminal: bool, flows: Collection[str], sinks: Collection[str]) -> None:
        """Record the start of an epoch, for which all of these have to report."""
        self._end_all("failed")
        with self._lock:
            self._began = {epoch: self._now()}
            self._records.append(EpochRecord(epoch, datetime.now(UTC), terminal, set(flows), set(sinks)))

    def marked(self, flow: str, epoch: int, position: Mapping[str, Any]) -> None:
        with self._lock:
            if record := self._current(epoch):
                record.markers.setdefault(flow, self._elapsed(epoch))
                record.positions.setdefault(flow, self._shared(flow, position))
                record.unmarked.discard(flow)

    def acked(self, sink: str, epoch: int) -> None:
        with self._lock:
            if record := self._current(epoch):
                record.acks.setdefault(sink, self._elapsed(epoch))
                record.unacknowledged.discard(sink)

    def markers_of(self, node: str) -> MarkerLog:
        """Return what records the markers that pass ``node``."""
        return MarkerLog(self, node)

    def arrived(self, node: str, epoch: int) -> None:
        with self._lock:
            if record := self._current(epoch):
                record.arrivals[node] = self._elapsed(epoch)

    def passed(self, node: str, epoch: int) -> None:
        with self._lock:
            if record := self._current(epoch):
                record.departures[node] = self._elapsed(epoch)

    def storing(self, epoch: int) -> None:
        with self._lock:
            if record := self._current(epoch):
                record.stored_from = record.stored_from or self._elapsed(epoch)

    def finalized(self, epoch: int, seconds: float) -> EpochRecord | None:
        with self._lock:
            record = self._current(epoch)
            if record is None:
                return None
            record.status, record.duration = "complete", seconds
            record.stored_from = seconds if record.stored_from is None else record.stored_from
        self.on_end(record)
        return record

    def failed(self) -> None:
        """Record that the epoch in flight cannot complete."""
        self._end_all("failed")

    @property
    def last(self) -> int | None:
        """The last epoch that was started; None before the first."""
        with self._lock:
            return self._records[-1].epoch if self._records else None

    def recent(self, limit: int = CAPACITY) -> list[EpochRecord]:
        """Return the last epochs, newest first."""
        with self._lock:
            return list(self._records)[::-1][:limit]

    def _end_all(self, status: Status) -> None:
        with self._lock:
            ended = [record for record in self._records if record.status == "running"]
            for record in ended:
                record.status, record.duration = status, self._elapsed(record.epoch)
        for record in ended:
            self.on_end(record)

    def _current(self, epoch: int) -> EpochRecord | None:
        if not self._records or self._records[-1].epoch != epoch or self._records[-1].status != "running":
            return None
        return self._records[-1]

    def _elapsed(self, epoch: int) -> float:
        return self._now() - self._began.get(epoch, self._now())

    def _shared(self, flow: str, position: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return ``position``, or that of the last epoch if it is equal: an idle pipeline keeps one."""
        last = self._records[-2].positions.get(flow) if len(self._records) > 1 else None
        return last if last == position else position


@dataclass(frozen=True)
class MarkerLog:
    """Records the markers that pass one instance of a node."""

    epochs: EpochLog
    node: str

    def arrived(self, epoch: int) -> None:
        """Record that the marker has arrived from every feeder: all rows of the epoch are here."""
        self.epochs.arrived(self.node, epoch)

    def passed(self, epoch: int) -> None:
        """Record that the rows have been processed, and that the marker has been passed on or handed to the sink."""
        self.epochs.passed(self.node, epoch)
