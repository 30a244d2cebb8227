"""The values of one column, encoded for a sandbox."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

T = TypeVar("T")

#: separators between the rows of a text column, and between columns; texts that contain one are encoded as JSON
ROWS, PARTS = "\x01", "\x02"
_ROW, _PART = ROWS.encode(), PARTS.encode()


@dataclass(frozen=True)
class EncodedInput:
    """An encoded input column: its encoding, and its bytes or its text."""

    mode: str
    data: bytes = b""
    text: bytes | None = None


def join_texts(texts: pa.Array) -> EncodedInput:
    rows = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    text = bytes(pc.binary_join(rows, ROWS)[0].as_buffer().to_pybytes())
    if text.count(_ROW) == len(texts) - 1 and _PART not in text:
        return EncodedInput("text", text=text)
    return EncodedInput("json", text=json.dumps(texts.to_pylist()).encode())


class InvalidValue(Exception):
    """A value that the column's type cannot hold."""

    def __init__(self, index: int, shown: str, reason: str = "") -> None:
        super().__init__(reason)
        self.index = index
        self.shown = shown
        self.reason = reason


@dataclass(frozen=True)
class EncodedOutput:
    """An encoded output column: numbers, flags or texts, depending on its encoding, and its nulls."""

    rows: int
    #: a byte per row, 1 for null
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

    def with_nulls(self, column: pa.Array) -> pa.Array:
        """Return ``column`` with its nulls."""
        if not self.has_nulls:
            return column
        return pc.if_else(self._mask(), pa.scalar(None, column.type), column)

    def texts_or_none(self) -> list[str | None]:
        """Return the texts, None for null."""
        if not self.has_nulls:
            return list(self.texts)
        return [None if null else text for text, null in zip(self.texts, self.nulls, strict=True)]

    def _mask(self) -> pa.Array:
        buffer = pa.Array.from_buffers(pa.uint8(), self.rows, [None, pa.py_buffer(self.nulls)])
        return pc.cast(buffer, pa.bool_())


def decode_each(output: EncodedOutput, read: Callable[[str], T]) -> list[T | None]:
    """Decode every text with ``read``; raises `InvalidValue` for one that it cannot read."""
    values: list[T | None] = []
    for row, text in enumerate(output.texts_or_none()):
        try:
            values.append(None if text is None else read(text))
        except (ValueError, ArithmeticError, TypeError, LookupError, RecursionError) as error:
            raise InvalidValue(row, text or "", str(error)) from error
    return values
