"""Maps ClickHouse types to Arrow: the type of a column, and the type in which the server sends it.

The server converts what Arrow has no type for, such as UUIDs and Enums, and what different versions send differently,
such as dates. What it cannot send as we hold it, numbers of 128 and 256 bits, is converted when it arrives
(`page_reader.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import pyarrow as pa

from streamling.connectors.clickhouse.type_text import ClickHouseType, Named
from streamling.types.wide.layout import I256, U256, decimal_type


class UnsupportedTypeError(ValueError):
    """No Arrow type holds the values; the message is the name of the type."""


def _sent_as(name: str, *arguments: int | str) -> ClickHouseType:
    return ClickHouseType(name, arguments)


_STRING: Final = _sent_as("String")
_POINT: Final = ClickHouseType("Tuple", (_sent_as("Float64"), _sent_as("Float64")))
_LINE: Final = ClickHouseType("Array", (_POINT,))
_LINES: Final = ClickHouseType("Array", (_LINE,))

_INTERVALS: Final = (
    *("Nanosecond", "Microsecond", "Millisecond", "Second", "Minute", "Hour"),
    *("Day", "Week", "Month", "Quarter", "Year"),
)

#: ClickHouse type without arguments → Arrow type, and the type that is sent if it is another one
_SIMPLE: Final[Mapping[str, tuple[pa.DataType, ClickHouseType | None]]] = {
    "Bool": (pa.bool_(), None),
    "Int8": (pa.int8(), None),
    "Int16": (pa.int16(), None),
    "Int32": (pa.int32(), None),
    "Int64": (pa.int64(), None),
    "Int128": (I256, _sent_as("Int256")),
    "Int256": (I256, None),
    "UInt8": (pa.uint8(), None),
    "UInt16": (pa.uint16(), None),
    "UInt32": (pa.uint32(), None),
    "UInt64": (pa.uint64(), None),
    "UInt128": (U256, _sent_as("UInt256")),
    "UInt256": (U256, None),
    "BFloat16": (pa.float32(), _sent_as("Float32")),
    "Float32": (pa.float32(), None),
    "Float64": (pa.float64(), None),
    "String": (pa.string(), None),
    "UUID": (pa.string(), _STRING),
    "IPv4": (pa.string(), _STRING),
    "IPv6": (pa.string(), _STRING),
    "Enum8": (pa.string(), _STRING),
    "Enum16": (pa.string(), _STRING),
    "Date": (pa.date32(), _sent_as("Date32")),
    "Date32": (pa.date32(), None),
    "DateTime": (pa.timestamp("s", "UTC"), _sent_as("DateTime64", 0, "UTC")),
    # a time of up to 999 hours, which may be negative: Arrow's has at most 24
    "Time": (pa.string(), _STRING),
    "Time64": (pa.string(), _STRING),
    "JSON": (pa.string(), _STRING),
    "Object": (pa.string(), _STRING),
    "Dynamic": (pa.string(), ClickHouseType("Nullable", (_STRING,))),
    "Variant": (pa.string(), ClickHouseType("Nullable", (_STRING,))),
    "Nothing": (pa.null(), None),
    **{f"Interval{unit}": (pa.int64(), _sent_as("Int64")) for unit in _INTERVALS},
}

#: names for nested types
_GEOMETRIES: Final[Mapping[str, ClickHouseType]] = {
    "Point": _POINT,
    "Ring": _LINE,
    "LineString": _LINE,
    "MultiLineString": _LINES,
    "Polygon": _LINES,
    "MultiPolygon": ClickHouseType("Array", (_LINES,)),
}

#: digits after the point of DateTime64 → unit in Arrow
_UNITS: Final = ("s", "ms", "ms", "ms", "us", "us", "us", "ns", "ns", "ns")
_DECIMALS: Final = {"Decimal32": 9, "Decimal64": 18, "Decimal128": 38, "Decimal256": 76}


def arrow_field(name: str, type_: ClickHouseType) -> pa.Field:
    """Return the column for values of ``type_``. Raises `UnsupportedTypeError`."""
    return pa.field(name, read_type(type_)[0], _is_nullable(type_))


def _is_nullable(type_: ClickHouseType) -> bool:
    return (type_.types[-1] if type_.name == "SimpleAggregateFunction" else type_).is_nullable


def read_type(type_: ClickHouseType) -> tuple[pa.DataType, ClickHouseType]:
    """Return the Arrow type for values of ``type_``, and the type that the server sends. Raises
    `UnsupportedTypeError`."""
    if type_.name in _SIMPLE:
        arrow, sent = _SIMPLE[type_.name]
        return arrow, sent or type_
    if type_.name in _GEOMETRIES:
        return read_type(_GEOMETRIES[type_.name])
    if type_.name in _WITH_ARGUMENTS:
        return _WITH_ARGUMENTS[type_.name](type_)
    raise UnsupportedTypeError(str(type_))


def _nullable(type_: ClickHouseType) -> tuple[pa.DataType, ClickHouseType]:
    arrow, sent = read_type(type_.inner)
    return arrow, ClickHouseType("Nullable", (sent,))


def _low_cardinality(type_: ClickHouseType) -> tuple[pa.DataType, ClickHouseType]:
    arrow, sent = read_type(type_.inner)
    return arrow, type_ if sent == type_.inner else sent


def _simple_aggregate(type_: ClickHouseType) -> tuple[pa.DataType, ClickHouseType]:
    """Return the type T of the values of ``SimpleAggregateFunction(max, T)``."""
    return read_type(type_.types[-1])


def _decimal(type_: ClickHouseType) -> tuple[pa.DataType, ClickHouseType]:
    arguments = [argument for argument in type_.arguments if isinstance(argument, int)]
    precision = _DECIMALS.get(type_.name) or arguments.pop(0)
    return decimal_type(precision, arguments[0] if arguments else 0), type_


def _fixed_string(type_: ClickHouseType) -> tuple[pa.DataType, ClickHouseType]:
    return pa.binary(type_.arguments[0]), type_


def _datetime64(type_: ClickHouseType) -> tuple[pa.DataType, ClickHouseType]:
    digits = type_.arguments[0]
    assert isinstance(digits, int)
    return pa.timestamp(_UNITS[digits], "UTC"), _sent_as("DateTime64", digits, "UTC")


def _array(type_: ClickHouseType) -> tuple[pa.DataType, ClickHouseType]:
    arrow, sent = read_type(type_.inner)
    return pa.list_(pa.field("item", arrow, _is_nullable(type_.inner))), ClickHouseType("Array", (sent,))


def _map(type_: ClickHouseType) -> tuple[pa.DataType, ClickHouseType]:
    (key, sent_key), (value, sent_value) = map(read_type, type_.types)
    item = pa.field("value", value, _is_nullable(type_.types[1]))
    return pa.map_(key, item), ClickHouseType("Map", (sent_key, sent_value))


def _tuple(type_: ClickHouseType) -> tuple[pa.DataType, ClickHouseType]:
    if not type_.types:
        raise UnsupportedTypeError(str(type_))
    fields, sent = [], []
    for number, argument in enumerate(type_.arguments, 1):
        member = argument.type if isinstance(argument, Named) else argument
        assert isinstance(member, ClickHouseType)
        name = argument.name if isinstance(argument, Named) else None
        arrow, sent_member = read_type(member)
        fields.append(pa.field(name or str(number), arrow, _is_nullable(member)))
        sent.append(sent_member if name is None else Named(name, sent_member))
    return pa.struct(fields), ClickHouseType("Tuple", tuple(sent))


def _nested(type_: ClickHouseType) -> tuple[pa.DataType, ClickHouseType]:
    return _array(ClickHouseType("Array", (ClickHouseType("Tuple", type_.arguments),)))


_WITH_ARGUMENTS: Final[Mapping[str, Callable[[ClickHouseType], tuple[pa.DataType, ClickHouseType]]]] = {
    "Nullable": _nullable,
    "LowCardinality": _low_cardinality,
    "SimpleAggregateFunction": _simple_aggregate,
    "Decimal": _decimal,
    **dict.fromkeys(_DECIMALS, _decimal),
    "FixedString": _fixed_string,
    "DateTime64": _datetime64,
    "Array": _array,
    "Map": _map,
    "Tuple": _tuple,
    "Nested": _nested,
}
