"""Where something is in a file that the user wrote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Location:
    """A position in a file; lines and columns count from 1."""

    file: str = ""
    line: int = 0
    column: int = 0


#: of what stands in no file
UNKNOWN_LOCATION: Final = Location()
