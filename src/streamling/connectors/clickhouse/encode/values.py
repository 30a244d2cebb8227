"""What all conversions share: their type, their errors, and arrays in their logical types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

#: converts a column to an array that the server reads
Encode = Callable[[pa.Array], pa.Array]

_SHOWN: Final = 100


class UnwritableValue(ValueError):
    """A value that the column cannot hold. The message is the rest of a sentence about the column."""


def as_logical(column: pa.Array, logical: pa.DataType) -> pa.Array:
    """Return a column as arrays of its logical type hold it. Spark delivers some types as others: unsigned integers as
    wider ones or decimals, times as microseconds or numbers. Wide numbers stay in Spark's form."""
    if isinstance(column.type, pa.ExtensionType):
        return column.storage
    if pa.types.is_dictionary(column.type):
        return column.dictionary_decode()
    if column.type != logical and (pa.types.is_unsigned_integer(logical) or pa.types.is_time(logical)):
        return column.cast(logical, safe=not pa.types.is_time(logical))
    return column


def check_between(column: pa.Array, low: Any, high: Any, show: Callable[[Any], object] = str) -> None:
    """Raise `UnwritableValue` if a value is not between ``low`` and ``high``; ``show`` prepares values for its text."""
    found = pc.min_max(column)
    if not found["min"].is_valid:
        return
    least, greatest = found["min"].as_py(), found["max"].as_py()
    if least < low or greatest > high:
        outside = least if least < low else greatest
        raise UnwritableValue(f"the value {show(outside)} is not between {show(low)} and {show(high)}")


def shown(value: object) -> str:
    """Return a value for a message."""
    text = str(value)
    text = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
    return repr(text) if isinstance(value, str) else text


def first_where(column: pa.Array, mask: pa.Array) -> Any:
    """Return the first value where ``mask`` is true; None if there is none."""
    row = pc.index(mask, True).as_py()
    return None if row < 0 else column[row].as_py()
