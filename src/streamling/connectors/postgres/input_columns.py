"""The input columns of a Postgres sink, and their rows as text for COPY."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from streamling.connectors.postgres.copy_text import to_copy_text
from streamling.connectors.postgres.table import TableColumn
from streamling.types.row_kind import OP_COLUMN


class InputColumns:
    """All columns except the operation. Columns can appear, disappear and change type while a source runs."""

    def __init__(self, declared: pa.Schema) -> None:
        self.fields = _without_operation(declared)
        #: schema of the last batch
        self._arrived: pa.Schema | None = None

    @property
    def names(self) -> list[str]:
        return [field.name for field in self.fields]

    def update(self, schema: pa.Schema) -> bool:
        """Record the columns of a batch; return True if they changed. Declared types apply until a type changes,
        because Spark delivers some types, such as times, as others."""
        if self._arrived is not None and schema.equals(self._arrived):
            return False
        declared = {field.name: field for field in self.fields}
        before = {} if self._arrived is None else {field.name: field.type for field in self._arrived}
        fields = [
            field if before.get(field.name, field.type) != field.type else declared.get(field.name, field)
            for field in _without_operation(schema)
        ]
        self._arrived = schema
        changed, self.fields = fields != self.fields, fields
        return changed

    def rows(self, batch: pa.RecordBatch, columns: Mapping[str, TableColumn]) -> pa.Table:
        """Convert ``batch`` to text that ``columns`` of a table read from CSV."""
        return pa.table({field.name: _to_copy_text(batch, field, columns) for field in self.fields})

    def keys(self, batch: pa.RecordBatch, key: Sequence[str], columns: Mapping[str, TableColumn]) -> pa.Table:
        """Return the key of each row; keys are equal where Postgres considers them equal."""
        fields = {field.name: field for field in self.fields}
        values = [_comparable(_to_copy_text(batch, fields[name], columns)) for name in key]
        return pa.table({f"k{n}": value for n, value in enumerate(values)})


def _without_operation(schema: pa.Schema) -> list[pa.Field]:
    return [field for field in schema if field.name != OP_COLUMN]


def _to_copy_text(batch: pa.RecordBatch, field: pa.Field, columns: Mapping[str, TableColumn]) -> pa.Array:
    return to_copy_text(batch.column(field.name), field, columns[field.name].internal)


def _comparable(key: pa.Array) -> pa.Array:
    """Convert a key column so that Arrow compares as Postgres does: −0 equals 0, and NaN equals NaN."""
    return pc.cast(pc.add(key, 0), pa.string()) if pa.types.is_floating(key.type) else key
