"""Limits the nesting of SQL, and raises Python's recursion limit for it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Final

from streamling.recursion import recursion_limit

#: nested parentheses, calls and CASE
MAX_DEPTH: Final = 100
#: characters of one expression for Spark; some functions repeat their arguments
MAX_CHARACTERS: Final = 1_000_000
#: the parser makes about 25 calls per level; calls from Python to Python do not use the thread's stack
_CALLS: Final = 20_000


def deep_recursion() -> AbstractContextManager[None]:
    """Allow as many nested calls as the deepest SQL needs."""
    return recursion_limit(_CALLS)
