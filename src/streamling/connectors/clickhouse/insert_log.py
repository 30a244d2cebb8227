"""Remembers which blocks a sink has inserted since the last checkpoint, so that a replay does not insert them again.

After a crash, the source delivers the rows since the last checkpoint once more, in batches of other sizes. Before a
block is inserted, its size and a hash are stored in the state. If another block follows in the log, the insert was
successful. A replay is cut into blocks of the same sizes. A block with the same hash is skipped, except the last one,
which may or may not have arrived: it is sent with the same deduplication token as before, and the server ignores it if
it already has it.

A hash covers the block and all blocks before it. So blocks are only skipped as long as the replay is equal from its
start: if one has to be inserted, all later ones are too. Otherwise a row could replace a newer one.

The hash at a checkpoint is stored in the same transaction as the positions. From there the hashes continue after a
restart. The first hash is random, so tokens are never equal to those of another run that starts anew.

What this does not promise: rows that a source delivers in another order are inserted again. A table that replaces rows
by key has the right content anyway.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import xxhash

if TYPE_CHECKING:
    from streamling.plugins.context import NodeState

#: Blocks since the last checkpoint that are remembered. Later ones are inserted again by a replay.
_MAX_BLOCKS: Final = 1000
_HASH_BYTES: Final = 16

#: number of rows and hash
Block = tuple[int, str]


@dataclass(frozen=True)
class RowsAhead:
    """Rows after the marker of a checkpoint that are in the table: the rest of a block of a replay."""

    rows: int
    content: bytes | memoryview


class InsertLog:
    """The blocks of one instance of a sink. Without a state it still makes tokens, which protect repeated requests."""

    def __init__(self, state: NodeState | None, sink: str, instance: int = 0, instances: int = 1) -> None:
        self._state = state
        self._prefix, self._suffix = f"{sink}:inserts:", f"/{instances}"
        self._key = f"{self._prefix}{instance}{self._suffix}"
        self._hash = _random_hash()
        #: blocks since ``_start``, the hash at the last checkpoint that is final
        self._start = self._hash
        self._blocks: list[Block] = []
        #: hashes at the markers of epochs that are not final yet
        self._marked: dict[int, str] = {}
        #: blocks that a replay should repeat
        self._expected: deque[Block] = deque()
        #: rows after the checkpoint that the table has, and the hash of their content; they come before ``_expected``
        self._ahead: Block | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._table = ""

    def open(self, table: str, *, is_empty: bool) -> None:
        """Continue after an earlier run; ``table`` identifies the table. Blocks in a table that was created again or
        emptied do not count."""
        self._table = table
        if self._state is None:
            return
        self._remove_others(self._state)
        checkpoint, log = self._state.get(f"{self._key}:checkpoint"), self._state.get(f"{self._key}:blocks")
        if checkpoint is not None:
            self._hash = self._start = checkpoint["hash"]
        if log is None or log["table"] != table or is_empty:
            return
        if checkpoint is not None and checkpoint.get("ahead") is not None:
            rows, digest = checkpoint["ahead"]
            self._ahead = rows, digest
        if checkpoint is None:  # the earlier run ended before its first checkpoint
            self._hash = self._start = log["start"]
        self._expected = deque(_blocks_after(self._hash, log))

    # ── blocks ──────────────────────────────────────────────────────────────────────────────────────────────

    def cut(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the blocks to insert: ``batch``, or during a replay blocks as large as they were."""
        self._waiting.append(batch)
        while self._waiting and (size := self._next_size()) is not None:
            if self.waiting_rows < size:
                return
            whole = self._take()
            if whole.num_rows > size:
                self._waiting = [whole.slice(size)]
            yield whole.slice(0, size)
        if self._waiting:
            yield self._take()

    @property
    def waiting_rows(self) -> int:
        """How many rows of a replay wait for the rest of their block."""
        return sum(part.num_rows for part in self._waiting)

    def drain(self) -> Iterator[pa.RecordBatch]:
        """Yield rows that wait for the rest of their block, which is then inserted again."""
        if self._waiting:
            yield self._take()

    def begin(self, rows: int, content: bytes | memoryview) -> str | None:
        """Return the token of a block that is to be inserted now, after `store`; None if the table already has it."""
        digest = xxhash.xxh3_128_hexdigest(content)  # of megabytes: ten times as fast as the other one
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            if ahead == (rows, digest):
                return None
            self._expected.clear()
        self._hash = hashlib.blake2b(digest.encode(), digest_size=_HASH_BYTES, key=self._hash.encode()).hexdigest()
        block = rows, self._hash
        known = self._expected.popleft() if self._expected else None
        if known != block:
            self._expected.clear()
        if self._state is not None:
            self._blocks.append(block)
        return None if known == block and self._expected else self._hash

    def store(self) -> None:
        """Store the blocks so far. May be called again if it fails."""
        if self._state is not None and len(self._blocks) <= _MAX_BLOCKS:
            log = {"table": self._table, "start": self._start, "blocks": self._blocks}
            self._state.put(f"{self._key}:blocks", log)

    # ── checkpoints ─────────────────────────────────────────────────────────────────────────────────────────

    def marker(self, epoch: int, ahead: RowsAhead | None = None) -> Mapping[str, Any]:
        """Return what to store with the positions of ``epoch``: everything up to there is in the table, and what is
        ``ahead`` of it."""
        if self._state is None:
            return {}
        self._marked[epoch] = self._hash
        entry: dict[str, Any] = {"hash": self._hash}
        if ahead is not None:
            entry["ahead"] = [ahead.rows, xxhash.xxh3_128_hexdigest(ahead.content)]
        return {f"{self._key}:checkpoint": entry}

    def finalized(self, epoch: int) -> None:
        """Forget the blocks up to the marker of ``epoch``."""
        final = [marked for marked in self._marked if marked <= epoch]
        if not final:
            return
        start = self._marked[max(final)]
        for marked in final:
            del self._marked[marked]
        hashes = [self._start, *(hash_ for _, hash_ in self._blocks)]
        self._blocks = self._blocks[hashes.index(start) :]
        self._start = start

    # ── helpers ─────────────────────────────────────────────────────────────────────────────────────────────

    def _remove_others(self, state: NodeState) -> None:
        """Remove the logs of runs with another number of instances, which had other rows."""
        for key in state.get_prefix(self._prefix):
            if not key.rpartition(":")[0].endswith(self._suffix):
                state.remove(key)

    def _next_size(self) -> int | None:
        if self._ahead is not None:
            return self._ahead[0]
        return self._expected[0][0] if self._expected else None

    def _take(self) -> pa.RecordBatch:
        waiting, self._waiting = self._waiting, []
        return waiting[0] if len(waiting) == 1 else pa.concat_batches(waiting)


