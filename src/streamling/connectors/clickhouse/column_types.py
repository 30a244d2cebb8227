"""The ClickHouse types of new columns, by Arrow type."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from streamling.connectors.clickhouse.type_text import ClickHouseType, Named
from streamling.types.spark import logical_type
from streamling.types.wide.layout import ARROW_DIGITS, I256, U256, WideDecimal

#: Arrow types without parameters
_PLAIN: Final[dict[pa.DataType, str]] = {
    pa.bool_(): "UInt8",
    pa.int8(): "Int8",
    pa.int16(): "Int16",
    pa.int32(): "Int32",
    pa.int64(): "Int64",
    pa.uint8(): "UInt8",
    pa.uint16(): "UInt16",
    pa.uint32(): "UInt32",
    pa.uint64(): "UInt64",
    pa.float16(): "Float32",
    pa.float32(): "Float32",
    pa.float64(): "Float64",
    pa.date32(): "Date",
    pa.date64(): "DateTime",
    U256: "UInt256",
    I256: "Int256",
}
#: precision of a time, by its unit; a time in seconds has none
_DIGITS: Final = {"ms": 3, "us": 6, "ns": 9}
#: precision of a time of day: every time64 is stored with nanoseconds
_TIME_DIGITS: Final = {"ms": 3, "us": 9, "ns": 9}
#: types that cannot be Nullable
_NEVER_NULLABLE: Final = frozenset({"Array", "Tuple", "Map"})


def clickhouse_type(field: pa.Field, *, is_key: bool = False) -> ClickHouseType:
    """Return the type of a new column for ``field``. A column that ``is_key`` is not Nullable, since neither keys nor
    versions may be."""
    return _nullable(_type_of(logical_type(field)), field.nullable and not is_key)


def _nullable(type_: ClickHouseType, nullable: bool) -> ClickHouseType:
    return ClickHouseType("Nullable", (type_,)) if nullable and type_.name not in _NEVER_NULLABLE else type_


def _type_of(type_: pa.DataType) -> ClickHouseType:
    types = pa.types
    if type_ in _PLAIN:
        return ClickHouseType(_PLAIN[type_])
    if types.is_dictionary(type_):
        return _type_of(type_.value_type)
    if types.is_timestamp(type_):
        return _time(_DIGITS.get(type_.unit))
    if types.is_time(type_):
        return _time(_TIME_DIGITS.get(type_.unit))
    if types.is_decimal(type_) and not isinstance(type_, WideDecimal) and type_.precision <= ARROW_DIGITS:
        return ClickHouseType("Decimal", (type_.precision, type_.scale))
    if types.is_duration(type_):
        return ClickHouseType("Int64")
    if types.is_fixed_size_binary(type_):
        return ClickHouseType("FixedString", (type_.byte_width,))
    if types.is_map(type_):
        return ClickHouseType("Map", (_type_of(type_.key_type), _of_field(type_.item_field)))
    if types.is_struct(type_) and type_.num_fields:
        return ClickHouseType("Tuple", tuple(Named(field.name, _of_field(field)) for field in type_))
    if types.is_list(type_) or types.is_large_list(type_) or types.is_fixed_size_list(type_):
        return ClickHouseType("Array", (_of_field(type_.value_field),))
    return ClickHouseType("String")


def _of_field(field: pa.Field) -> ClickHouseType:
    return _nullable(_type_of(field.type), field.nullable)


def _time(digits: int | None) -> ClickHouseType:
    return ClickHouseType("DateTime") if digits is None else ClickHouseType("DateTime64", (digits,))
