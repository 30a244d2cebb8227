"""Locations in the user's files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Location:
    """A position in a file; lines and columns start at 1."""

    file: str = ""
    line: int = 0
    column: int = 0


#: for values that do not come from a file
UNKNOWN_LOCATION: Final = Location()
