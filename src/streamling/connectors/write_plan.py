"""Plans which rows of a batch to write or delete, and in which order, so that the result is the same as if they were
written one at a time. Uses Arrow kernels only: no row passes through Python.

`last_wins`, `first_wins` and `in_rounds` make steps of a batch. Each key occurs once per step, as ``INSERT … ON
CONFLICT`` requires. `last_rows` and `after_last_delete` choose rows for a table that replaces older rows by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

Action = Literal["write", "delete"]


@dataclass(frozen=True)
class WritePlan:
    """Rows to stage and what to do with them, step by step."""

    #: indices of the rows that are needed; None means all
    rows: pa.Array | None
    #: step of each of those rows; None if there is only one step
    steps_of_rows: pa.Array | None
    #: step number and action, in order
    steps: tuple[tuple[int, Action], ...]


def last_rows(keys: pa.Table, versions: pa.Array | None = None) -> pa.Array | None:
    """Return the index of the last row of each key, in order; None if every row is one. With ``versions``, which
    have no nulls, the last of those with the highest version."""
    if _is_increasing(keys):
        return None
    order = None
    if versions is not None:
        order = pc.sort_indices(versions)  # stable: equal versions stay in order
        keys = keys.take(order)
    rows = _extreme_rows(_numbered(keys), list(keys.column_names), "max")
    if len(rows) == keys.num_rows:
        return None
    if order is None:
        return rows
    rows = order.take(rows)
    return rows.take(pc.sort_indices(rows))


def after_last_delete(keys: pa.Table, deleted: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the index of one delete of each key that has some, and the indices of all rows that no delete of their key
    follows, in order. To apply a batch one row at a time, delete those keys, then insert those rows."""
    ordered = _ordered(_numbered(keys), list(keys.column_names))
    deletes, bound = _last_deletes(ordered, deleted)
    row, group = ordered["row"], ordered["group"]
    rows = row.filter(pc.greater(row, bound.take(group)))
    return deletes, rows.take(pc.sort_indices(rows))


def last_wins(keys: pa.Table, deleted: pa.Array | None) -> WritePlan:
    """Keep only the last row of each key. ``deleted`` says which rows are deletes; None means that there are none."""
    kept = last_rows(keys)
    if deleted is None:
        return WritePlan(kept, None, ((0, "write"),))
    return _two_steps(kept, deleted if kept is None else deleted.take(kept), first="write")


def first_wins(keys: pa.Table, deleted: pa.Array | None) -> WritePlan:
    """Keep, for each key, the first row after its last delete; the delete is applied before it."""
    names = list(keys.column_names)
    numbered = _numbered(keys)
    if deleted is None:
        rows = _extreme_rows(numbered, names, "min")
        return WritePlan(None if len(rows) == keys.num_rows else rows, None, ((0, "write"),))
    ordered = _ordered(numbered, names)
    row, group = ordered["row"], ordered["group"]
    deletes, bound = _last_deletes(ordered, deleted)
    counts = pc.and_(pc.invert(deleted.take(row)), pc.greater(row, bound.take(group)))
    writes = _extreme_rows(pa.table({"row": row.filter(counts), "group": group.filter(counts)}), ["group"], "min")
    rows = pa.concat_arrays([deletes, writes])
    is_delete = pa.concat_arrays([pa.repeat(True, len(deletes)), pa.repeat(False, len(writes))])
    return _two_steps(rows, is_delete, first="delete")


def in_rounds(keys: pa.Table, deleted: pa.Array | None) -> WritePlan:
    """Keep every row: the first row of each key, then the second, and so on."""
    ordered = _ordered(_numbered(keys), list(keys.column_names))
    row, turn = ordered["row"], ordered["turn"]
    rounds = pc.max(turn).as_py() + 1
    if deleted is None:
        if rounds == 1:
            return WritePlan(None, None, ((0, "write"),))
        return WritePlan(row, turn, tuple((number, "write") for number in range(rounds)))
    step = pc.add(pc.multiply(turn, 2), deleted.take(row).cast(pa.int64()))
    present = sorted(step.unique().to_pylist())
    return WritePlan(row, step, tuple((number, "delete" if number % 2 else "write") for number in present))


