"""Types of text: numbers, booleans, dates and timestamps, in the spellings that Spark reads."""

from __future__ import annotations

import re
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

#: tried in this order; later ones take in what earlier ones match where both can stand in one column
#: (1 and 1.5; a day and a time of day)
_PATTERNS = {
    INT: r"^[+-]?\d+$",
    DOUBLE: r"^([+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|NaN|-?Infinity)$",
    BOOLEAN: r"^(?i:true|false)$",
    DATE: f"^{_DAY}$",
    TIMESTAMP: f"^{_DAY}([ T]{_CLOCK})?$",
    INSTANT: f"^{_DAY}[ T]{_CLOCK}{_ZONE}$",
}
_COMPILED = {kind: re.compile(pattern, re.ASCII) for kind, pattern in _PATTERNS.items()}
#: digits that a 64-bit integer may not hold
_LONG_INTEGER = r"^[+-]?\d{19,}$"
#: a first look at a few values spares most patterns the whole column
_FIRST_LOOK = 64

#: words for people
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
    """The narrowest type all values fit, string when there is no other, null when there is no value."""
    if not len(values):
        return NULL
    head = values.slice(0, _FIRST_LOOK)
    for kind, pattern in _PATTERNS.items():
        if _all_match(head, pattern) and _all_match(values, pattern) and _all_exist(values, kind):
            return kind
    return STRING


def type_of_text(text: str) -> pa.DataType:
    """`type_of_texts` for one value; also what checks a single field against its column's type."""
    for kind, pattern in _COMPILED.items():
        if pattern.match(text) and _all_exist(pa.array([text]), kind):
            return kind
    return STRING


def fits(text: str, kind: pa.DataType) -> bool:
    """Whether a text can stand in a column of type ``kind``."""
    if kind not in _COMPILED:
        return True
    return bool(_COMPILED[kind].match(text)) and _all_exist(pa.array([text]), kind)


def _all_match(values: pa.Array | pa.ChunkedArray, pattern: str) -> bool:
    return kernels.all_true(kernels.matching(values, pattern))


def _all_exist(values: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> bool:
    """Whether values of the right form also exist: no 31st of April, no integer beyond 64 bits."""
    if kind in (INT, DOUBLE):
        # An integer too large for its type stays text: a double would lose digits.
        long = kernels.chosen(values, kernels.matching(values, _LONG_INTEGER))
        return all(int(text) in _INT_RANGE for text in long.to_pylist())
    if kind in (DATE, TIMESTAMP, INSTANT):
        # The fraction and the zone do not matter, and nanoseconds would end in the year 2262.
        seconds = kernels.without(values, rf"(\.\d+)?{_ZONE}?$")
        try:
            kernels.cast(seconds, DATE if kind == DATE else pa.timestamp("s"))
        except pa.ArrowInvalid:
            return False
    return True


def common_type(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The type that takes both; text takes everything."""
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
    """All columns in order of first appearance, each with the type that takes all its values."""
    types: dict[str, pa.DataType] = {}
    for fields in field_lists:
        for field in fields:
            types[field.name] = common_type(types.get(field.name, NULL), field.type)
    return [pa.field(name, kind) for name, kind in types.items()]


def settled(kind: pa.DataType) -> pa.DataType:
    """``kind`` with text where nothing was known: a column of nulls only, an empty list or object."""
    if kind == NULL:
        return STRING
    if pa.types.is_list(kind):
        return pa.list_(settled(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(settled(field.type)) for field in kind]) if kind.num_fields else STRING
    return kind


def merged_types(kinds: set[pa.DataType]) -> pa.DataType:
    return reduce(common_type, kinds, NULL)
