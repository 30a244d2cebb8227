"""Turns batches into blocks for a table: the rows to insert as Arrow data, and the statements that delete others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from streamling.connectors.clickhouse.encode.columns import column_encoder
from streamling.connectors.clickhouse.encode.values import Encode, UnwritableValue
from streamling.connectors.clickhouse.key_deletes import KeyDeletes
from streamling.connectors.clickhouse.table import DELETED_COLUMN, Table, TableColumn
from streamling.connectors.input_columns import find_deletes
from streamling.connectors.write_plan import after_last_delete, last_rows
from streamling.errors import BadRow, StreamlingError
from streamling.types.spark import logical_type

_CAST: Final = "cast the values in a sql transform, or change the type of the column"


@dataclass(frozen=True)
class Block:
    """What one batch changes."""

    rows: pa.RecordBatch
    #: rows of the batch that a later row of the same key replaces
    replaced: int
    #: statements that delete rows
    deletes: Sequence[str] = ()
    #: whether rows have to be deleted first, because some of those to insert have the same keys
    deletes_first: bool = False


@dataclass(frozen=True)
class _Column:
    field: pa.Field
    target: TableColumn
    encode: Encode
    #: whether NULL is allowed: the column is Nullable, or has a DEFAULT, which replaces it
    takes_null: bool
    #: whether it must have a value even in a row that says that another one is deleted
    identifies: bool


class BlockEncoder:
    """Encodes batches with certain columns for one table."""

    def __init__(
        self,
        table: Table,
        fields: Sequence[pa.Field],
        key: Sequence[str],
        version: str | None,
        *,
        append_only: bool,
        deduplicate: bool,
    ) -> None:
        self._table = table
        self._key = key
        self._version = version if append_only else None
        self._append_only = append_only
        self._columns = [self._column(field) for field in fields]
        self._deduplicate = deduplicate
        self._server_deduplicates = table.replaces_by(key)
        self._has_flag = append_only and DELETED_COLUMN in table.columns
        self._key_deletes = None if append_only else KeyDeletes(table.name, [table.columns[name] for name in key])

    @property
    def names(self) -> list[str]:
        """The columns of the table that get values."""
        return [column.field.name for column in self._columns] + ([DELETED_COLUMN] if self._has_flag else [])

    def encode(self, batch: pa.RecordBatch) -> Block:
        deleted = find_deletes(batch)
        if deleted is not None and self._append_only and not self._has_flag:
            raise BadRow.user(
                f"table {self._table.name} has no column '{DELETED_COLUMN}', so deletes cannot be written",
                remedy=f"add a column {DELETED_COLUMN} UInt8, set `append_only_mode: false`, or remove deletes in a "
                "sql transform",
            )
        rows = {column.field.name: self._encoded(column, batch, deleted) for column in self._columns}
        return self._appended(rows, deleted, batch.num_rows) if self._append_only else self._changed(rows, deleted)

    # ── rows ────────────────────────────────────────────────────────────────────────────────────────────────

    def _appended(self, rows: Mapping[str, pa.Array], deleted: pa.Array | None, count: int) -> Block:
        if self._has_flag:
            flag = pa.repeat(pa.scalar(0, pa.uint8()), count) if deleted is None else deleted.cast(pa.uint8())
            rows = {**rows, DELETED_COLUMN: flag}
        whole = pa.RecordBatch.from_pydict(dict(rows))
        return self._deduplicated(whole, None if self._version is None else rows[self._version])

    def _deduplicated(self, whole: pa.RecordBatch, versions: pa.Array | None) -> Block:
        """Return the last row of each key, unless all rows are wanted or the server itself keeps one of them: which one
        depends on the table."""
        kept = last_rows(self._keys(whole), versions) if self._deduplicate else None
        if kept is None:
            return Block(whole, 0)
        return Block(whole if self._server_deduplicates else whole.take(kept), whole.num_rows - len(kept))

    def _changed(self, rows: Mapping[str, pa.Array], deleted: pa.Array | None) -> Block:
        whole = pa.RecordBatch.from_pydict(dict(rows))
        if deleted is None:
            return self._deduplicated(whole, None)
        count = whole.num_rows
        if not self._deduplicate:
            deletes, kept = after_last_delete(self._keys(whole), deleted)
            replaced = count - len(kept) - len(deletes)
            return Block(whole.take(kept), replaced, self._deletes(whole.take(deletes)), deletes_first=True)
        last = last_rows(self._keys(whole))
        if last is not None:
            whole, deleted = whole.take(last), deleted.take(last)
        return Block(whole.filter(pc.invert(deleted)), count - whole.num_rows, self._deletes(whole.filter(deleted)))

    def _keys(self, rows: pa.RecordBatch) -> pa.Table:
        return pa.table({f"k{number}": _comparable(rows.column(name)) for number, name in enumerate(self._key)})

    def _deletes(self, rows: pa.RecordBatch) -> list[str]:
        assert self._key_deletes is not None
        return list(self._key_deletes.statements([rows.column(name) for name in self._key]))

    # ── columns ─────────────────────────────────────────────────────────────────────────────────────────────

    def _column(self, field: pa.Field) -> _Column:
        target = self._table.columns[field.name]
        encode = column_encoder(logical_type(field), target.type, self._table.calendar)
        if encode is None:
            raise StreamlingError.user(
                f"column '{field.name}' of table {self._table.name} has type {target.type}, which cannot hold values "
                f"of type {logical_type(field)}",
                remedy=_CAST,
            )
        identifies = field.name in self._key or field.name == self._version
        takes_null = not identifies and (target.type.is_nullable or target.default_kind == "DEFAULT")
        return _Column(field, target, encode, takes_null, identifies)

    def _encoded(self, column: _Column, batch: pa.RecordBatch, deleted: pa.Array | None) -> pa.Array:
        values = batch.column(column.field.name)
        if values.null_count and not column.takes_null:
            self._check_nulls(column, values, None if column.identifies else deleted)
        try:
            return _normalized(column.encode(values))
        except UnwritableValue as error:
            raise BadRow.user(
                f"column '{column.field.name}' of table {self._table.name} ({column.target.type}): {error}",
                remedy=_CAST,
            ) from None

    def _check_nulls(self, column: _Column, values: pa.Array, deleted: pa.Array | None) -> None:
        """Raise an error for NULL, except in rows that are deleted: their values are never read."""
        missing = values.is_null()
        if pc.any(missing if deleted is None else pc.and_not(missing, deleted)).as_py():
            raise BadRow.user(
                f"column '{column.field.name}' of table {self._table.name} has type {column.target.type}, and a value "
                "is NULL",
                remedy="replace NULL with coalesce in a sql transform, or make the column Nullable",
            )


def _normalized(column: pa.Array) -> pa.Array:
    """Return the same values with the same bytes, whatever batch they are a part of. Arrow writes some of what is next
    to a slice, up to 64 bytes of numbers or all texts, which would change the hash of a block."""
    kinds = pa.types
    if kinds.is_primitive(column.type) and not kinds.is_boolean(column.type) and not column.null_count:
        is_whole = column.offset == 0 and column.buffers()[1].size == len(column) * column.type.bit_width // 8
        if is_whole:
            return column
    return pa.concat_arrays([column])


def _comparable(key: pa.Array) -> pa.Array:
    """Convert a key column so that Arrow compares as ClickHouse does: −0 equals 0, and NaN equals NaN."""
    return pc.cast(pc.add(key, 0), pa.string()) if pa.types.is_floating(key.type) else key
