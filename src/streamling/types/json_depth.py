"""Limits the nesting depth of external JSON.

Python's parser stops at its recursion limit, which other code may have raised; it would then overflow the thread's
stack.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Final

#: nested arrays and objects
MAX_DEPTH: Final = 200
_STRING: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_BRACKET: Final = re.compile(r"[\[\]{}]")
_STEP: Final = {"[": 1, "{": 1, "]": -1, "}": -1}


def is_too_deep(text: str) -> bool:
    """Return whether a JSON text has more than `MAX_DEPTH` levels. Counting brackets is enough for nearly all texts."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    brackets = _BRACKET.findall(_STRING.sub("", text))
    return max(accumulate(map(_STEP.__getitem__, brackets)), default=0) > MAX_DEPTH
