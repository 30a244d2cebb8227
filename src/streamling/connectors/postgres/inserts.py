"""Rows that are said to be new go straight into the table: for the server that is less than half the work of staging
and upserting them (1.4 instead of 3.4 µs per row). A row that is not new after all ends the try, and the batch is
upserted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from streamling.connectors.postgres.statements import CopyTransaction, names, statement

#: most batches between two tries
_LONGEST_PAUSE: Final = 64


def is_all_inserts(batch: pa.RecordBatch, key: Sequence[str], operation: str) -> bool:
    """Whether every row is an insert. Keys with nulls are nobody's: Postgres finds them all different."""
    if any(batch.column(name).null_count for name in key):
        return False
    if operation not in batch.schema.names:
        return True
    return bool(pc.all(pc.equal(batch.column(operation), "i").fill_null(False)).as_py())


@dataclass(frozen=True)
class InsertTransaction(CopyTransaction):
    """Rows go straight into the table, whose index tells when one is not new."""

    key: Sequence[str]

    @cached_property
    def begin(self) -> bytes:
        """Fails like an upsert does when the table has lost the index on the key; planning it takes no row and starts
        no trigger."""
        probe = (
            "EXPLAIN INSERT INTO {table} ({key}) SELECT {key} FROM {table} WHERE false ON CONFLICT ({key}) DO NOTHING"
        )
        return super().begin + b"; " + statement(probe, table=self.table.identifier(), key=names(self.key))


class InsertBackoff:
    """Whether to try. After a try that failed 1, 2, 4 … batches are upserted, so that a source that calls every change
    an insert pays little."""

    def __init__(self) -> None:
        self._left = 0
        self._pause = 1

    def should_try(self) -> bool:
        """Asked once for each batch that could be tried."""
        if self._left:
            self._left -= 1
            return False
        return True

    def succeeded(self) -> None:
        self._pause = 1

    def failed(self) -> None:
        self._left = self._pause
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)
