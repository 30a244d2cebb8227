"""Strict JSON: returns one object as written, or an error.

Python's parser accepts invalid JSON (``NaN``), ambiguous JSON (duplicate keys) and invalid text (a lone surrogate), and
converts numbers to floats. Here these are errors, and numbers keep their digits.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from streamling.types.json_depth import is_too_deep


class Number(str):
    """A number as written."""

    __slots__ = ()


def to_json_text(value: Any) -> str:
    """Return a value as JSON, numbers as written."""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, list):
        return "[" + ",".join(map(to_json_text, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{to_json_text(name)}:{to_json_text(item)}" for name, item in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)


class InvalidJson(ValueError):
    """JSON that Python's parser accepts, but we do not."""


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; a duplicate key is an error, because it is ambiguous."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise InvalidJson(f"has the key '{next(name for name in names if names.count(name) > 1)}' twice")
    return found


def _constant(name: str) -> NoReturn:
    raise InvalidJson(f"is not valid JSON: {name} is not a number")


_DECODER = json.JSONDecoder(
    parse_int=Number, parse_float=Number, parse_constant=_constant, object_pairs_hook=unique_keys, strict=True
)


def parse_object(line: bytes) -> dict[str, Any] | str:
    """Return the object in a line, or what is wrong with it."""
    try:
        text = line.decode()
        if is_too_deep(text):
            return "is nested too deeply"
        row = _DECODER.decode(text)
        if b"\\u" in line:
            to_json_text(row).encode()
    except UnicodeDecodeError:
        return "is not encoded in UTF-8"
    except UnicodeEncodeError:
        return "has a lone surrogate, which is not a character"
    except InvalidJson as error:
        return str(error)
    except ValueError as error:
        return f"is not valid JSON: {error}"
    return row if isinstance(row, dict) else f"is {_kind_name(row)}, expected an object"


def _kind_name(value: Any) -> str:
    kinds = {list: "an array", str: "a text", bool: "a boolean", type(None): "null"}
    return kinds.get(type(value), "a number")
