"""The input columns of an Arrow transform: those it was planned for, until its source gets or loses some."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from streamling.plugins.context import NodeContext
from streamling.types.spark import physical_type


class InputSchemaTracker:
    """The input schema of one transform instance, compared with each batch."""

    def __init__(self, declared: pa.Schema) -> None:
        self.schema = declared
        self._last: pa.Schema | None = None

    def detect_change(self, batch_schema: pa.Schema) -> bool:
        """Return whether a batch of ``batch_schema`` has other columns than the batches before. If so, `schema` is the
        new one."""
        if self._last is not None and batch_schema.equals(self._last):
            return False
        self._last = batch_schema
        if batch_schema.names == self.schema.names and all(map(_same_column, self.schema, batch_schema)):
            return False
        self.schema = pa.schema([self._field(field) for field in batch_schema])
        return True

    def _field(self, batch_schema: pa.Field) -> pa.Field:
        """Return the declared field if the types match: it has more information than the one from Spark."""
        number = self.schema.get_field_index(batch_schema.name)
        known = self.schema.field(number) if number >= 0 else None
        return known if known is not None and _same_column(known, batch_schema) else batch_schema


def _same_column(declared: pa.Field, batch_schema: pa.Field) -> bool:
    """Return whether a column has the declared type, or the type in which Spark returns it."""
    if declared.type == batch_schema.type:
        return True
    found = _plain(batch_schema.type)
    return bool(found == _plain(declared.type) or found == _plain(physical_type(declared.type)))


def _plain(type_: pa.DataType) -> pa.DataType:
    """Return the type without what differs between a declared type and one from Spark: whether parts may be null, the
    names of list items, the unit of times."""
    if pa.types.is_time64(type_):
        return pa.time64("us")
    if pa.types.is_map(type_):
        return pa.map_(_plain(type_.key_type), _plain(type_.item_type))
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(field.name, _plain(field.type)) for field in type_])
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_):
        return pa.list_(_plain(type_.value_type))
    return type_


def report_dropped_columns(context: NodeContext[Any], after: pa.Schema, output: pa.Schema) -> None:
    """Warn about columns that are new in the input since ``context`` was created and are not in the node's output."""
    before = context.input_schema.names
    appeared = [name for name in after.names if name not in before and name not in output.names]
    context.report_dropped_columns("columns have appeared in the input that are not part of the output", appeared)
