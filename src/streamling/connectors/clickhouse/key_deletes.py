"""Deletes rows by their keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import Final
from uuid import UUID

import pyarrow as pa

from streamling.connectors.clickhouse.key_types import KeyType, KeyValue, parse_bytes
from streamling.connectors.clickhouse.server import TableName, identifier, literal
from streamling.connectors.clickhouse.table import TableColumn
from streamling.errors import StreamlingError

#: keys per statement
_KEYS: Final = 1000
#: The statement ends when the rows are gone. A thousand keys may be longer than the default limits of a query.
SETTINGS: Final[Mapping[str, str]] = {
    "mutations_sync": "1",
    "max_query_size": str(256 << 20),
    "max_ast_elements": "10000000",
    "max_expanded_ast_elements": "10000000",
}


_SMALL_INTEGERS: Final = frozenset(f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64))
#: types whose values the server makes of text in a list
_AS_TEXT: Final = frozenset({"String", "Date", "Date32", "UUID", "IPv4", "IPv6", "Enum8", "Enum16"})


class KeyDeletes:
    """The statements that delete rows of one table by key."""

    def __init__(self, table: TableName, key: Sequence[TableColumn]) -> None:
        self._columns = ", ".join(identifier(column.name) for column in key)
        self._table = table
        self._types = [_key_type(column) for column in key]

    def statements(self, keys: Sequence[pa.Array]) -> Iterator[str]:
        """Yield statements that delete the rows with these keys, given as columns that the server would read."""
        columns = [
            [_sql(value, type_) for value in _values(column, type_)]
            for type_, column in zip(self._types, keys, strict=True)
        ]
        rows = [f"({', '.join(row)})" for row in zip(*columns, strict=True)]
        for start in range(0, len(rows), _KEYS):
            listed = ", ".join(rows[start : start + _KEYS])
            yield f"ALTER TABLE {self._table.sql} DELETE WHERE ({self._columns}) IN ({listed})"


def _key_type(column: TableColumn) -> KeyType:
    type_ = KeyType.of(column.type)
    if type_ is None:
        raise StreamlingError.user(
            f"the key column '{column.name}' has type {column.type}, and rows cannot be deleted by values of this type",
            remedy="choose another `primary_key`, or set `append_only_mode: true`",
        )
    return type_


def _sql(value: KeyValue, type_: KeyType) -> str:
    """Return a key for a list. The server reads literals ten times as fast as it evaluates expressions."""
    if isinstance(value, int) and type_.type.name in _SMALL_INTEGERS:
        return str(int(value))
    if isinstance(value, str) and (type_.type.name in _AS_TEXT or type_.type.name.startswith("Decimal")):
        return literal(value)
    return type_.sql(value)


def _values(column: pa.Array, type_: KeyType) -> list[KeyValue]:
    """Return values as `KeyType` takes them."""
    kinds, name = pa.types, type_.type.name
    if kinds.is_fixed_size_binary(column.type) and name in _FROM_BYTES:
        return [_FROM_BYTES[name](value) for value in column.to_pylist()]
    if kinds.is_fixed_size_binary(column.type) and name != "FixedString":
        return [int.from_bytes(value, "little", signed=name.startswith("Int")) for value in column.to_pylist()]
    if name in ("String", "FixedString", "Enum8", "Enum16"):
        return [parse_bytes(value.hex()) for value in column.cast(pa.large_binary()).to_pylist()]
    if name == "IPv4" and kinds.is_integer(column.type):
        return [str(IPv4Address(value)) for value in column.to_pylist()]
    if kinds.is_decimal(column.type):
        return [format(value, "f") for value in column.to_pylist()]
    if kinds.is_floating(column.type):
        return [repr(value) for value in column.to_pylist()]
    if kinds.is_temporal(column.type):
        column = column.cast(pa.string())
    values: list[KeyValue] = column.to_pylist()
    return values


_FROM_BYTES: Final[dict[str, Callable[[bytes], str]]] = {
    "UUID": lambda value: str(UUID(bytes=value)),
    "IPv6": lambda value: str(IPv6Address(value)),
}
