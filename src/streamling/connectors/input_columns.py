"""The input of a sink that writes to a table: its columns and which of its rows are deletes."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

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


def _without_operation(schema: pa.Schema) -> list[pa.Field]:
    return [field for field in schema if field.name != OP_COLUMN]


def find_deletes(batch: pa.RecordBatch) -> pa.Array | None:
    """Return which rows are deletes, or None if there are none. All other rows are inserts."""
    if OP_COLUMN not in batch.schema.names:
        return None
    deleted = pc.equal(batch.column(OP_COLUMN), "d").fill_null(False)
    return deleted if pc.any(deleted).as_py() else None
