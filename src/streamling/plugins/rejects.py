"""Bad rows: what a dead-letter sink gets for each row that a node cannot use."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from streamling.plugins.operators import OP_COLUMN

#: columns of every dead-letter sink
SCHEMA: Final = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("node", pa.string(), nullable=False),
        pa.field("error", pa.string(), nullable=False),
        pa.field("position", pa.string()),
        pa.field("payload", pa.string()),
        pa.field(OP_COLUMN, pa.string(), nullable=False),
    ]
)

#: A column of the DataFrames of a source that has a dead-letter sink: null where the row is good, else a struct of the
#: texts `error`, `position` and `payload`; the other columns mean nothing then. The engine takes it away.
REJECT: Final = "__streamling_reject"


def bad_rows(
    node: str, errors: Sequence[str], positions: Sequence[str | None], payloads: Sequence[str | None]
) -> pa.RecordBatch:
    """Rows of `SCHEMA`. The same bad row has the same ``id`` whenever it comes, so that a sink that upserts has it
    once."""
    ids = [_id(node, position, payload) for position, payload in zip(positions, payloads, strict=True)]
    count = len(ids)
    columns = [ids, [node] * count, errors, positions, payloads, ["i"] * count]
    return pa.record_batch([pa.array(column, pa.string()) for column in columns], schema=SCHEMA)


def _id(node: str, position: str | None, payload: str | None) -> str:
    text = "\n".join((node, position or "", payload or ""))
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
