"""Floats that are narrower than Python's."""

from __future__ import annotations

import math
import struct
from typing import Final

import pyarrow as pa

#: by the width of a type; without "<", struct converts a number that is too large to infinity, as C does
_PACKED: Final = {16: struct.Struct("<e"), 32: struct.Struct("<f"), 64: struct.Struct("<d")}


def fits_float(number: float, kind: pa.DataType) -> bool:
    """Return whether ``number`` is finite and stays so in a column of ``kind``, where pyarrow would convert it to
    infinity."""
    if not math.isfinite(number):
        return False
    try:
        _PACKED[kind.bit_width].pack(number)
    except OverflowError:
        return False
    return True
