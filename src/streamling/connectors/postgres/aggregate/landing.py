"""Writes rows to the landing table of an aggregate, and decides when they may be deleted.

A row is counted when it is inserted into the landing table, but not if it is already there. So a row that is replayed
after a crash counts once, *provided that its first copy is still there*: it must stay until the position behind it is
stored.

After a crash, the table alone does not show which rows these are. Epochs start at 1 in every process; rows of an epoch
that was never finished are replayed piecemeal, over several epochs of the next process; the process may die between
storing the positions and cleaning up; and other processes of the same pipeline write to the same table.

Therefore `_gs_checkpoint_epoch` holds two numbers: the upper half is a run, drawn when an instance of the sink is
created; the lower half is the epoch in which that run last wrote the row. Rows of another run are never removed by
epoch alone, and a replayed row belongs from then on to the run that replays it. The last final epoch of each run is
stored in the state, in the transaction that stores the positions: the rows it covers are never replayed, and the next
start removes them. All other rows stay until they have been replayed.

Epoch N is that of rows written before marker N. With several feeders, rows of epoch N + 1 may arrive before the last
marker N: from the first marker on, rows are assigned to the next epoch, which keeps some rows of epoch N longer and
loses none.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from streamling.connectors.postgres.aggregate.trigger import EPOCH_COLUMN
from streamling.connectors.postgres.statements import StagedTransaction, Steps, assign_excluded, quote_names, statement
from streamling.connectors.postgres.table import TableName

if TYPE_CHECKING:
    from streamling.plugins.context import NodeState

_EPOCH_BITS: Final = 32
#: run 0 is that of rows that none of our runs has written
_MAX_RUNS: Final = 2**31


@dataclass(frozen=True)
class LandingTransaction(StagedTransaction):
    """Upserts rows, each tagged with the run and epoch."""

    #: the temporary table needs no tag, because all of its rows have the same one
    step: ClassVar[str] = EPOCH_COLUMN

    epoch_tag: int

    def apply(self, steps: Steps) -> bytes:
        return b"; ".join(self._upsert(number) for number, _ in steps)

    def _upsert(self, step: int) -> bytes:
        from psycopg import sql

        values = [column.name for column in self.columns if column.name not in self.key]
        return self._text(
            "INSERT INTO {table} ({columns}, {epoch}) SELECT {columns}, {epoch_tag} FROM {staging} {where}"
            " ON CONFLICT ({key}) DO UPDATE SET {updated}",
            epoch=sql.Identifier(EPOCH_COLUMN),
            epoch_tag=self.epoch_tag,
            where=self._where(step),
            key=quote_names(self.key),
            updated=assign_excluded([*values, EPOCH_COLUMN]),
        )


class LandingRun:
    """What one instance of a sink has written between open and close, and how much of it is final."""

    def __init__(self, sink: str, draw: Callable[[int, int], int] = random.randrange) -> None:
        self._number = draw(1, _MAX_RUNS)
        self._key = f"{_prefix(sink)}{self._number}"
        #: epoch of the current rows, and of the last rows written
        self._epoch, self._written = 1, 0
        #: last epoch that the state knows to be final, and last epoch removed from the landing table
        self._final = self._removed = 0

    @property
    def epoch_tag(self) -> int:
        """The tag of the current rows."""
        return _tag(self._number, self._epoch)

    def begin_write(self) -> None:
        """Record that rows are about to be written with the current tag."""
        self._written = self._epoch

    def begin_epoch_after(self, epoch: int) -> None:
        """Assign rows from now on to the epoch after ``epoch``."""
        self._epoch = max(self._epoch, epoch + 1)

    def state_entries(self, epoch: int) -> Mapping[str, Any]:
        """Return what to store in the state once ``epoch`` is final; empty if no rows arrived since the last time."""
        return {self._key: epoch} if self._final < min(self._written, epoch) else {}

    def finalized(self, epoch: int) -> tuple[int, int] | None:
        """Return first and last tag of the rows that can be deleted now that ``epoch`` is final. Rows of the epoch
        itself stay one epoch longer, for rows that a source delivers twice."""
        self._final = max(self._final, epoch)
        last = epoch - 1
        return (_tag(self._number, 0), _tag(self._number, last)) if self._removed < min(self._written, last) else None

    def record_removed(self, epoch: int) -> None:
        """Record that the rows that ``epoch`` made deletable are deleted."""
        self._removed = epoch - 1


def finalized_runs(sink: str, state: NodeState) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield state keys of earlier runs, with the first and last tag of their final rows."""
    for key, epoch in state.get_prefix(_prefix(sink)).items():
        number = int(key.removeprefix(_prefix(sink)))
        yield key, (_tag(number, 0), _tag(number, epoch))


def delete_statement(landing: TableName, tags: tuple[int, int]) -> bytes:
    from psycopg import sql

    return statement(
        "DELETE FROM {table} WHERE {epoch} BETWEEN {first} AND {last}",
        table=landing.identifier(),
        epoch=sql.Identifier(EPOCH_COLUMN),
        first=tags[0],
        last=tags[1],
    )


def _prefix(sink: str) -> str:
    return f"{sink}:landing:"


def _tag(run: int, epoch: int) -> int:
    return (run << _EPOCH_BITS) + epoch
