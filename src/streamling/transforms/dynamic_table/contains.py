"""Look-ups of whole columns at once.

Measured on 1 M rows with 200 000 distinct texts, a table of 100 000: 0.13 s, of which 0.09 s find the distinct texts.
Only those are looked up, so the cost does not depend on the table's size; Arrow's own `is_in` takes 0.03 s here but
rebuilds its hash table for every batch, which at 10 M entries would cost more than a second each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

#: the row before the first: all rows see what it appended
EARLIER: Final = -1

#: returns for each distinct value the row that appended it, `EARLIER` if it was in the table before the batch, None if
#: it is not in the table
FirstRows = Callable[[Sequence[str]], Sequence[int | None]]


def check(values: pa.Array, rows: pa.Array, first_rows: FirstRows) -> pa.Array:
    """Return whether each of ``values`` (texts, or lists of texts) was in the table when its row arrived. A list is if
    one of its elements is; the result for NULL is NULL."""
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), pa.bool_())
    if not len(values):
        return pa.array([], pa.bool_())
    if not pa.types.is_list(values.type):
        return _check(values, rows, first_rows)
    parents = pc.list_parent_indices(values)
    found = _check(values.flatten(), rows.take(parents), first_rows).fill_null(False)
    matching = pc.unique(parents.filter(found))
    any_found = pc.scatter(pa.repeat(True, len(matching)), matching, max_index=len(values) - 1).fill_null(False)
    return pc.if_else(values.is_valid(), any_found, pa.scalar(None, pa.bool_()))


def first_appearances(values: pa.Array, rows: pa.Array) -> dict[str, int]:
    """Return the lowest of ``rows`` for each distinct value; NULL is ignored."""
    if pa.types.is_null(values.type):
        return {}
    table = pa.table({"value": values, "row": rows}).drop_null()
    firsts = table.group_by("value", use_threads=False).aggregate([("row", "min")])
    return dict(zip(firsts.column("value").to_pylist(), firsts.column("row_min").to_pylist(), strict=True))


def _check(values: pa.Array, rows: pa.Array, first_rows: FirstRows) -> pa.Array:
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), pa.bool_())
    encoded = values.dictionary_encode()
    distinct = encoded.dictionary.to_pylist()
    firsts = pa.array(first_rows(distinct) if distinct else [], pa.int64())
    found = pc.less(firsts.take(encoded.indices), rows).fill_null(False)
    return pc.if_else(values.is_valid(), found, pa.scalar(None, pa.bool_()))
