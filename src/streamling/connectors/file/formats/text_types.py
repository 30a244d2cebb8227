"""Types of values written as text: numbers, booleans, dates and timestamps, and their formats."""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta
from functools import reduce

import pyarrow as pa

from streamling.types import kernels

INT = pa.int64()
DOUBLE = pa.float64()
BOOLEAN = pa.bool_()
DATE = pa.date32()
TIMESTAMP = pa.timestamp("us")
INSTANT = pa.timestamp("us", "UTC")
STRING = pa.string()
NULL = pa.null()

_DAY = r"\d{4}-\d{2}-\d{2}"
_CLOCK = r"\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?"
_ZONE = r"(Z|[+-]\d{2}:\d{2})"
_INT_RANGE = range(-(2**63), 2**63)

#: tried in this order; later types include values of earlier ones if both can be in one column (1 and 1.5; a date and a
#: timestamp)
_PATTERNS = {
    INT: r"^[+-]?\d+$",
    DOUBLE: r"^([+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|NaN|-?Infinity)$",
    BOOLEAN: r"^(?i:true|false)$",
    DATE: f"^{_DAY}$",
    TIMESTAMP: f"^{_DAY}([ T]{_CLOCK})?$",
    INSTANT: f"^{_DAY}[ T]{_CLOCK}{_ZONE}$",
}
_COMPILED = {kind: re.compile(pattern, re.ASCII) for kind, pattern in _PATTERNS.items()}
#: digits that may exceed a 64-bit integer
_LONG_INTEGER = r"^[+-]?\d{19,}$"
#: numbers that may exceed a double
_LARGE_NUMBER = r"^[+-]?\d{16,}$|[eE]\+?0*[1-9]\d{2}|\d{300}"
#: Python does not parse integers of more than 4300 digits
_LONGEST_NUMBER = 1000
_MOMENT = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d)(?::(\d\d))?(?:\.\d+)?(?:([+-])(\d\d):(\d\d))?)?")
#: checking a few values first rules out most patterns without scanning the column
_PROBED_VALUES = 64

#: names for messages
NAMES = {
    INT: "a whole number",
    DOUBLE: "a number",
    BOOLEAN: "true or false",
    DATE: "a date such as 2024-05-31",
    TIMESTAMP: "a timestamp such as 2024-05-31 12:00:00",
    INSTANT: "a timestamp with zone such as 2024-05-31T12:00:00Z",
    STRING: "text",
}


def type_of_texts(values: pa.Array | pa.ChunkedArray) -> pa.DataType:
    """Return the narrowest type that fits all values; string if no other fits, null if there is no value."""
    if not len(values):
        return NULL
    head = values.slice(0, _PROBED_VALUES)
    for kind, pattern in _PATTERNS.items():
        if _all_match(head, pattern) and _all_match(values, pattern) and _all_valid(values, kind):
            return kind
    return STRING


def type_of_text(text: str) -> pa.DataType:
    """Return `type_of_texts` of one value."""
    return next((kind for kind in _COMPILED if fits(text, kind)), STRING)


def fits(text: str, kind: pa.DataType) -> bool:
    """Return whether a column of type ``kind`` can hold a text."""
    if kind not in _COMPILED:
        return True
    if not _COMPILED[kind].match(text):
        return False
    if kind in (INT, DOUBLE):
        return _is_exact(text, kind)
    return kind == BOOLEAN or _is_valid_time(text)


def all_fit(values: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> bool:
    """Return whether a column of type ``kind`` can hold all texts."""
    return kind not in _PATTERNS or (_all_match(values, _PATTERNS[kind]) and _all_valid(values, kind))


def _all_match(values: pa.Array | pa.ChunkedArray, pattern: str) -> bool:
    return kernels.all_true(kernels.match_regex(values, pattern))


def _all_valid(values: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> bool:
    """Return whether values of the right form also exist: no 31st of April, no integer beyond 64 bits."""
    if kind in (INT, DOUBLE):
        suspects = kernels.filter_values(
            values, kernels.match_regex(values, _LONG_INTEGER if kind == INT else _LARGE_NUMBER)
        )
        return all(_is_exact(text, kind) for text in suspects.to_pylist())
    if kind in (DATE, TIMESTAMP, INSTANT):
        # The fraction and the zone do not matter, and nanoseconds would end in the year 2262.
        if kernels.any_true(kernels.match_regex(values, "^0000")):
            return False
        seconds = kernels.remove_regex(values, rf"(\.\d+)?{_ZONE}?$")
        try:
            kernels.cast(seconds, DATE if kind == DATE else pa.timestamp("s"))
        except pa.ArrowInvalid:
            return False
        if kind == INSTANT:  # in another zone it may be out of range in UTC
            edges = kernels.filter_values(
                values, kernels.match_regex(values, "^(0001-01-01|9999-12-31)|[+-](2[4-9]|[3-9]\\d):|:[6-9]\\d$")
            )
            return all(fits(text, kind) for text in edges.to_pylist())
    return True


def _is_exact(text: str, kind: pa.DataType) -> bool:
    """Return whether a number fits: a large integer would lose digits as a double, 1e400 would become infinite."""
    if len(text) > _LONGEST_NUMBER:
        return False
    if kind == INT:
        return int(text) in _INT_RANGE
    number = float(text)
    if math.isinf(number):
        return "Infinity" in text
    return not _COMPILED[INT].match(text) or (int(text) == number and int(text) in _INT_RANGE)


def _is_valid_time(text: str) -> bool:
    *numbers, sign, hours, minutes = _MOMENT.match(text).groups()  # type: ignore[union-attr]
    try:
        moment = datetime(*[int(part) for part in numbers if part])  # type: ignore[arg-type]
        if sign:
            offset = timedelta(hours=int(hours), minutes=int(minutes))
            moment = moment - offset if sign == "+" else moment + offset
    except (ValueError, OverflowError):
        return False
    return True


def common_type(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return the type that holds both; text holds everything."""
    if one == other or other == NULL:
        return one
    if one == NULL:
        return other
    if {one, other} == {INT, DOUBLE}:
        return DOUBLE
    if {one, other} == {DATE, TIMESTAMP}:
        return TIMESTAMP
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        return pa.struct(common_fields([list(one), list(other)]))
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(common_type(one.value_type, other.value_type))
    return STRING


def common_fields(field_lists: list[list[pa.Field]]) -> list[pa.Field]:
    """Return all columns in order of first appearance, each with a type that holds all its values."""
    types: dict[str, pa.DataType] = {}
    for fields in field_lists:
        for field in fields:
            types[field.name] = common_type(types.get(field.name, NULL), field.type)
    return [pa.field(name, kind) for name, kind in types.items()]


def replace_null_types(kind: pa.DataType) -> pa.DataType:
    """Replace unknown types with text: a column of nulls, an empty list or object."""
    if kind == NULL:
        return STRING
    if pa.types.is_list(kind):
        return pa.list_(replace_null_types(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(replace_null_types(kind.key_type), replace_null_types(kind.item_type))
    if pa.types.is_struct(kind):
        return (
            pa.struct([field.with_type(replace_null_types(field.type)) for field in kind])
            if kind.num_fields
            else STRING
        )
    return kind


def is_void(kind: pa.DataType) -> bool:
    """Return whether values of a type carry no information: only nulls, empty lists and empty objects."""
    if pa.types.is_struct(kind):
        return all(is_void(field.type) for field in kind)
    return pa.types.is_null(kind) or (pa.types.is_list(kind) and is_void(kind.value_type))


def merged_types(kinds: set[pa.DataType]) -> pa.DataType:
    return reduce(common_type, kinds, NULL)
