"""Direct inserts: rows marked as new are copied directly into the table, which costs the server less than half of
staging and upserting them (1.4 instead of 3.4 µs per row). If a row already exists, the attempt fails and the batch is
upserted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from streamling.connectors.postgres.statements import CopyTransaction, quote_names, statement

#: maximum number of batches between two attempts
_LONGEST_INTERVAL: Final = 64


def is_all_inserts(batch: pa.RecordBatch, key: Sequence[str], operation: str) -> bool:
    """Return whether every row is an insert. Keys with nulls do not count: to Postgres they are all different."""
    if any(batch.column(name).null_count for name in key):
        return False
    if operation not in batch.schema.names:
        return True
    return bool(pc.all(pc.equal(batch.column(operation), "i").fill_null(False)).as_py())


@dataclass(frozen=True)
class InsertTransaction(CopyTransaction):
    """Copies rows directly into the table; its index detects rows that are not new."""

    key: Sequence[str]

    @cached_property
    def begin(self) -> bytes:
        """Fails as an upsert would if the table has lost the index on the key. Planning the statement writes no row and
        fires no trigger."""
        probe = (
            "EXPLAIN INSERT INTO {table} ({key}) SELECT {key} FROM {table} WHERE false ON CONFLICT ({key}) DO NOTHING"
        )
        return super().begin + b"; " + statement(probe, table=self.table.identifier(), key=quote_names(self.key))


class InsertBackoff:
    """Decides whether to attempt a direct insert. After a failed attempt 1, 2, 4 … batches are upserted, so that a
    source that marks every change as an insert pays little."""

    def __init__(self) -> None:
        self._left = 0
        self._interval = 1

    def should_try(self) -> bool:
        """Return whether to attempt it; called once for each eligible batch."""
        if self._left:
            self._left -= 1
            return False
        return True

    def succeeded(self) -> None:
        self._interval = 1

    def failed(self) -> None:
        self._left = self._interval
        self._interval = min(self._interval * 2, _LONGEST_INTERVAL)
