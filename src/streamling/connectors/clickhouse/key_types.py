"""Types that a table can be sorted by: how their values are read, stored in a position and compared with.

In a position, integers are numbers, NULL is null and everything else is text; bytes that JSON text cannot hold are
``{"hex": …}``. Values are read as text and written as expressions that ClickHouse evaluates before it reads, so that it
can look them up in the primary index.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from streamling.connectors.clickhouse.server import literal
from streamling.connectors.clickhouse.type_text import ClickHouseType

#: a value of a sorting key in a position
KeyValue = int | bool | str | None | Mapping[str, str]

_INTEGER: Final = re.compile(r"(U?)Int(8|16|32|64|128|256)")
_HEX: Final = re.compile(r"(?:[0-9A-F]{2})*")


class InvalidKeyValue(ValueError):
    """A value of a position does not belong to the type of its key."""


@dataclass(frozen=True)
class KeyType:
    """A type with a total order. Numbers come before NaN, and everything before NULL."""

    #: the type without Nullable and LowCardinality
    type: ClickHouseType
    is_nullable: bool
    #: SQL of a value, as text: ``{}`` is replaced by the expression
    read_sql: str
    #: the text as it is stored in a position
    parse: Callable[[str], KeyValue]
    #: SQL of a stored value; raises `InvalidKeyValue` or an error of Python's conversions
    write_sql: Callable[[Any], str]
    #: SQL of a value as users write it: ``{}`` is replaced by the text
    user_sql: str

    @classmethod
    def of(cls, type_: ClickHouseType) -> KeyType | None:
        """Return how values of ``type_`` are compared; None for types without an order that we know."""
        bare = type_.bare
        family = _family(bare)
        return None if family is None else cls(bare, type_.is_nullable, *family)

    @property
    def is_float(self) -> bool:
        return self.type.name in _FLOATS

    @property
    def integers(self) -> range | None:
        """All values if the type is one of integers and not nullable."""
        return None if self.is_nullable else integer_range(self.type)

    def is_nan(self, value: KeyValue) -> bool:
        return self.is_float and value == "nan"

    def sql(self, value: KeyValue) -> str:
        """Return the SQL of a value of a position, which may come from a damaged state."""
        try:
            return self.write_sql(value)
        except (ValueError, TypeError, KeyError, OverflowError, struct.error):
            raise InvalidKeyValue(f"{value!r} is not a value of type {self.type}") from None


def integer_range(type_: ClickHouseType) -> range | None:
    """Return all values of an integer type; None for other types."""
    match = _INTEGER.fullmatch(type_.name)
    if match is None:
        return None
    bits = int(match[2])
    return range(2**bits) if match[1] else range(-(2 ** (bits - 1)), 2 ** (bits - 1))


# ── text ──────────────────────────────────────────────────────────────────────────────────────────────────────


def parse_bytes(digits: str) -> KeyValue:
    """Return bytes as text; NUL cannot be part of JSON in Postgres."""
    data = bytes.fromhex(digits)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {"hex": data.hex().upper()}
    return text if "\0" not in text else {"hex": data.hex().upper()}


def _bytes_sql(value: str | Mapping[str, str]) -> str:
    digits = value.encode().hex().upper() if isinstance(value, str) else value["hex"]
    if not _HEX.fullmatch(digits):
        raise InvalidKeyValue
    return f"unhex('{digits}')"


def _text_sql(value: str) -> str:
    if not isinstance(value, str):
        raise InvalidKeyValue
    return literal(value)


# ── numbers ───────────────────────────────────────────────────────────────────────────────────────────────────

#: float type → bits and their format
_FLOATS: Final = {"Float32": (32, "f", "I"), "Float64": (64, "d", "Q")}


def _integer_sql(type_: ClickHouseType) -> Callable[[Any], str]:
    allowed = integer_range(type_)
    assert allowed is not None

    def sql(value: int | str) -> str:
        number = int(value)  # the Rust implementation may have stored text
        if isinstance(value, bool | float) or number not in allowed:
            raise InvalidKeyValue
        return f"CAST('{number}' AS {type_})"

    return sql


def _float_text(type_: ClickHouseType) -> Callable[[str], KeyValue]:
    _, number, bits = _FLOATS[type_.name]
    return lambda text: repr(struct.unpack(f"<{number}", struct.pack(f"<{bits}", int(text)))[0])


def _float_sql(type_: ClickHouseType) -> Callable[[Any], str]:
    """Return SQL with the bits of a number: ClickHouse's parser may round its digits differently."""
    size, number, bits = _FLOATS[type_.name]

    def sql(value: str) -> str:
        if not isinstance(value, str) or math.isnan(float(value)):
            raise InvalidKeyValue
        (encoded,) = struct.unpack(f"<{bits}", struct.pack(f"<{number}", float(value)))
        return f"reinterpretAs{type_.name}(toUInt{size}({encoded}))"

    return sql


def _bool_sql(value: bool) -> str:
    if not isinstance(value, bool):
        raise InvalidKeyValue
    return str(value).lower()


# ── the types ─────────────────────────────────────────────────────────────────────────────────────────────────

_Family = tuple[str, Callable[[str], KeyValue], Callable[[Any], str], str]


def _cast(type_: ClickHouseType, read: str = "toString({})") -> _Family:
    """Return a type whose text ClickHouse parses exactly."""
    return read, str, lambda value: f"CAST({_text_sql(value)} AS {type_})", f"CAST({{}} AS {type_})"


def _instant(sql: str) -> _Family:
    """Return a time that is stored in UTC, whatever the zone of the column is."""
    best_effort = sql.format("toString(parseDateTime64BestEffort({}, 9, 'UTC'))")
    return "toString({}, 'UTC')", str, lambda value: sql.format(_text_sql(value)), best_effort


def _family(type_: ClickHouseType) -> _Family | None:
    match type_.name:
        case name if _INTEGER.fullmatch(name):
            return "toString({})", int, _integer_sql(type_), f"CAST({{}} AS {type_})"
        case "Float32" | "Float64":
            bits = _FLOATS[type_.name][0]
            read = f"toString(reinterpretAsUInt{bits}({{}}))"
            return read, _float_text(type_), _float_sql(type_), f"CAST({{}} AS {type_})"
        case "Bool":
            return "toString(toUInt8({}))", lambda text: text == "1", _bool_sql, "CAST({} AS Bool)"
        case "String":
            return "hex({})", parse_bytes, _bytes_sql, "{}"
        case "FixedString" | "Enum8" | "Enum16":
            cast = f"CAST({{}} AS {type_})"
            return "hex(toString({}))", parse_bytes, lambda value: cast.format(_bytes_sql(value)), cast
        case "DateTime":
            return _instant("CAST(toDateTime64({}, 0, 'UTC') AS DateTime('UTC'))")
        case "DateTime64":
            return _instant(f"toDateTime64({{}}, {type_.arguments[0]}, 'UTC')")
        case "Date" | "Date32" | "UUID" | "IPv4" | "IPv6":
            return _cast(type_)
        case name if name.startswith("Decimal"):
            return _cast(type_)
        case _:
            return None