# ── helpers ──────────────────────────────────────────────────────────────────────────────────────────────────


def _two_steps(rows: pa.Array | None, deleted: pa.Array, *, first: Action) -> WritePlan:
    """Return steps 0 and 1; a step without rows is left out."""
    second: Action = "delete" if first == "write" else "write"
    any_deleted, all_deleted = pc.any(deleted, min_count=0).as_py(), pc.all(deleted, min_count=0).as_py()
    if any_deleted and all_deleted:
        return WritePlan(rows, None, ((0, "delete"),))
    if not any_deleted:
        return WritePlan(rows, None, ((0, "write"),))
    late = deleted if second == "delete" else pc.invert(deleted)
    return WritePlan(rows, late.cast(pa.int64()), ((0, first), (1, second)))


def _last_deletes(ordered: dict[str, pa.Array], deleted: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the last delete of each key that has one, and for each group of `_ordered` the index of its last delete,
    or -1."""
    row, group = ordered["row"], ordered["group"]
    is_delete_row = deleted.take(row)
    deletes = _extreme_rows(
        pa.table({"row": row.filter(is_delete_row), "group": group.filter(is_delete_row)}), ["group"], "max"
    )
    last_delete = pc.if_else(pc.is_in(row, deletes), row, -1)
    bound = pa.table({"group": group, "row": last_delete}).group_by("group").aggregate([("row", "max")])
    return deletes, bound.sort_by("group")["row_max"].combine_chunks()


def _is_increasing(keys: pa.Table) -> bool:
    """Return whether each key is greater than the one before, so that all differ. Only for integers: the test takes a
    fortieth of the time of grouping."""
    if keys.num_columns != 1 or not pa.types.is_integer(keys.schema.types[0]) or keys.column(0).null_count:
        return False
    column = keys.column(0).combine_chunks()
    return bool(pc.all(pc.greater(column.slice(1), column.slice(0, max(0, len(column) - 1))), min_count=0).as_py())


def _numbered(keys: pa.Table) -> pa.Table:
    return keys.append_column("row", _numbers(keys.num_rows))


def _numbers(count: int) -> pa.Array:
    return pc.subtract(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count)), 1)


def _extreme_rows(numbered: pa.Table, names: list[str], which: Literal["min", "max"]) -> pa.Array:
    """Return the index of the first or last row of each group, in ascending order."""
    found = numbered.group_by(names, use_threads=False).aggregate([("row", which)])[f"row_{which}"].combine_chunks()
    return found.take(pc.sort_indices(found))


def _ordered(numbered: pa.Table, names: list[str]) -> dict[str, pa.Array]:
    """Sort rows by key, then by arrival; return their indices, the group of their key, and their turn within the
    group."""
    order = pc.sort_indices(numbered, sort_keys=[(name, "ascending") for name in [*names, "row"]])
    sorted_keys = numbered.take(order)
    count = len(order)
    starts = pc.invert(_same_as_before(sorted_keys, names))
    position = _numbers(count)
    group_start = pc.cumulative_max(pc.if_else(starts, position, 0))
    return {
        "row": sorted_keys["row"].combine_chunks(),
        "group": pc.subtract(pc.cumulative_sum(starts.cast(pa.int64())), 1),
        "turn": pc.subtract(position, group_start),
    }


def _same_as_before(table: pa.Table, names: list[str]) -> pa.Array:
    """Return for each row whether it has the same key as the previous row; nulls are equal to each other."""
    same = pa.repeat(True, table.num_rows - 1)
    for name in names:
        column = table[name].combine_chunks()
        here, before = column.slice(1), column.slice(0, table.num_rows - 1)
        equal = pc.equal(here, before).fill_null(False)
        same = pc.and_(same, pc.or_(equal, pc.and_(here.is_null(), before.is_null())))
    return pa.concat_arrays([pa.array([False]), same])
