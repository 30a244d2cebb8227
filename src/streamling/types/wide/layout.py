"""256-bit integers and decimals of more than 38 digits.

Spark has neither. They are held as BINARY of a fixed width: the number (for decimals: unscaled) plus a bias that makes
the smallest one zero or more, big-endian. Spark's comparison of bytes is then the order of the numbers, so ``=``,
``<``, IN, BETWEEN and sorting need no function. For a signed width that is the number in two's complement with its sign
bit flipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cache
from typing import Any, Final

import pyarrow as pa

#: precision of Spark's decimals, of Arrow's, and of Postgres' NUMERIC
SPARK_DIGITS: Final = 38
ARROW_DIGITS: Final = 76
MAX_DIGITS: Final = 1000
#: Bytes with this prefix are not a number but the reason for a failure; they never have the length of a number.
FAILED: Final = b"!"

#: sign, then hexadecimal digits, or digits before and after a point and an exponent
_TEXT: Final = re.compile(
    r"\s*([+-]?)(?:0x([0-9a-f]+)|(?:(\d+)(?:\.(\d*))?|\.(\d+))(?:e([+-]?\d{1,4}))?)\s*", re.IGNORECASE | re.ASCII
)
#: longer texts are never valid, and Python would refuse to parse them
_LONGEST_TEXT: Final = 2 * MAX_DIGITS

_EXACT: Final = Context(prec=MAX_DIGITS)


class _WideType(pa.ExtensionType):  # type: ignore[misc]
    """An extension type of our own, which arrays and schemas of this process can have. Arrow keeps no Python object for
    a type inside another, but recreates it from `__arrow_ext_serialize__`."""

    def __reduce__(self) -> tuple[Any, ...]:
        return self.__arrow_ext_deserialize__, (pa.binary(), self.__arrow_ext_serialize__())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _WideType) and str(other) == str(self)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(str(self))


class WideInteger(_WideType):
    """``u256`` or ``i256``; arrays of it hold what Spark holds."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(pa.binary(), f"streamling.{name}")

    def __arrow_ext_serialize__(self) -> bytes:
        return self.name.encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> WideInteger:
        return cls(serialized.decode())

    def __str__(self) -> str:
        return self.name


class WideDecimal(_WideType):
    """A decimal with more digits than Arrow's own."""

    def __init__(self, precision: int, scale: int) -> None:
        self.precision = precision
        self.scale = scale
        super().__init__(pa.binary(), "streamling.decimal")

    def __arrow_ext_serialize__(self) -> bytes:
        return f"{self.precision},{self.scale}".encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> WideDecimal:
        precision, scale = serialized.decode().split(",")
        return cls(int(precision), int(scale))

    def __str__(self) -> str:
        return f"decimal({self.precision}, {self.scale})"


U256: Final = WideInteger("u256")
I256: Final = WideInteger("i256")


def decimal_type(precision: int, scale: int) -> pa.DataType:
    """Return the Arrow type of decimals with this precision and scale."""
    if precision <= SPARK_DIGITS:
        return pa.decimal128(precision, scale)
    return pa.decimal256(precision, scale) if precision <= ARROW_DIGITS else WideDecimal(precision, scale)


