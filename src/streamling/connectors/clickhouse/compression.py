"""Compression of requests."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa

#: codec → lowest, highest and default level
_LEVELS: Final[dict[str, tuple[int, int, int]]] = {"gzip": (0, 9, 6), "zstd": (1, 22, 3), "lz4": (1, 12, 1)}
#: zlib: with the header and trailer of a gzip file
_GZIP: Final = 31


def level_problem(codec: str, level: int | None) -> str | None:
    """Return what is wrong with a level; None if the codec has it."""
    if level is None or codec not in _LEVELS:
        return None
    low, high, _ = _LEVELS[codec]
    return None if low <= level <= high else f"is {level}; it must be between {low} and {high} for {codec}"


@dataclass(frozen=True)
class Compression:
    """A codec with its level."""

    codec: str
    level: int | None = None

    @property
    def encoding(self) -> str | None:
        """The name of the codec in HTTP; None without compression."""
        return self.codec if self.codec in _LEVELS else None

    def compress(self, data: pa.Buffer) -> pa.Buffer:
        if self.encoding is None:
            return data
        import pyarrow as pa  # not at module level: the configuration is checked with this module at every start

        level = _LEVELS[self.codec][2] if self.level is None else self.level
        if self.codec == "gzip":  # Arrow's has no level 0
            stream = zlib.compressobj(level, wbits=_GZIP)
            return pa.py_buffer(stream.compress(data) + stream.flush())
        return pa.Codec(self.codec, compression_level=level).compress(data)
