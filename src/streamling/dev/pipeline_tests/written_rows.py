"""Writes rows as YAML: one line per row, in which every value keeps its type."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

from streamling.dev.pipeline_tests.model import Row
from streamling.pipeline.document.loader import plain_scalar
from streamling.types.row_kind import OP_COLUMN

#: text that needs no quotes inside of braces, if it does not mean something else
_PLAIN = re.compile(r"[A-Za-z0-9_./+]((:?[A-Za-z0-9_./+@-]| (?! ))*[A-Za-z0-9_./+-])?", re.ASCII)


def write_row(row: Row) -> str:
    """Return a row as ``{id: 1, name: Ann}``; an insert needs no kind."""
    shown = {name: value for name, value in row.items() if (name, value) != (OP_COLUMN, "i")}
    return write_value(shown)


def write_value(value: Any) -> str:
    match value:
        case dict():
            return "{" + ", ".join(f"{_text(key)}: {write_value(each)}" for key, each in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(write_value, value)) + "]"
        case str():
            return _text(value)
        case Decimal():
            return _decimal(value)
        case int() if not isinstance(value, bool) and not -(2**63) <= value < 2**64:
            return str(value)  # read as text, which a column of wide numbers accepts
    return json.dumps(value)


def _decimal(value: Decimal) -> str:
    text = format(value, "f")
    # the parser reads fractions as floats: text keeps all digits
    return text if Decimal(repr(float(text))) == value else f'"{text}"'


def _text(text: str) -> str:
    is_plain = _PLAIN.fullmatch(text) and plain_scalar(text) == text
    return text if is_plain else json.dumps(text, ensure_ascii=False)
