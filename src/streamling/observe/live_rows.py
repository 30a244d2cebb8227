"""Some rows of each node, for people who watch a pipeline.

The engine asks `NodeRows.wanted` for every batch, which is a comparison of numbers, and hands over a few rows if the
answer is not zero. A listener cannot slow a pipeline down: while it has rows that it has not taken, it gets no new
ones.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import pyarrow as pa

#: rows of one batch that a listener gets at most
LARGEST: Final = 10_000
#: a batch that stays in Spark needs a job of its own to be seen: at most one hundredth of the time, for all nodes
_JOB_SHARE: Final = 100.0


class Listener:
    """Receives rows of some nodes until it is closed. The engine adds rows, one other thread takes them."""

    def __init__(self, per_second: float | None, whole: bool) -> None:
        """``per_second`` are the rows of each node that it gets; None: only those that are kept anyway. ``whole``: it
        gets as many rows of one batch per second as possible, because it selects among them."""
        self._per_second = per_second
        self._whole = whole
        self._waiting: dict[str, pa.RecordBatch] = {}
        self._last: dict[str, float] = {}
        self._lock = threading.Lock()

    @property
    def takes_kept_rows(self) -> bool:
        return self._per_second is None and not self._whole

    @property
    def waiting_batches(self) -> int:
        """How many batches have not been taken: at most one per node."""
        return len(self._waiting)

    def wanted(self, node: str, now: float) -> int:
        """Return how many rows of the next batch of ``node`` it takes."""
        if self.takes_kept_rows or node in self._waiting:
            return 0
        passed = min(1.0, now - self._last.get(node, 0.0))
        if self._whole:
            return LARGEST if passed == 1.0 else 0
        return min(LARGEST, int(passed * (self._per_second or 0.0)))

    def offer(self, node: str, rows: pa.RecordBatch, now: float) -> None:
        with self._lock:
            if node not in self._waiting:
                self._waiting[node] = rows
                self._last[node] = now

    def take(self) -> Mapping[str, pa.RecordBatch]:
        """Return the rows that have arrived since the last call, by node."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
            return waiting


class NodeRows:
    """The rows of one node."""

    def __init__(
        self,
        node: str,
        records: int,
        window: float,
        *,
        always: bool,
        watched_nodes: Callable[[], int] = lambda: 1,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Keeps up to ``records`` rows per ``window`` seconds: those that are in Python anyway, or with ``always`` also
        those that stay in Spark. ``watched_nodes`` is the number of nodes that share the time for jobs."""
        self._watched_nodes = watched_nodes
        self._node = node
        self._records = records
        self._window = window
        self._always = always
        self._now = now
        self._lock = threading.Lock()
        self._window_start = now() - window
        self._taken = 0
        self._kept: deque[pa.RecordBatch] = deque()
        #: who gets rows at the moment
        self.listeners: tuple[Listener, ...] = ()
        self._next_job = 0.0

    def wanted(self, *, in_python: bool) -> int:
        """Return how many rows of the next batch are wanted."""
        now = self._now()
        if not in_python and (now < self._next_job or not self.is_watched):
            return 0
        most = max((listener.wanted(self._node, now) for listener in self.listeners), default=0)
        return max(most, self._budget(now))

    def offer(self, rows: pa.RecordBatch, job_seconds: float = 0.0) -> None:
        """Offer rows of a batch; to compute them, Spark needed ``job_seconds``."""
        if not rows.num_rows:
            return
        now = self._now()
        self._next_job = now + job_seconds * _JOB_SHARE * self._watched_nodes()
        kept = self._keep(rows, now)
        counts = {listener: listener.wanted(self._node, now) for listener in self.listeners}
        copy = _copied(rows.slice(0, most)) if (most := max(counts.values(), default=0)) else None
        for listener, count in counts.items():
            if listener.takes_kept_rows and kept is not None:
                listener.offer(self._node, kept, now)
            elif count and copy is not None:
                listener.offer(self._node, copy.slice(0, count), now)

    @property
    def is_watched(self) -> bool:
        """Whether there are listeners, or rows are always kept."""
        return self._always or bool(self.listeners)

    def stored(self) -> list[pa.RecordBatch]:
        """Return the rows that are kept, newest batch first."""
        with self._lock:
            return list(self._kept)[::-1]

    def add(self, listener: Listener) -> None:
        with self._lock:
            self.listeners = (*self.listeners, listener)

    def remove(self, listener: Listener) -> None:
        with self._lock:
            self.listeners = tuple(each for each in self.listeners if each is not listener)

    def _budget(self, now: float) -> int:
        return self._records if now - self._window_start >= self._window else self._records - self._taken

    def _keep(self, rows: pa.RecordBatch, now: float) -> pa.RecordBatch | None:
        with self._lock:
            budget = self._budget(now)
            if not budget or not rows.num_rows:
                return None
            if now - self._window_start >= self._window:
                self._window_start, self._taken = now, 0
            head = _copied(rows.slice(0, budget))
            self._taken += head.num_rows
            self._kept.append(head)
            while sum(each.num_rows for each in self._kept) - self._kept[0].num_rows >= self._records:
                self._kept.popleft()
            return head


def _copied(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Copy the rows: a slice would keep the whole batch in memory."""
    return pa.ipc.read_record_batch(rows.serialize(), rows.schema)


class LiveRows:
    """The rows of all nodes of a run that can be watched: sources and transforms."""

    def __init__(
        self,
        nodes: Collection[str],
        records: int,
        window: float,
        *,
        always: bool,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._nodes = {
            name: NodeRows(name, records, window, always=always, watched_nodes=self._count_watched, now=now)
            for name in nodes
        }

    def __contains__(self, node: str) -> bool:
        return node in self._nodes

    def _count_watched(self) -> int:
        return sum(each.is_watched for each in self._nodes.values()) or 1

    def of(self, node: str) -> NodeRows | None:
        """Return the rows of ``node``; None if they cannot be watched."""
        return self._nodes.get(node)

    def stored(self, node: str) -> list[pa.RecordBatch]:
        return self._nodes[node].stored()

    @contextmanager
    def listening(
        self, nodes: Collection[str], *, per_second: float | None = None, whole: bool = False
    ) -> Iterator[Listener]:
        """Listen to ``nodes`` while the block runs."""
        listener = Listener(per_second, whole)
        watched = [self._nodes[name] for name in nodes]
        for each in watched:
            each.add(listener)
        try:
            yield listener
        finally:
            for each in watched:
                each.remove(listener)
