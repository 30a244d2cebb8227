"""JSON taken strictly: one object, as written, or what is wrong with it.

Python's parser accepts what is not JSON (``NaN``), what is ambiguous (a key twice) and what is no text (half of a
surrogate pair), and turns numbers into floats. Here the former are errors, and numbers keep their digits.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from streamling.types.json_depth import is_too_deep


class Number(str):
    """A number as it is written."""


def to_json_text(value: Any) -> str:
    """A value as JSON, numbers as they were written."""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, list):
        return "[" + ",".join(map(to_json_text, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{to_json_text(name)}:{to_json_text(item)}" for name, item in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)


class InvalidJson(ValueError):
    """What Python's parser takes, and we do not."""


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; of a key that is there twice nobody knows which value is meant."""
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
    """The object in a line, or what is wrong with it."""
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
        return "has half of a surrogate pair, which is not a character"
    except InvalidJson as refused:
        return str(refused)
    except ValueError as error:
        return f"is no JSON: {error}"
    return row if isinstance(row, dict) else f"holds {_word(row)} where an object is expected"


def _word(value: Any) -> str:
    kinds = {list: "an array", str: "a text", bool: "a boolean", type(None): "null"}
    return kinds.get(type(value), "a number")
