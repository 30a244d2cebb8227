"""Maps Arrow types to Postgres: the type of a new column, accepted types of an existing one, and the reverse."""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa

from streamling.errors import StreamlingError
from streamling.types.spark import logical_type
from streamling.types.wide.layout import I256, MAX_DIGITS, U256, WideDecimal, decimal_type

#: Arrow types without parameters
_PLAIN: Final[dict[pa.DataType, str]] = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "SMALLINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.uint8(): "INTEGER",
    pa.uint16(): "INTEGER",
    pa.uint32(): "BIGINT",
    pa.uint64(): "NUMERIC(20,0)",
    pa.float16(): "REAL",
    pa.float32(): "REAL",
    pa.float64(): "DOUBLE PRECISION",
    pa.string(): "TEXT",
    pa.large_string(): "TEXT",
    pa.string_view(): "TEXT",
    pa.binary(): "BYTEA",
    pa.large_binary(): "BYTEA",
    pa.binary_view(): "BYTEA",
    pa.date32(): "DATE",
    pa.date64(): "DATE",
    pa.time32("s"): "TIME",
    pa.time32("ms"): "TIME",
    pa.time64("us"): "TIME",
    pa.time64("ns"): "TIME",
    U256: "NUMERIC(78,0)",
    I256: "NUMERIC(78,0)",
}

_INTEGERS: Final = frozenset({"int2", "int4", "int8", "numeric", "float8"})
#: types whose values are written as text unchanged
_TEXTS: Final = frozenset(
    {"text", "varchar", "bpchar", "name", "citext", "uuid", "json", "jsonb", "xml", "inet", "cidr", "macaddr"}
)
#: type of a new column → internal names of the types that an existing column may have
_ACCEPTED: Final[dict[str, frozenset[str]]] = {
    "BOOLEAN": frozenset({"bool"}),
    "SMALLINT": _INTEGERS,
    "INTEGER": _INTEGERS,
    "BIGINT": _INTEGERS,
    "REAL": frozenset({"float4", "float8", "numeric"}),
    "DOUBLE PRECISION": frozenset({"float8", "numeric"}),
    "TEXT": _TEXTS,
    "BYTEA": frozenset({"bytea"}),
    "DATE": frozenset({"date", "timestamp", "timestamptz"}),
    "TIMESTAMP": frozenset({"timestamp", "timestamptz"}),
    "TIME": frozenset({"time"}),
    "JSONB": frozenset({"jsonb", "json", "text", "varchar"}),
}
_ENUM: Final = "E"

#: type names that a user may write → Arrow
_BY_NAME: Final[dict[str, pa.DataType]] = {
    "text": pa.string(),
    "varchar": pa.string(),
    "char": pa.string(),
    "smallint": pa.int16(),
    "integer": pa.int32(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "real": pa.float32(),
    "double precision": pa.float64(),
    "float": pa.float64(),
    "boolean": pa.bool_(),
    "bool": pa.bool_(),
    "bytea": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "json": pa.string(),
    "jsonb": pa.string(),
    "numeric": pa.decimal128(38, 9),
}
_LENGTH = re.compile(r"(?:varchar|char)\s*\(\s*\d+\s*\)")
_NUMERIC = re.compile(r"numeric\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")


def postgres_type(field: pa.Field) -> str | None:
    """Return the Postgres type of a new column for ``field``, or None if only text fits."""
    type_ = logical_type(field)
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    if type_ in _PLAIN:
        return _PLAIN[type_]
    if pa.types.is_decimal(type_) or isinstance(type_, WideDecimal):
        return f"NUMERIC({type_.precision},{type_.scale})"
    if pa.types.is_timestamp(type_):
        return "TIMESTAMP"
    if pa.types.is_fixed_size_binary(type_):
        return "BYTEA"
    if pa.types.is_nested(type_) and not pa.types.is_union(type_):
        return "JSONB"
    return None


def accepts(field: pa.Field, name: str, category: str) -> bool:
    """Return whether a column of the type with this internal name (``int4``) and category accepts values of
    ``field``."""
    expected = postgres_type(field) or "TEXT"
    if expected.startswith("NUMERIC"):
        return name == "numeric" or (expected.endswith(",0)") and name in ("int2", "int4", "int8"))
    return name in _ACCEPTED[expected] or (expected == "TEXT" and category == _ENUM)


def arrow_type_of(text: str) -> pa.DataType:
    """Return the Arrow type for a Postgres type as a user writes it, such as ``numeric(20,4)``."""
    name = " ".join(text.lower().split())
    if name in _BY_NAME:
        return _BY_NAME[name]
    if _LENGTH.fullmatch(name):
        return pa.string()
    if match := _NUMERIC.fullmatch(name):
        precision, scale = int(match[1]), int(match[2] or 0)
        if 1 <= precision <= MAX_DIGITS:
            return decimal_type(precision, scale)
    known = ", ".join(sorted(_BY_NAME))
    raise StreamlingError.user(f"the PostgreSQL type '{text}' is not supported", remedy=f"use one of {known}")