@dataclass(frozen=True)
class Layout:
    """How numbers of a type are held: from ``low`` to ``high``, after moving the point by ``scale`` digits."""

    name: str
    low: int
    high: int
    width: int
    scale: int = 0

    @property
    def bias(self) -> int:
        return 1 << (8 * self.width - 1) if self.low < 0 else 0

    def encode(self, number: int) -> bytes:
        """Encode a number; raises `OverflowError` if the type cannot hold it."""
        if not self.low <= number <= self.high:
            raise OverflowError(f"{self.text(number)} does not fit into {self.name}")
        return (number + self.bias).to_bytes(self.width, "big")

    def decode(self, encoded: bytes) -> int:
        return int.from_bytes(encoded, "big") - self.bias

    def text(self, number: int) -> str:
        """Return all digits, with as many after the point as the type has."""
        if not self.scale:
            return str(number)
        digits = str(abs(number)).rjust(self.scale + 1, "0")
        return f"{'-' if number < 0 else ''}{digits[: -self.scale]}.{digits[-self.scale :]}"

    def parse(self, text: str) -> int:
        """Parse a text: digits with a sign, a point and an exponent as far as the type allows, or ``0x…``. Raises
        `ValueError` with the reason."""
        match = _TEXT.fullmatch(text) if len(text) <= _LONGEST_TEXT else None
        if match is None:
            raise ValueError(f"'{_truncate(text)}' is not a number")
        sign, hexadecimal, whole, part, only_part, exponent = match.groups()
        if hexadecimal:
            number, places = int(hexadecimal, 16), 0
        else:
            part = part or only_part or ""
            number, places = int((whole or "") + part or "0"), len(part) - int(exponent or 0)
        shifted = _shift_point(number, self.scale - places)
        if shifted is None:
            kind = "whole number" if not self.scale else f"number with at most {self.scale} digits after the point"
            raise ValueError(f"'{_truncate(text)}' is not a {kind}")
        return -shifted if sign == "-" else shifted


def _shift_point(number: int, places: int) -> int | None:
    """Return ``number`` × 10^places; None if digits would be lost."""
    if places >= 0:
        return int(number * 10**places)
    quotient, rest = divmod(number, 10**-places)
    return None if rest else quotient


def _truncate(text: str) -> str:
    return text if len(text) <= 100 else text[:100] + "…"


@cache
def layout_of(type_: pa.DataType) -> Layout | None:
    """Return how values of ``type_`` are held; None for types that Spark supports."""
    if type_ == U256:
        return Layout("u256", 0, 2**256 - 1, 32)
    if type_ == I256:
        return Layout("i256", -(2**255), 2**255 - 1, 32)
    if isinstance(type_, WideDecimal) or (pa.types.is_decimal256(type_) and type_.precision > SPARK_DIGITS):
        most = 10**type_.precision - 1
        width = (most.bit_length() + 8) // 8  # one more bit for the sign
        return Layout(f"decimal({type_.precision}, {type_.scale})", -most, most, width, type_.scale)
    return None


def is_wide(type_: pa.DataType | None) -> bool:
    return type_ is not None and layout_of(type_) is not None


def contains_wide(type_: pa.DataType | None) -> bool:
    """Return whether values of ``type_`` are wide numbers or contain some."""
    if type_ is None:
        return False
    if is_wide(type_):
        return True
    if pa.types.is_dictionary(type_):
        return contains_wide(type_.value_type)
    return any(contains_wide(type_.field(number).type) for number in range(type_.num_fields))


# ── arrays ───────────────────────────────────────────────────────────────────────────────────────────────────


def to_integers(column: pa.Array, layout: Layout) -> list[int | None]:
    """Decode an array of held values to unscaled integers. Also used to pass them to a script (BigInt)."""
    bias, decode = layout.bias, int.from_bytes
    return [None if encoded is None else decode(encoded, "big") - bias for encoded in column.to_pylist()]


def from_integers(numbers: Iterable[int | None], layout: Layout) -> pa.Array:
    """Encode integers; raises `OverflowError` that names the first number that does not fit."""
    bias, width, low, high = layout.bias, layout.width, layout.low, layout.high
    return pa.array(
        [
            None
            if number is None
            else (number + bias).to_bytes(width, "big")
            if low <= number <= high
            else layout.encode(number)
            for number in numbers
        ],
        pa.binary(),
    )


def to_texts(column: pa.Array, layout: Layout) -> pa.Array:
    """Return all digits of each number."""
    text = layout.text if layout.scale else str
    return pa.array([None if n is None else text(n) for n in to_integers(column, layout)], pa.string())


def without_point(number: Decimal, layout: Layout) -> int:
    """Return the unscaled integer of a number with the layout's scale."""
    return int(number.scaleb(layout.scale, _EXACT))


def from_decimals(column: pa.Array, layout: Layout) -> pa.Array:
    """Encode an array of Arrow decimals with the layout's scale."""
    return from_integers((None if d is None else without_point(d, layout) for d in column.to_pylist()), layout)
