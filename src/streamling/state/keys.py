"""Whose entry a key of the state is."""

from __future__ import annotations

import re


def owner(key: str, names: frozenset[str] = frozenset()) -> str:
    """The node that a state key belongs to: one of ``names`` when it fits, else read from the key's form."""
    for pattern in (r"clickhouse_source:(?P<n>.+):v1", r"hybrid_source_(?P<n>.+)_v1"):
        if found := re.fullmatch(pattern, key):
            return found["n"]
    fitting = (name for name in names if key == name or key.startswith((f"{name}:", f"{name}[")))
    return max(fitting, key=len, default=re.split(r"[:\[]", key, maxsplit=1)[0])
