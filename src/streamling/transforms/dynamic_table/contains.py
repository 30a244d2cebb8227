"""Checks of whole columns at once.

Measured on 1 M rows with 200 000 different texts, a table of 100 000: 0.13 s, of which 0.09 s find the different
texts. Only those meet the table, so the cost does not depend on its size; Arrow's own `is_in` takes 0.03 s here but
builds its hash table anew for every batch, which at 10 M entries would cost more than a second each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

#: the row before the first: what it appended is seen by all
EARLIER: Final = -1

#: for each of some different values the row that appended it, `EARLIER` when it was there before the batch, None when
#: it is not in the table
FirstRows = Callable[[Sequence[str]], Sequence[int | None]]


def check(values: pa.Array, rows: pa.Array, first_rows: FirstRows) -> pa.Array:
    """Whether each of ``values`` (texts, or lists of texts) was in the table when its row came. A list is when one of
    its elements is; NULL is neither in the table nor not."""
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), pa.bool_())
    if not len(values):
        return pa.array([], pa.bool_())
    if not pa.types.is_list(values.type):
        return _check(values, rows, first_rows)
    parents = pc.list_parent_indices(values)
    found = _check(values.flatten(), rows.take(parents), first_rows).fill_null(False)
    ours = pc.unique(parents.filter(found))
    any_found = pc.scatter(pa.repeat(True, len(ours)), ours, max_index=len(values) - 1).fill_null(False)
    return pc.if_else(values.is_valid(), any_found, pa.scalar(None, pa.bool_()))


def first_appearances(values: pa.Array, rows: pa.Array) -> dict[str, int]:
    """The lowest of ``rows`` for each of the different ``values``; NULL is no value."""
    if pa.types.is_null(values.type):
        return {}
    table = pa.table({"value": values, "row": rows}).drop_null()
    firsts = table.group_by("value", use_threads=False).aggregate([("row", "min")])
    return dict(zip(firsts.column("value").to_pylist(), firsts.column("row_min").to_pylist(), strict=True))


def _check(values: pa.Array, rows: pa.Array, first_rows: FirstRows) -> pa.Array:
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), pa.bool_())
    encoded = values.dictionary_encode()
    different = encoded.dictionary.to_pylist()
    firsts = pa.array(first_rows(different) if different else [], pa.int64())
    found = pc.less(firsts.take(encoded.indices), rows).fill_null(False)
    return pc.if_else(values.is_valid(), found, pa.scalar(None, pa.bool_()))
