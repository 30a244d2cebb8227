"""A few of Arrow's functions for what runs at every start.

`pyarrow.compute` writes the documentation of 286 functions when it is imported, which takes 30 ms: a twelfth of the
time in which a wrong file is told to be wrong. What lies under it does not. Methods of arrays that compute something
(`cast`, `drop_null`, `filter`) import it too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
from pyarrow._compute import (
    CastOptions,
    MatchSubstringOptions,
    ReplaceSubstringOptions,
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
