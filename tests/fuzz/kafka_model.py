"""The expected result for a JSON message, computed with Python's own parser: the corpus's schema, one rule per type."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from decimal import Decimal, localcontext
from typing import Any

from streamling.pipeline.typenames import parse_type
from streamling.types.json_depth import is_too_deep

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_DATE = re.compile(r"(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}")
_CLOCK = r"[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,%d}0*)?)?"
_MOMENT = re.compile(rf"{_DATE.pattern}(?:[T ]{_CLOCK % 6}(?:Z|[+-][0-9]{{2}}(?::?[0-5][0-9])?)?)?")
_SPACE = "".join(map(chr, range(33)))


class BadMessage(Exception):
    """The message is not a row."""


class Number(str):
    """A number as written."""


def row_of(message: bytes, schema: dict[str, str], key: str) -> dict[str, Any]:
    """The columns that are not null; raises `BadMessage`."""
    found = _parsed(message)
    if not isinstance(found, dict):
        raise BadMessage
    row = {name: _value(found.get(name), kind) for name, kind in schema.items() if found.get(name) is not None}
    if key not in row:
        raise BadMessage
    return row


def parse(text: str) -> Any:
    """JSON with its numbers as written."""

    def refuse(name: str) -> Any:
        raise ValueError(name)

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("a key twice")
        return dict(pairs)

    return json.loads(text, parse_int=Number, parse_float=Number, parse_constant=refuse, object_pairs_hook=unique)


def _parsed(message: bytes) -> Any:
    try:
        text = message.decode()
        if is_too_deep(text):
            raise BadMessage
        found = parse(text)
        json.dumps(found, ensure_ascii=False).encode()  # an unpaired surrogate has no UTF-8
    except (ValueError, RecursionError):
        raise BadMessage from None
    return found


def _value(value: Any, kind: str) -> Any:
    if kind == "string":
        return value if isinstance(value, str | dict | list) else "true" if value else "false"
    if kind == "boolean":
        if not isinstance(value, bool):
            raise BadMessage
        return value
    if not isinstance(value, str):
        raise BadMessage
    if kind in ("date32", "timestamp", "time64", "time32"):
        return _moment(value, kind)
    return _number(value.strip(_SPACE), kind)


def _number(text: str, kind: str) -> Any:
    if kind == "null" or not _NUMBER.fullmatch(text):
        raise BadMessage
    if kind.startswith("float"):
        number = float(text)
        if not math.isfinite(number) or (kind == "float32" and abs(number) >= 2.0**128 - 2.0**103):
            raise BadMessage
        return number
    if kind.startswith("decimal"):
        return _decimal(text, kind)
    width = 64 if kind == "duration" else int(re.sub(r"\D", "", kind))
    lowest, highest = (0, 2**width) if kind.startswith("u") else (-(2 ** (width - 1)), 2 ** (width - 1))
    if not _INTEGER.fullmatch(text) or (kind == "uint64" and text.startswith("-")):
        raise BadMessage
    if not lowest <= int(text) < highest:
        raise BadMessage
    return int(text)


def _decimal(text: str, kind: str) -> Decimal:
    type_ = parse_type(kind)
    mantissa, _, exponent = text.lower().partition("e")
    if not mantissa.strip("+-.0"):
        return Decimal(0)
    if abs(int(exponent or "0")) > 10_000:
        raise BadMessage
    with localcontext(prec=25_000):
        number = Decimal(text)
        if number != number.quantize(Decimal(1).scaleb(-type_.scale)) or abs(number) >= 10 ** (
            type_.precision - type_.scale
        ):
            raise BadMessage
    return number


def _moment(text: str, kind: str) -> Any:
    form = {"date32": _DATE, "timestamp": _MOMENT}.get(kind) or re.compile(_CLOCK % (3 if kind == "time32" else 6))
    if not form.fullmatch(text):
        raise BadMessage
    text = re.sub(r"(\.[0-9]{6})0+", r"\1", text)
    try:
        if kind == "date32":
            return dt.date.fromisoformat(text)
        if kind != "timestamp":
            return dt.time.fromisoformat(text)
        moment = dt.datetime.fromisoformat(text)
        if abs(moment.utcoffset() or dt.timedelta()) > dt.timedelta(hours=18):
            raise BadMessage
        return moment.astimezone(dt.UTC).replace(tzinfo=None) if moment.tzinfo else moment
    except (ValueError, OverflowError):
        raise BadMessage from None
