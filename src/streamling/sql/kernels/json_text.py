"""JSON text: reading, writing, quoting. Numbers keep their digits."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from streamling.sql.kernels.rows import mapped
from streamling.types.json_depth import is_too_deep
from streamling.types.strict_json import Number


class NotJson(Exception):
    """The text is not JSON."""


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_float=Number, parse_int=Number, parse_constant=_no_constant)


def read(text: str) -> Any:
    """Return the value of JSON text; raises `NotJson`."""
    if is_too_deep(text):
        raise NotJson
    try:
        return _DECODER.decode(text)
    except ValueError:
        raise NotJson from None


def write(value: Any) -> str:
    """Return JSON without spaces."""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_quoted(key)}:{write(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(write, value)) + "]"
    return _quoted(value)


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def compact(texts: pa.Array) -> pa.Array:
    return mapped(_compacted, pa.string(), texts)


def embedded(texts: pa.Array) -> pa.Array:
    """Return text inside other JSON: an object or array unchanged, everything else as a string."""
    return mapped(_embedded, pa.string(), texts)


def quote(texts: pa.Array) -> pa.Array:
    return mapped(lambda text: json.dumps(text).replace("/", "\\/"), pa.string(), texts)


def unquote(texts: pa.Array) -> pa.Array:
    return mapped(_unquoted, pa.string(), texts)


def is_json(texts: pa.Array, kinds: pa.Array) -> pa.Array:
    pairs = zip(texts.to_pylist(), kinds.to_pylist(), strict=True)
    return pa.array([text is not None and _is(text, kind) for text, kind in pairs], pa.bool_())


def clickhouse_tuples(texts: pa.Array, keys: pa.Array) -> pa.Array:
    pairs = zip(texts.to_pylist(), keys.to_pylist(), strict=True)
    return pa.array(["[]" if text is None else _tuples(text, names or []) for text, names in pairs], pa.string())


def _compacted(text: str) -> str | None:
    try:
        return write(read(text))
    except NotJson:
        return None


def _embedded(text: str) -> str:
    if text.lstrip()[:1] in ("{", "["):
        try:
            return write(read(text))
        except NotJson:
            pass
    return _quoted(text)


def _unquoted(text: str) -> str:
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        return text
    try:
        value = read(text)
    except NotJson:
        return text
    return value if isinstance(value, str) else text


def _is(text: str, kind: str) -> bool:
    try:
        value = read(text)
    except NotJson:
        return False
    is_object, is_array = isinstance(value, dict), isinstance(value, list)
    return {"OBJECT": is_object, "ARRAY": is_array, "SCALAR": not (is_object or is_array)}.get(kind, True)


def _tuples(text: str, names: list[str | None]) -> str | None:
    try:
        elements = read(text)
    except NotJson:
        return None
    if not isinstance(elements, list):
        return None
    keys = [name for name in names if name is not None]
    rows = ([element.get(key) if isinstance(element, dict) else None for key in keys] for element in elements)
    return "[" + ", ".join("(" + ", ".join(map(_in_clickhouse, row)) + ")" for row in rows) + "]"


def _in_clickhouse(value: Any) -> str:
    if isinstance(value, str) and not isinstance(value, Number):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return write(value)
