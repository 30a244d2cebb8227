"""The cells of one column on their way into a sandbox and out of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

T = TypeVar("T")

#: between the rows of a text column, and between columns; texts that hold one of them cross as JSON
ROWS, PARTS = "\x01", "\x02"
_ROW, _PART = ROWS.encode(), PARTS.encode()


@dataclass(frozen=True)
class EncodedInput:
    """A column on its way in: how it is written, its bytes or its text."""

    mode: str
    data: bytes = b""
    text: bytes | None = None


def joined(texts: pa.Array) -> EncodedInput:
    rows = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    text = bytes(pc.binary_join(rows, ROWS)[0].as_buffer().to_pybytes())
    if text.count(_ROW) == len(texts) - 1 and _PART not in text:
        return EncodedInput("text", text=text)
    return EncodedInput("json", text=json.dumps(texts.to_pylist()).encode())


class InvalidValue(Exception):
    """A value that the column's type cannot take."""

    def __init__(self, index: int, shown: str, why: str = "") -> None:
        super().__init__(why)
        self.index = index
        self.shown = shown
        self.why = why


@dataclass(frozen=True)
class EncodedOutput:
    """Numbers, flags or texts, whichever the column is written with, and where there is nothing."""

    rows: int
    #: a byte per row, 1 where there is nothing
    nulls: bytes
    data: bytes = b""
    texts: Sequence[str] = ()
    #: integers that a double cannot hold, by row
    wide: Sequence[tuple[int, int]] = ()

    @property
    def numbers(self) -> pa.Array:
        return pa.Array.from_buffers(pa.float64(), self.rows, [None, pa.py_buffer(self.data)])

    @property
    def flags(self) -> pa.Array:
        return pa.Array.from_buffers(pa.uint8(), self.rows, [None, pa.py_buffer(self.data)])

    def is_null(self, row: int) -> bool:
        return self.nulls[row] == 1

    @property
    def has_nulls(self) -> bool:
        return b"\x01" in self.nulls

    def masked(self, column: pa.Array) -> pa.Array:
        """``column`` with nothing where there is nothing."""
        if not self.has_nulls:
            return column
        return pc.if_else(self._mask(), pa.scalar(None, column.type), column)

    def present(self) -> list[str | None]:
        """The texts, None where there is nothing."""
        if not self.has_nulls:
            return list(self.texts)
        return [None if null else text for text, null in zip(self.texts, self.nulls, strict=True)]

    def _mask(self) -> pa.Array:
        buffer = pa.Array.from_buffers(pa.uint8(), self.rows, [None, pa.py_buffer(self.nulls)])
        return pc.cast(buffer, pa.bool_())


def decode_each(output: EncodedOutput, read: Callable[[str], T]) -> list[T | None]:
    """What ``read`` makes of every text; what it cannot read is `InvalidValue`."""
    values: list[T | None] = []
    for row, text in enumerate(output.present()):
        try:
            values.append(None if text is None else read(text))
        except (ValueError, ArithmeticError, TypeError, LookupError, RecursionError) as error:
            raise InvalidValue(row, text or "", str(error)) from error
    return values
