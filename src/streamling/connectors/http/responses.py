"""Converts the responses of an endpoint to rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from streamling.errors import BadRow
from streamling.types.from_json import InvalidJsonValue, arrow_column, parse_json
from streamling.types.row_kind import OP_COLUMN
from streamling.types.spark import sql_type, to_physical

_KINDS: Final = ("i", "u", "d")
#: Rows of several responses held as Python objects, which take several times the memory of Arrow.
_MAX_PENDING_ROWS: Final = 20_000
#: Characters that precede a JSON value. They are also counted inside strings, which makes the count an upper bound.
_VALUE_DELIMITERS: Final = (b",", b":", b"[", b"{")
#: rows of a batch that are searched for undeclared columns: checking every row would cost 0.1 µs each
_INSPECTED_ROWS: Final = 100
_KIND_NAMES: Final = {dict: "an object", list: "an array", str: "text", bool: "true or false", type(None): "null"}


class ResponseRows:
    """Collects the responses to one batch. The rows of a response replace those that were sent."""

    def __init__(self, schema: pa.Schema, *, version: int, key: Sequence[str], max_values: int) -> None:
        self._schema = schema
        self._version = version
        self._key = key
        self._max_values = max_values
        self._names = frozenset(schema.names)
        #: columns of the responses that the schema does not have, in the order in which they were found
        self.undeclared_columns: dict[str, None] = {}
        self._rows: list[dict[str, Any]] = []
        self._kinds: list[str] = []
        self._batches: list[pa.RecordBatch] = []
        #: number of rows in the batches
        self._count = 0

    def add(self, text: bytes, sent: Sequence[str]) -> None:
        """Add the response ``text`` to rows of the kinds ``sent``. An empty body or null means no rows."""
        rows = self._parse(text)
        for number, row in enumerate(rows):
            data = self._data(row, number)
            if len(self._rows) < _INSPECTED_ROWS and not self._names.issuperset(data):
                self.undeclared_columns.update(dict.fromkeys(name for name in data if name not in self._names))
            self._kinds.append(self._kind(row, data, number, len(rows), sent))
            self._rows.append(data)
        if len(self._rows) > _MAX_PENDING_ROWS:
            self._convert()

    def batch(self) -> pa.RecordBatch:
        self._convert()
        return self._batches[0] if len(self._batches) == 1 else pa.concat_batches(self._batches)

    def _convert(self) -> None:
        columns = [self._column(field) for field in self._schema]
        self._batches.append(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        self._count += len(self._rows)
        self._rows, self._kinds = [], []

    def _parse(self, text: bytes) -> list[Any]:
        if not text or text.isspace():
            return []
        if sum(map(text.count, _VALUE_DELIMITERS)) > self._max_values:
            raise BadRow.user(
                f"the endpoint's response has more than {self._max_values} values",
                remedy="send fewer rows per request (batch_size), or raise external_http_handler.max_response_values",
            )
        try:
            value = parse_json(text)
        except ValueError as error:
            raise _invalid_response(f"is not valid JSON ({error})") from None
        if value is None:
            return []
        rows = value if isinstance(value, list) else [value]
        return [row for row in rows if row is not None]

    def _data(self, row: Any, number: int) -> dict[str, Any]:
        if not isinstance(row, dict):
            raise _invalid_response(f"has {_kind_of(row)} where row {number + 1} should be an object")
        data = row if self._version == 0 else row.get("data")
        if not isinstance(data, dict):
            raise _invalid_response(f"has no object 'data' in row {number + 1}, as payload_version 1 requires")
        for name in self._key:
            if name not in data:
                raise _invalid_response(f"lacks the key column '{name}' in row {number + 1}")
        return data

    def _kind(self, row: dict[str, Any], data: dict[str, Any], number: int, count: int, sent: Sequence[str]) -> str:
        """Return the kind that the response gives, or else that of the row sent, if it is clear which row that was."""
        kind = data.get(OP_COLUMN)
        metadata = row.get("metadata") if self._version == 1 else None
        if kind is None and isinstance(metadata, dict):
            kind = metadata.get("op")
        if kind is None and count == len(sent):
            kind = sent[number]
        elif kind is None and len(set(sent)) == 1:
            kind = sent[0]
        if kind is None:
            raise _invalid_response(
                f"has {count} rows for {len(sent)} rows sent, which are of different kinds, and row {number + 1} "
                f"has no '{OP_COLUMN}'"
            )
        if kind not in _KINDS:
            raise _invalid_response(f"has the row kind {kind!r} in row {number + 1}, expected i, u or d")
        return str(kind)

    def _column(self, field: pa.Field) -> pa.Array:
        if field.name == OP_COLUMN:
            return pa.array(self._kinds, field.type)
        kind = sql_type(field)
        try:
            column = arrow_column([row.get(field.name) for row in self._rows], kind)
        except InvalidJsonValue as error:
            row = self._count + error.index + 1
            raise BadRow.user(
                f"the endpoint returned {error.shown} for column '{field.name}' of row {row}, expected {kind}",
                remedy="make the endpoint return that type, or declare another type in schema_override",
            ) from None
        return column if kind == field.type else _physical(column)


def _physical(column: pa.Array) -> pa.Array:
    """Convert wide numbers to the form that Spark holds."""
    return to_physical(pa.table({"": column})).column(0).combine_chunks()


def _invalid_response(what: str) -> BadRow:
    return BadRow.user(f"the endpoint's response {what}", remedy="make it return rows in the format of the request")


def _kind_of(value: Any) -> str:
    return _KIND_NAMES.get(type(value), "a number")