def _blocks_after(final: str, log: Mapping[str, Any]) -> list[Block]:
    blocks = [(rows, hash_) for rows, hash_ in log["blocks"]]
    hashes = [log["start"], *(hash_ for _, hash_ in blocks)]
    return blocks[hashes.index(final) :] if final in hashes else []


def _random_hash() -> str:
    return secrets.token_hex(_HASH_BYTES)


#: How long the rows of a replay may wait for the rest of their block. It arrives as soon as the source delivers more,
#: which takes some time after a start. If it does not arrive, the source has lost rows or now has others.
MARKER_SECONDS: Final = 60.0


class PendingMarker:
    """At most one marker whose rows are not durable yet. The caller makes sure that only one thread uses it."""

    def __init__(self, seconds: float = MARKER_SECONDS) -> None:
        self._seconds = seconds
        self._acknowledge: Callable[[pa.RecordBatch | None], None] | None = None
        self._rows = 0
        self._timer: threading.Timer | None = None

    @property
    def is_set(self) -> bool:
        return self._acknowledge is not None

    def set(self, acknowledge: Callable[[pa.RecordBatch | None], None], rows: int) -> None:
        """Keep a marker until `release`; ``rows`` in front of it wait. One that is already set belongs to an epoch
        that has been given up."""
        self.cancel()
        self._acknowledge, self._rows = acknowledge, rows

    def give_up_later(self, give_up: Callable[[], None]) -> None:
        """Call ``give_up`` on another thread if the marker has not been released in time."""
        self._timer = threading.Timer(self._seconds, give_up)
        self._timer.daemon = True
        self._timer.start()

    def release(self, block: pa.RecordBatch | None = None) -> None:
        """Acknowledge the marker, if there is one. ``block`` begins with the rows that waited and is durable:
        ``acknowledge`` gets those that follow them."""
        acknowledge = self._acknowledge
        self.cancel()
        if acknowledge is not None:
            acknowledge(None if block is None else block.slice(self._rows))

    def cancel(self) -> None:
        """Forget the marker."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._acknowledge = None
