"""Selects rows of a batch: by row kind, and by a condition."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from streamling.errors import StreamlingError
from streamling.observe.conditions import Evaluate, compile_condition
from streamling.types.row_kind import OP_COLUMN

_KINDS: Final = frozenset({"i", "u", "d"})
_LONGEST: Final = 10_000


@dataclass(frozen=True)
class RowFilter:
    """Selects rows; the empty one selects all."""

    kinds: frozenset[str] = frozenset()
    condition: Evaluate | None = field(default=None, repr=False)

    @classmethod
    def of(cls, condition: str | None, kinds: frozenset[str]) -> RowFilter:
        """Compile ``condition``. Raises a user error if it or a row kind is invalid."""
        if unknown := kinds - _KINDS:
            raise StreamlingError.user(f"'{min(unknown)}' is not a row kind", remedy="row kinds are i, u and d")
        if condition is None or not condition.strip():
            return cls(kinds)
        if len(condition) > _LONGEST:
            raise StreamlingError.user(f"the filter has more than {_LONGEST} characters")
        return cls(kinds, compile_condition(condition))

    @property
    def selects(self) -> bool:
        """Whether it may leave rows out."""
        return bool(self.kinds) or self.condition is not None

    def check(self, columns: pa.Schema) -> None:
        """Raise a user error if the condition does not fit ``columns``."""
        if self.condition is not None:
            self._select(pa.RecordBatch.from_pylist([], columns))

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the selected rows; raises a user error if the condition does not fit the columns."""
        import pyarrow.compute as pc

        if self.kinds and OP_COLUMN in batch.schema.names:
            batch = batch.filter(pc.is_in(batch.column(OP_COLUMN), value_set=pa.array(sorted(self.kinds))))
        return batch if self.condition is None or not batch.num_rows else self._select(batch)

    def _select(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        assert self.condition is not None
        try:
            mask = self.condition(batch)
            if isinstance(mask, pa.Scalar):
                mask = pa.repeat(mask, batch.num_rows)
            return batch.filter(mask.cast(pa.bool_()) if pa.types.is_null(mask.type) else mask)
        except RecursionError:
            raise StreamlingError.user("the filter has too many conditions") from None
        except (pa.ArrowException, TypeError, ValueError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise StreamlingError.user(f"the filter does not fit the rows: {reason}") from None
