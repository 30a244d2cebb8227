"""A few of Arrow's functions for code that runs at every start.

`pyarrow.compute` generates the documentation of 286 functions when it is imported, which takes 30 ms: a twelfth of the
time to report an error in a pipeline file. The layer below it does not. Array methods that compute something (`cast`,
`drop_null`, `filter`) import it too.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
from pyarrow._compute import (
    CastOptions,
    IndexOptions,
    MatchSubstringOptions,
    ReplaceSubstringOptions,
    RoundTemporalOptions,
    ScalarAggregateOptions,
    call_function,
)

if TYPE_CHECKING:
    Values: TypeAlias = pa.Array | pa.ChunkedArray


def trim(values: Values) -> Values:
    """Strip whitespace from texts."""
    return call_function("utf8_trim_whitespace", [values])


def not_equal(values: Values, others: Values | str) -> Values:
    """Return where the values differ."""
    return call_function("not_equal", [values, others])


def any_true(values: Values) -> bool:
    """Return whether a value is true; nulls are not."""
    return bool(call_function("any", [values], ScalarAggregateOptions(min_count=0)).as_py())


def all_true(values: Values) -> bool:
    """Return whether no value is false; nulls are not."""
    return bool(call_function("all", [values], ScalarAggregateOptions(min_count=0)).as_py())


def match_regex(values: Values, pattern: str) -> Values:
    """Return which texts match the regular expression."""
    return call_function("match_substring_regex", [values], MatchSubstringOptions(pattern))


def remove_regex(values: Values, pattern: str) -> Values:
    """Remove matches of the regular expression from texts."""
    return call_function("replace_substring_regex", [values], ReplaceSubstringOptions(pattern, ""))


def drop_null(values: Values) -> Values:
    """Return the values that are not null."""
    return call_function("drop_null", [values])


def filter_values(values: Values, mask: Values) -> Values:
    """Return the values where ``mask`` is true."""
    return call_function("filter", [values, mask])


def cast(values: Values, kind: pa.DataType) -> Values:
    """Cast the values to ``kind``; raises `pa.ArrowInvalid` for a value that does not fit."""
    return call_function("cast", [values], CastOptions.safe(kind))


def unsafe_cast(values: Values, kind: pa.DataType) -> Values:
    """Cast the values to ``kind``, truncating those that do not fit."""
    return call_function("cast", [values], CastOptions.unsafe(kind))


def equal(values: Values, others: Values | str) -> Values:
    return call_function("equal", [values, others])


def less(values: Values, others: Values) -> Values:
    return call_function("less", [values, others])


def or_values(values: Values, others: Values) -> Values:
    return call_function("or_kleene", [values, others])


def subtract(values: Values, others: Values) -> Values:
    return call_function("subtract", [values, others])


def lower(values: Values) -> Values:
    return call_function("utf8_lower", [values])


def null_where(values: Values, mask: Values) -> Values:
    """Replace the values with null where ``mask`` is true."""
    return call_function("if_else", [mask, pa.scalar(None, values.type), values])


def replace_regex(values: Values, pattern: str, replacement: str) -> Values:
    """Replace matches of the regular expression in texts."""
    return call_function("replace_substring_regex", [values], ReplaceSubstringOptions(pattern, replacement))


def index_of(values: Values, value: object) -> int | None:
    """Return the index of the first value that equals ``value``."""
    index: int = call_function("index", [values], IndexOptions(pa.scalar(value, values.type))).as_py()
    return None if index < 0 else index


def min_max(values: Values) -> tuple[object, object]:
    """Return the smallest and the largest value; None if all are null."""
    found = call_function("min_max", [values], ScalarAggregateOptions(min_count=1))
    return found["min"].as_py(), found["max"].as_py()


def whole_microseconds(values: Values) -> Values:
    """Floor timestamps in nanoseconds to microseconds."""
    return call_function("floor_temporal", [values], RoundTemporalOptions(1, "microsecond"))


def flatten(values: Values) -> list[Values]:
    """Return the fields of structs."""
    fields: list[Values] = values.flatten()
    return fields


def list_flatten(values: Values) -> Values:
    """Return the elements of all lists."""
    return call_function("list_flatten", [values])


def check_utf8(content: bytes) -> None:
    """Raise `pa.ArrowInvalid` unless ``content`` is UTF-8."""
    offsets = pa.py_buffer(struct.pack("=qq", 0, len(content)))
    pa.Array.from_buffers(pa.large_string(), 1, [None, offsets, pa.py_buffer(content)]).validate(full=True)
