"""Rejected rows: what a dead-letter sink receives for each row that a node cannot process."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pyarrow as pa

from streamling.errors import BadRow
from streamling.redaction import redact
from streamling.types.row_kind import OP_COLUMN

#: columns of every dead-letter sink
DEAD_LETTER_SCHEMA: Final = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("node", pa.string(), nullable=False),
        pa.field("error", pa.string(), nullable=False),
        pa.field("position", pa.string()),
        pa.field("payload", pa.string()),
        pa.field(OP_COLUMN, pa.string(), nullable=False),
    ]
)

#: A column of the DataFrames of a source that has a dead-letter sink: null if the row is valid, otherwise a struct of
#: the strings `error`, `position` and `payload`; the other columns are ignored then. The engine removes the column.
REJECT_COLUMN: Final = "__streamling_reject"


Reject = Callable[[pa.RecordBatch, str], None]


class RejectedRows:
    """Rejected rows of one instance of an operator, until the engine takes them."""

    def __init__(self, node: str, primary_key: tuple[str, ...]) -> None:
        self._node = node
        self._key = primary_key
        self._waiting: list[pa.RecordBatch] = []
        #: rows rejected so far
        self.count = 0

    def add(self, rows: pa.RecordBatch, error: str) -> None:
        """Reject ``rows``, which are as the operator received them."""
        from streamling.types.json import json_rows  # imports pyarrow.compute: 25 ms of the start-up

        payloads = list(json_rows(rows))
        self.count += len(payloads)
        self._waiting.append(
            dead_letter_batch(self._node, [redact(error)] * len(payloads), self._positions(rows), payloads)
        )

    def take(self) -> list[pa.RecordBatch]:
        """Return those added since the last call, in order."""
        taken, self._waiting = self._waiting, []
        return taken

    def _positions(self, rows: pa.RecordBatch) -> list[str | None]:
        """Return what identifies each row of a transform or sink: its key, as far as the input has its columns."""
        columns = [_named(rows, name) for name in self._key if name in rows.schema.names]
        if not columns:
            return [None] * rows.num_rows
        return [", ".join(values) for values in zip(*columns, strict=True)]


def _named(rows: pa.RecordBatch, name: str) -> Iterator[str]:
    from streamling.types.json import json_texts

    texts = json_texts(rows.column(name), rows.schema.field(name))
    return (f"{name}={text or 'null'}" for text in texts)


def reject_failing_rows(call: Callable[[pa.RecordBatch], object], batch: pa.RecordBatch, reject: Reject) -> None:
    """Pass all rows of ``batch`` to ``call``, in order, and those with which it fails to ``reject``. A part that fails
    is halved, and after a part that succeeds the next one is twice as big: one bad row costs about two more passes, and
    if all rows are bad each costs one call."""
    start, size = 0, batch.num_rows
    while start < batch.num_rows:
        part = batch.slice(start, size)
        try:
            call(part)
        except BadRow as bad:
            if part.num_rows > 1:
                size = part.num_rows // 2
                continue
            reject(part, bad.reason)
        else:
            size = 2 * part.num_rows
        start += part.num_rows


def dead_letter_batch(
    node: str, errors: Sequence[str], positions: Sequence[str | None], payloads: Sequence[str | None]
) -> pa.RecordBatch:
    """Return rows of `DEAD_LETTER_SCHEMA`. The same rejected row always has the same ``id``, so that a sink that
    upserts stores it once."""
    ids = [_id(node, position, payload) for position, payload in zip(positions, payloads, strict=True)]
    count = len(ids)
    columns = [ids, [node] * count, errors, positions, payloads, ["i"] * count]
    return pa.record_batch([pa.array(column, pa.string()) for column in columns], schema=DEAD_LETTER_SCHEMA)


def _id(node: str, position: str | None, payload: str | None) -> str:
    text = "\n".join((node, position or "", payload or ""))
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
