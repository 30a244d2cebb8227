"""A few of Arrow's functions for what runs at every start.

`pyarrow.compute` writes the documentation of 286 functions when it is imported, which takes 30 ms: a twelfth of the
time in which a wrong file is told to be wrong. What lies under it does not. Methods of arrays that compute something
(`cast`, `drop_null`, `filter`) import it too.
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


def trimmed(values: Values) -> Values:
    """Texts without the white space around them."""
    return call_function("utf8_trim_whitespace", [values])


def differ(values: Values, others: Values | str) -> Values:
    """Where the values are not the others."""
    return call_function("not_equal", [values, others])


def any_true(values: Values) -> bool:
    """Whether one of the values is true; nulls are not."""
    return bool(call_function("any", [values], ScalarAggregateOptions(min_count=0)).as_py())


def all_true(values: Values) -> bool:
    """Whether no value is false; nulls are not."""
    return bool(call_function("all", [values], ScalarAggregateOptions(min_count=0)).as_py())


def matching(values: Values, pattern: str) -> Values:
    """Where the texts contain the regular expression."""
    return call_function("match_substring_regex", [values], MatchSubstringOptions(pattern))


def without(values: Values, pattern: str) -> Values:
    """The texts without what the regular expression finds in them."""
    return call_function("replace_substring_regex", [values], ReplaceSubstringOptions(pattern, ""))


def present(values: Values) -> Values:
    """The values that are not null."""
    return call_function("drop_null", [values])


def chosen(values: Values, wanted: Values) -> Values:
    """The values where ``wanted`` is true."""
    return call_function("filter", [values, wanted])


def cast(values: Values, kind: pa.DataType) -> Values:
    """The values as ``kind``; raises `pa.ArrowInvalid` for one that does not fit."""
    return call_function("cast", [values], CastOptions.safe(kind))


def unsafe_cast(values: Values, kind: pa.DataType) -> Values:
    """The values as ``kind``, cut where they do not fit."""
    return call_function("cast", [values], CastOptions.unsafe(kind))


def equal(values: Values, others: Values | str) -> Values:
    return call_function("equal", [values, others])


def less(values: Values, others: Values) -> Values:
    return call_function("less", [values, others])


def either(values: Values, others: Values) -> Values:
    return call_function("or_kleene", [values, others])


def subtract(values: Values, others: Values) -> Values:
    return call_function("subtract", [values, others])


def lower(values: Values) -> Values:
    return call_function("utf8_lower", [values])


def null_where(values: Values, unwanted: Values) -> Values:
    """The values with null where ``unwanted`` is true."""
    return call_function("if_else", [unwanted, pa.scalar(None, values.type), values])


def replaced(values: Values, pattern: str, replacement: str) -> Values:
    """The texts with what the regular expression finds replaced."""
    return call_function("replace_substring_regex", [values], ReplaceSubstringOptions(pattern, replacement))


def index_of(values: Values, wanted: object) -> int | None:
    """Index of the first of the values that is ``wanted``."""
    index: int = call_function("index", [values], IndexOptions(pa.scalar(wanted, values.type))).as_py()
    return None if index < 0 else index


def extremes(values: Values) -> tuple[object, object]:
    """The smallest and the largest value; None when all are null."""
    found = call_function("min_max", [values], ScalarAggregateOptions(min_count=1))
    return found["min"].as_py(), found["max"].as_py()


def whole_microseconds(values: Values) -> Values:
    """Timestamps in nanoseconds without what is smaller than a microsecond."""
    return call_function("floor_temporal", [values], RoundTemporalOptions(1, "microsecond"))


def flattened(values: Values) -> list[Values]:
    """The fields of structs."""
    fields: list[Values] = values.flatten()
    return fields


def elements(values: Values) -> Values:
    """The elements of all lists."""
    return call_function("list_flatten", [values])


def check_utf8(content: bytes) -> None:
    """Raise `pa.ArrowInvalid` unless ``content`` is UTF-8."""
    offsets = pa.py_buffer(struct.pack("=qq", 0, len(content)))
    pa.Array.from_buffers(pa.large_string(), 1, [None, offsets, pa.py_buffer(content)]).validate(full=True)
