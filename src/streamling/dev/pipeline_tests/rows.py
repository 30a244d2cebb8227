"""Converts rows of a test file to Arrow, and Arrow to the values that a test file contains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from streamling.dev.pipeline_tests.model import Row
from streamling.errors import StreamlingError
from streamling.pipeline.document.suggest import closest, listing
from streamling.pipeline.typenames import parse_type
from streamling.types.from_json import InvalidJsonValue, arrow_column, parse_json
from streamling.types.json import json_rows, json_texts
from streamling.types.row_kind import OP_COLUMN
from streamling.types.spark import sql_type, to_physical

_KINDS = ("i", "u", "d")


def declared_schema(columns: Mapping[str, str]) -> pa.Schema:
    """Return the columns of a `schema` map, and the row kind."""
    return with_kind(pa.schema([pa.field(name, parse_type(kind)) for name, kind in columns.items()]))


def with_kind(schema: pa.Schema) -> pa.Schema:
    if OP_COLUMN in schema.names:
        return schema
    return schema.append(pa.field(OP_COLUMN, pa.string(), nullable=False))


def inferred_schema(rows: Sequence[Row]) -> pa.Schema:
    """Return the columns of ``rows`` with the types of their values."""
    names = list(dict.fromkeys(name for row in rows for name in row if name != OP_COLUMN))
    fields = []
    for name in names:
        try:
            kind = pa.array([row.get(name) for row in rows]).type
        except (pa.ArrowException, TypeError, OverflowError):
            raise StreamlingError.user(
                f"the type of the column '{name}' cannot be inferred from these rows", remedy="declare it in `schema`"
            ) from None
        fields.append(pa.field(name, pa.string() if pa.types.is_null(kind) else kind))
    return with_kind(pa.schema(fields))


def arrow_rows(rows: Sequence[Row], schema: pa.Schema) -> pa.RecordBatch:
    """Return ``rows`` with the columns of ``schema``; a column that a row does not have is null."""
    for number, row in enumerate(rows, start=1):
        for name in row:
            if name not in schema.names:
                match = closest(name, schema.names)
                raise StreamlingError.user(
                    f"input row {number} has the column '{name}', but the source has {listing(schema.names)}",
                    remedy=f"did you mean '{match}'?" if match else "remove it, or declare it in `schema`",
                )
    columns = [_column(rows, field) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(rows: Sequence[Row], field: pa.Field) -> pa.Array:
    default = "i" if field.name == OP_COLUMN else None
    values = [_exact(row.get(field.name, default)) for row in rows]
    if field.name == OP_COLUMN and (wrong := [value for value in values if value not in _KINDS]):
        raise StreamlingError.user(f"`{OP_COLUMN}` is {wrong[0]!r} in an input row", remedy="write i, u or d")
    try:
        column = arrow_column(values, sql_type(field))
    except InvalidJsonValue as error:
        raise StreamlingError.user(
            f"input row {error.index + 1} has {error.shown} for the column '{field.name}', expected {sql_type(field)}",
            remedy="correct the value, or the type in `schema`",
        ) from None
    if column.type == field.type:
        return column
    return to_physical(pa.table({"": column})).column(0).combine_chunks()


def plain_rows(table: pa.Table) -> list[Row]:
    """Return the rows of ``table`` as JSON values, as a print sink shows them."""
    return [parse_json(text) for batch in table.to_batches() for text in json_rows(batch)]


def normalized(row: Row, schema: pa.Schema) -> Row:
    """Return an expected row with its values as `plain_rows` returns them: `2024-07-01` and `2024-07-01T00:00:00` are
    the same timestamp. A value that the column cannot hold stays as it is."""
    return {
        name: _normalized(value, schema.field(name)) if name in schema.names else value for name, value in row.items()
    }


def _normalized(value: Any, field: pa.Field) -> Any:
    kind = sql_type(field)
    try:
        column = arrow_column([_exact(value)], kind)
    except (InvalidJsonValue, pa.ArrowException):
        return value
    text = json_texts(column, pa.field(field.name, kind))[0]
    return None if text is None else parse_json(text)


def _exact(value: Any) -> Any:
    """Return fractions as `Decimal`, which is what JSON is parsed to."""
    match value:
        case float() if value == value and abs(value) != float("inf"):
            return Decimal(repr(value))
        case list():
            return [_exact(each) for each in value]
        case dict():
            return {key: _exact(each) for key, each in value.items()}
    return value
