"""Applies a function of one row's values to Arrow arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa


def mapped(function: Callable[..., Any], type_: pa.DataType, *arrays: pa.Array) -> pa.Array:
    """Return ``function`` of every row; NULL if an argument is NULL."""
    if len(arrays) == 1:
        values = (None if value is None else function(value) for value in arrays[0].to_pylist())
    else:
        rows = zip(*(array.to_pylist() for array in arrays), strict=True)
        values = (None if None in row else function(*row) for row in rows)
    return pa.array(values, type_)
