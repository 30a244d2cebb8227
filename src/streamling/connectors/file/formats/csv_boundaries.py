"""Finds where rows of CSV content end."""

from __future__ import annotations

import re
from typing import Final

_FIELD: Final = rb'(?:"(?:[^"]++|"")*+"[^,\r\n]*+|[^",\r\n][^,\r\n]*+|)'
_ROW: Final = _FIELD + rb"(?:," + _FIELD + rb")*+(?:\r\n|\n|\r(?!\Z))"  # an LF may follow a final CR
_ROWS: Final = re.compile(rb"(?:" + _ROW + rb")*+")
_FIRST_ROW: Final = re.compile(rb"(?:\xef\xbb\xbf)?[\r\n]*+" + _ROW)


def row_end(data: bytes) -> int:
    """Return the length of the part of ``data`` that ends with a whole row; a line break inside quotes does not end a
    row."""
    if b'"' in data:
        # Counting quotes in pairs would be eight times as fast, but wrong for quotes in the middle of fields.
        return _ROWS.match(data).end()  # type: ignore[union-attr]
    return data.rfind(b"\n") + 1 or data.rfind(b"\r", 0, -1) + 1


def header_end(data: bytes) -> int:
    """Return the length of the first row that is not blank, including everything before it."""
    match = _FIRST_ROW.match(data)
    return match.end() if match else len(data)
