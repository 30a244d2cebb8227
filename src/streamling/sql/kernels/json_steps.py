"""JSON paths: ``$``, then any number of ``.key``, ``[n]`` and ``['key']``."""

from __future__ import annotations

from functools import lru_cache

Steps = tuple[str | int, ...]


@lru_cache(maxsize=256)
def steps(path: str) -> Steps | None:
    """The keys and indexes of the path; None if ``path`` is invalid."""
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
