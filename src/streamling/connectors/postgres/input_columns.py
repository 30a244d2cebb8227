"""The input columns of a Postgres sink, and their rows as text for COPY."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from streamling.connectors.input_columns import InputColumns
from streamling.connectors.postgres.copy_text import to_copy_text
from streamling.connectors.postgres.table import TableColumn


class PostgresColumns(InputColumns):
    """The columns of a Postgres sink, as text that Postgres reads."""

    def rows(self, batch: pa.RecordBatch, columns: Mapping[str, TableColumn]) -> pa.Table:
        """Convert ``batch`` to text that ``columns`` of a table read from CSV."""
        return pa.table({field.name: _to_copy_text(batch, field, columns) for field in self.fields})

    def keys(self, batch: pa.RecordBatch, key: Sequence[str], columns: Mapping[str, TableColumn]) -> pa.Table:
        """Return the key of each row; keys are equal where Postgres considers them equal."""
        fields = {field.name: field for field in self.fields}
        values = [_comparable(_to_copy_text(batch, fields[name], columns)) for name in key]
        return pa.table({f"k{n}": value for n, value in enumerate(values)})


def _to_copy_text(batch: pa.RecordBatch, field: pa.Field, columns: Mapping[str, TableColumn]) -> pa.Array:
    return to_copy_text(batch.column(field.name), field, columns[field.name].internal)


def _comparable(key: pa.Array) -> pa.Array:
    """Convert a key column so that Arrow compares as Postgres does: −0 equals 0, and NaN equals NaN."""
    return pc.cast(pc.add(key, 0), pa.string()) if pa.types.is_floating(key.type) else key
