"""Rejects values that Spark reads from Parquet and Avro files but nothing downstream can hold.

These are text that is not UTF-8, and dates and timestamps outside the years 1 to 9999: the plan stops at them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from streamling.spark.sql_text import quoted

#: limits as Spark literals, by type; the upper one is exclusive
_LIMITS: Final = {
    pa.date32(): ("DATE '0001-01-01'", "DATE '+10000-01-01'"),
    pa.timestamp("us"): ("TIMESTAMP_NTZ '0001-01-01 00:00:00'", "TIMESTAMP_NTZ '+10000-01-01 00:00:00'"),
    pa.timestamp("us", "UTC"): ("TIMESTAMP '0001-01-01 00:00:00'", "TIMESTAMP '+10000-01-01 00:00:00'"),
}
_INVALID: Final = re.compile(r"invalid value in column 0x([0-9A-F]*) of (\S+)")


def checked_sql(value: str, column: str, type_: pa.DataType) -> str | None:
    """Return Spark SQL for a column's value that stops the plan at an invalid value; None if every value is valid."""
    if (condition := _is_invalid(value, type_, 0)) is None:
        return None
    name = column.encode().hex().upper()
    failure = f"raise_error(concat('invalid value in column 0x{name} of ', _metadata.file_path))"
    return f"CASE WHEN {condition} THEN {failure} ELSE {value} END"


def find_invalid(failure: str) -> str | None:
    """Return the column if an error of Spark is about such a value."""
    match = _INVALID.search(failure)
    return bytes.fromhex(match[1]).decode() if match else None


def _is_invalid(value: str, type_: pa.DataType, depth: int) -> str | None:
    if type_ in _LIMITS:
        first, end = _LIMITS[type_]
        return f"({value} < {first} OR {value} >= {end})"
    if pa.types.is_string(type_):
        return f"NOT is_valid_utf8({value})"
    if pa.types.is_struct(type_):
        return _any(_is_invalid(f"{value}.{quoted(field.name)}", field.type, depth) for field in type_)
    if pa.types.is_map(type_):
        return _any(
            _exists(f"{function}({value})", part, depth)
            for function, part in (("map_keys", type_.key_type), ("map_values", type_.item_type))
        )
    return _exists(value, type_.value_type, depth) if pa.types.is_list(type_) else None


def _exists(values: str, type_: pa.DataType, depth: int) -> str | None:
    condition = _is_invalid(f"x{depth}", type_, depth + 1)
    return None if condition is None else f"exists({values}, x{depth} -> {condition})"


def _any(conditions: Iterable[str | None]) -> str | None:
    known = [f"coalesce({condition}, false)" for condition in conditions if condition is not None]
    return f"({' OR '.join(known)})" if known else None
