"""Which node a state key belongs to."""

from __future__ import annotations

import re

from streamling.builtins import builtins


def owner(key: str, names: frozenset[str] = frozenset()) -> str:
    """Return the node that a state key belongs to: one of ``names`` if it matches, otherwise as the key's form says."""
    for pattern in (pattern for builtin in builtins() for pattern in builtin.state_keys):
        if found := re.fullmatch(pattern, key):
            return found["node"]
    fitting = (name for name in names if key == name or key.startswith((f"{name}:", f"{name}[")))
    return max(fitting, key=len, default=re.split(r"[:\[]", key, maxsplit=1)[0])
