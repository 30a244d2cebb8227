"""Answers of an endpoint as rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from streamling.errors import BadRow
from streamling.plugins.operators import OP_COLUMN
from streamling.types.from_json import InvalidJsonValue, arrow_column, parse_json
from streamling.types.spark import sql_type, to_physical

_KINDS: Final = ("i", "u", "d")
#: Rows of several answers that wait as Python objects, which take several times the memory of Arrow.
_MOST_WAITING: Final = 20_000
#: characters that stand before a value, or may: inside of texts they count too, which makes the count an upper bound
_STARTING_VALUES: Final = (b",", b":", b"[", b"{")
#: rows of a batch that are searched for columns that the schema does not have: a look at each would cost 0.1 µs
_LOOKED_AT: Final = 100
_KIND_NAMES: Final = {dict: "an object", list: "an array", str: "text", bool: "true or false", type(None): "null"}


class ResponseRows:
    """Collects the answers to one batch. Rows of an answer take the place of those that were sent."""

    def __init__(self, schema: pa.Schema, *, version: int, key: Sequence[str], max_values: int) -> None:
        self._schema = schema
        self._version = version
        self._key = key
        self._max_values = max_values
        self._names = frozenset(schema.names)
        #: columns of the answers that the schema does not have, in the order they were found
        self.left_out: dict[str, None] = {}
        self._rows: list[dict[str, Any]] = []
        self._kinds: list[str] = []
        self._batches: list[pa.RecordBatch] = []
        #: rows in the batches
        self._count = 0

    def add(self, text: bytes, sent: Sequence[str]) -> None:
        """The answer ``text`` to rows of the kinds ``sent``. Empty or null: no rows."""
        rows = self._parsed(text)
        for number, row in enumerate(rows):
            data = self._data(row, number)
            if len(self._rows) < _LOOKED_AT and not self._names.issuperset(data):
                self.left_out.update(dict.fromkeys(name for name in data if name not in self._names))
            self._kinds.append(self._kind(row, data, number, len(rows), sent))
            self._rows.append(data)
        if len(self._rows) > _MOST_WAITING:
            self._convert()

    def batch(self) -> pa.RecordBatch:
        self._convert()
        return self._batches[0] if len(self._batches) == 1 else pa.concat_batches(self._batches)

    def _convert(self) -> None:
        columns = [self._column(field) for field in self._schema]
        self._batches.append(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        self._count += len(self._rows)
        self._rows, self._kinds = [], []

    def _parsed(self, text: bytes) -> list[Any]:
        if not text or text.isspace():
            return []
        if sum(map(text.count, _STARTING_VALUES)) > self._max_values:
            raise BadRow.user(
                f"the endpoint's answer has more than {self._max_values} values",
                remedy="send fewer rows per request (batch_size), or raise external_http_handler.max_response_values",
            )
        try:
            value = parse_json(text)
        except ValueError as error:
            raise _broken(f"is no JSON ({error})") from None
        if value is None:
            return []
        rows = value if isinstance(value, list) else [value]
        return [row for row in rows if row is not None]

    def _data(self, row: Any, number: int) -> dict[str, Any]:
        if not isinstance(row, dict):
            raise _broken(f"has {_kind_of(row)} where row {number + 1} should be an object")
        data = row if self._version == 0 else row.get("data")
        if not isinstance(data, dict):
            raise _broken(f"has no object 'data' in row {number + 1}, as payload_version 1 demands")
        for name in self._key:
            if name not in data:
                raise _broken(f"lacks the key column '{name}' in row {number + 1}")
        return data

    def _kind(self, row: dict[str, Any], data: dict[str, Any], number: int, count: int, sent: Sequence[str]) -> str:
        """What the answer says; else that of the row which was sent, when there is no doubt which one it was."""
        kind = data.get(OP_COLUMN)
        metadata = row.get("metadata") if self._version == 1 else None
        if kind is None and isinstance(metadata, dict):
            kind = metadata.get("op")
        if kind is None and count == len(sent):
            kind = sent[number]
        elif kind is None and len(set(sent)) == 1:
            kind = sent[0]
        if kind is None:
            raise _broken(
                f"has {count} rows for {len(sent)} that were sent, of different kinds, and row {number + 1} has no "
                f"'{OP_COLUMN}'"
            )
        if kind not in _KINDS:
            raise _broken(f"has the row kind {kind!r} in row {number + 1}, expected i, u or d")
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
                f"the endpoint answered {error.shown} for column '{field.name}' of row {row}, expected {kind}",
                remedy="let the endpoint answer in that type, or declare another one in schema_override",
            ) from None
        return column if kind == field.type else _physical(column)


def _physical(column: pa.Array) -> pa.Array:
    """Wide numbers as Spark holds them."""
    return to_physical(pa.table({"": column})).column(0).combine_chunks()


def _broken(what: str) -> BadRow:
    return BadRow.user(f"the endpoint's answer {what}", remedy="let it answer with rows in the form of the request")


def _kind_of(value: Any) -> str:
    return _KIND_NAMES.get(type(value), "a number")
