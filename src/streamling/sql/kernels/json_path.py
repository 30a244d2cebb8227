"""Values at a path in JSON text. Invalid JSON has no values."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pyarrow as pa

from streamling.sql.kernels.json_text import NotJson, read, write
from streamling.sql.kernels.rows import mapped


def value(texts: pa.Array, paths: pa.Array) -> pa.Array:
    """Return scalars as text."""
    return mapped(_scalar, pa.string(), texts, paths)


def query(texts: pa.Array, paths: pa.Array, wrappers: pa.Array) -> pa.Array:
    """Return objects and arrays as JSON; others only if they are wrapped."""
    return mapped(_wrapped, pa.string(), texts, paths, wrappers)


def exists(texts: pa.Array, paths: pa.Array) -> pa.Array:
    """Return whether the path exists; NULL for invalid JSON."""
    return mapped(_exists, pa.bool_(), texts, paths)


def _scalar(text: str, path: str) -> str | None:
    try:
        found = _at(read(text), path)
    except NotJson:
        return None
    if found is None or isinstance(found, dict | list):
        return None
    if isinstance(found, str):  # numbers too, as written
        return str(found)
    return write(found)


def _wrapped(text: str, path: str, wrapper: str) -> str | None:
    try:
        found = _at(read(text), path)
    except NotJson:
        return None
    nested = isinstance(found, dict | list)
    if found is None or (wrapper == "WITHOUT ARRAY" and not nested):
        return None
    bare = wrapper == "WITHOUT ARRAY" or (wrapper == "WITH CONDITIONAL ARRAY" and nested)
    return write(found) if bare else write([found])


def _exists(text: str, path: str) -> bool | None:
    try:
        return _at(read(text), path) is not None
    except NotJson:
        return None


def _at(found: Any, path: str) -> Any:
    """Return the value at the path; None if there is none or the path is invalid."""
    way = steps(path)
    if way is None:
        return None
    for step in way:
        if isinstance(step, int):
            found = found[step] if isinstance(found, list) and step < len(found) else None
        else:
            found = found.get(step) if isinstance(found, dict) else None
    return found


Steps = tuple[str | int, ...]


@lru_cache(maxsize=256)
def steps(path: str) -> Steps | None:
    """Return the keys and indexes of the path; None if ``path`` is invalid."""
    rest = path.strip()
    for mode in ("lax ", "strict "):
        rest = rest.removeprefix(mode).lstrip()
    if not rest.startswith("$"):
        return None
    rest, found = rest[1:], list[str | int]()
    while rest:
        step = _key(rest) or _place(rest)
        if step is None:
            return None
        found.append(step[0])
        rest = step[1]
    return tuple(found)


def _key(rest: str) -> tuple[str, str] | None:
    if not rest.startswith("."):
        return None
    end = next((place for place, char in enumerate(rest[1:], 1) if char in ".["), len(rest))
    name = rest[1:end]
    return (name, rest[end:]) if name and "*" not in name else None


def _place(rest: str) -> tuple[str | int, str] | None:
    if not rest.startswith("["):
        return None
    quote = rest[1:2]
    if quote in ("'", '"'):
        name, closed, behind = rest[2:].partition(quote + "]")
        return (name, behind) if closed else None
    number, closed, behind = rest[1:].partition("]")
    return (int(number), behind) if closed and number.strip().isdecimal() else None
