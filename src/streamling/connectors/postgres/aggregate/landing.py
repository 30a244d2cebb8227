"""Rows on their way into an aggregate: how they are written to the landing table, and when they may go.

A row is counted when it is inserted into the landing table, and not when it is there already. So a row that comes
again after a crash counts once, *if its first self is still there*: it has to stay until the position behind it is
stored.

Which rows these are, nothing in the table alone can tell after a crash. Epochs begin at 1 in every process; rows of an
epoch that was never finished are replayed bit by bit, over several epochs of the next process; between storing the
positions and cleaning up the process may die; and other processes of the same pipeline write to the same table.
Therefore `_gs_checkpoint_epoch` holds two numbers: the upper half is a run, drawn when an instance of the sink is made,
the lower half the epoch in which that run wrote the row last. Nobody removes rows of another run by their epoch alone,
and a replayed row belongs to the run that replays it from then on. The last epoch that is final is stored for each run
in the state, in the transaction that stores the positions: what it covers is never replayed, and the next start removes
it. Everything else stays until it has been replayed.

Epoch N is that of rows written before marker N. With several feeders rows of epoch N + 1 may come before the last
marker N: from the first marker on rows are taken for the next epoch, which keeps some of epoch N longer and loses none.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from streamling.connectors.postgres.aggregate.trigger import EPOCH_COLUMN
from streamling.connectors.postgres.statements import StagedTransaction, Steps, names, replaced, statement
from streamling.connectors.postgres.table import TableName

if TYPE_CHECKING:
    from streamling.plugins.context import NodeState

_EPOCH_BITS: Final = 32
#: run 0 is that of rows that no run of ours has written
_MOST_RUNS: Final = 2**31


@dataclass(frozen=True)
class LandingTransaction(StagedTransaction):
    """Rows are upserted, each with the mark of the run."""

    #: the temporary table needs no mark, as all of its rows have the same
    step: ClassVar[str] = EPOCH_COLUMN

    epoch_tag: int

    def end(self, steps: Steps) -> bytes:
        """All steps and the commit."""
        return b"; ".join([*(self._upsert(number) for number, _ in steps), b"COMMIT"])

    def _upsert(self, step: int) -> bytes:
        from psycopg import sql

        values = [column.name for column in self.columns if column.name not in self.key]
        return self._text(
            "INSERT INTO {table} ({columns}, {epoch}) SELECT {columns}, {epoch_tag} FROM {staging} {where}"
            " ON CONFLICT ({key}) DO UPDATE SET {updated}",
            epoch=sql.Identifier(EPOCH_COLUMN),
            epoch_tag=self.epoch_tag,
            where=self._where(step),
            key=names(self.key),
            updated=replaced([*values, EPOCH_COLUMN]),
        )


class LandingRun:
    """What one instance of a sink, from open to close, has written, and how much of it is final."""

    def __init__(self, sink: str, draw: Callable[[int, int], int] = random.randrange) -> None:
        self._number = draw(1, _MOST_RUNS)
        self._key = f"{_prefix(sink)}{self._number}"
        #: of the rows that come now, and of the last that were written
        self._epoch, self._written = 1, 0
        #: the last that the state knows to be final, and the last that is gone from the landing table
        self._final = self._removed = 0

    @property
    def epoch_tag(self) -> int:
        """What the rows that come now are marked with."""
        return _mark(self._number, self._epoch)

    def begin_write(self) -> None:
        """Rows are about to be written with the current mark."""
        self._written = self._epoch

    def begin_epoch_after(self, epoch: int) -> None:
        """From now on rows may belong to the epoch after ``epoch``."""
        self._epoch = max(self._epoch, epoch + 1)

    def state_entries(self, epoch: int) -> Mapping[str, Any]:
        """What the state has to know as soon as ``epoch`` is final; nothing when no rows came since the last time."""
        return {self._key: epoch} if self._final < min(self._written, epoch) else {}

    def finalized(self, epoch: int) -> tuple[int, int] | None:
        """First and last mark of the rows that can go now that ``epoch`` is final. Those of the epoch itself stay one
        epoch longer, for rows that a source delivers twice."""
        self._final = max(self._final, epoch)
        last = epoch - 1
        return (_mark(self._number, 0), _mark(self._number, last)) if self._removed < min(self._written, last) else None

    def removed(self, epoch: int) -> None:
        """The rows that could go with ``epoch`` are gone."""
        self._removed = epoch - 1


def finalized_runs(sink: str, state: NodeState) -> Iterator[tuple[str, tuple[int, int]]]:
    """State keys of earlier runs, with the first and last mark of what is final of them."""
    for key, epoch in state.get_prefix(_prefix(sink)).items():
        number = int(key.removeprefix(_prefix(sink)))
        yield key, (_mark(number, 0), _mark(number, epoch))


def delete_statement(landing: TableName, marks: tuple[int, int]) -> bytes:
    from psycopg import sql

    return statement(
        "DELETE FROM {table} WHERE {epoch} BETWEEN {first} AND {last}",
        table=landing.identifier(),
        epoch=sql.Identifier(EPOCH_COLUMN),
        first=marks[0],
        last=marks[1],
    )


def _prefix(sink: str) -> str:
    return f"{sink}:landing:"


def _mark(run: int, epoch: int) -> int:
    return (run << _EPOCH_BITS) + epoch
