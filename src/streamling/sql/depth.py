"""How deep SQL may be nested, and room on Python's stack for it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Final

from streamling.recursion import recursion_limit

#: brackets, calls and CASE inside each other
MAX_DEPTH: Final = 100
#: characters of one expression as Spark gets it; some functions mention their arguments several times
MAX_CHARACTERS: Final = 1_000_000
#: the parser takes about 25 calls for a level; calls from Python to Python take nothing of the thread's stack
_CALLS: Final = 20_000


def deep_recursion() -> AbstractContextManager[None]:
    """Allows as many nested calls as the deepest SQL needs."""
    return recursion_limit(_CALLS)
