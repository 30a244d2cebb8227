"""Updates and deletes of generated rows: a change log without a database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from streamling.connectors.generate.draws import Draws, unsigned
from streamling.pipeline.document.scalars import BadValueError, PrimaryKey
from streamling.pipeline.options import Options

#: shares are counted in these parts, so that every count is exact
_PARTS = 1_000_000
_KINDS = pa.array(["i", "u", "d"])


class Changes(Options):
    """Which rows change an earlier one."""

    updates: float = Field(
        default=0.0, ge=0, lt=1, description="Share of rows that update an earlier row, such as 0.3."
    )
    deletes: float = Field(
        default=0.0, ge=0, lt=1, description="Share of rows that delete an earlier row, such as 0.1."
    )
    columns: PrimaryKey = Field(
        default=(), description="Columns that an update changes, comma-separated; by default all but the key."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.updates and not self.deletes:
            raise BadValueError("has neither 'updates' nor 'deletes'", "set one of them, or remove it")
        if self._inserted_parts <= self._deleted_parts:
            raise BadValueError(
                f"is {self.deletes}, but there must be more inserts than deletes",
                "keep updates + 2 * deletes below 1: the rest are inserts",
                field="deletes",
            )
        return self

    @property
    def _deleted_parts(self) -> int:
        return round(self.deletes * _PARTS)

    @property
    def _updated_parts(self) -> int:
        return round(self.updates * _PARTS)

    @property
    def _inserted_parts(self) -> int:
        return _PARTS - self._updated_parts - self._deleted_parts

    def log(self, draws: Draws) -> ChangeLog:
        """Return the kinds of the rows that ``draws`` numbers, and what they change.

        Inserts and deletes are spread evenly, so the number of those before any row is a division. Keys are inserted
        and deleted in order: the rows that exist are always those between the two counts.
        """
        numbers = draws.numbers
        inserts = self._inserts_before(numbers)
        is_insert = pc.greater(self._inserts_before(pc.add(numbers, unsigned(1))), inserts)
        changes = pc.subtract(numbers, inserts)
        deletes = self._deletes_before(changes)
        is_delete = pc.greater(self._deletes_before(pc.add(changes, unsigned(1))), deletes)
        # the first row has nothing to update, and is an insert
        existing = pc.max_element_wise(pc.subtract(inserts, deletes), unsigned(1))
        updated = pc.add(deletes, draws.below(existing))
        kinds = pc.if_else(is_insert, unsigned(0), pc.if_else(is_delete, unsigned(2), unsigned(1)))
        keys = pc.if_else(is_insert, inserts, pc.if_else(is_delete, deletes, updated))
        return ChangeLog(_KINDS.take(kinds), keys)

    def _inserts_before(self, numbers: pa.Array) -> pa.Array:
        parts = pc.multiply(numbers, unsigned(self._inserted_parts))
        return pc.divide(pc.add(parts, unsigned(_PARTS - 1)), unsigned(_PARTS))

    def _deletes_before(self, changes: pa.Array) -> pa.Array:
        parts = pc.multiply(changes, unsigned(self._deleted_parts))
        return pc.divide(parts, unsigned(self._updated_parts + self._deleted_parts))


@dataclass(frozen=True)
class ChangeLog:
    """What some rows do: their kinds, and the numbers of the inserts that they are about."""

    kinds: pa.Array
    keys: pa.Array
