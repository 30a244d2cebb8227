"""Numbers of all widths for ClickHouse: little-endian, in two's complement, as ClickHouse and Arrow hold them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from streamling.connectors.clickhouse.encode.values import Encode, UnwritableValue, check_between, first_where, shown
from streamling.connectors.clickhouse.type_text import ClickHouseType
from streamling.types.wide.layout import I256, U256, Layout, layout_of

_INTEGERS: Final[dict[str, pa.DataType]] = {
    **{f"Int{bits}": getattr(pa, f"int{bits}")() for bits in (8, 16, 32, 64)},
    **{f"UInt{bits}": getattr(pa, f"uint{bits}")() for bits in (8, 16, 32, 64)},
}
#: bytes of larger integers
_LARGE: Final = {"Int128": 16, "UInt128": 16, "Int256": 32, "UInt256": 32}
_FLOATS: Final = {"Float32": pa.float32(), "Float64": pa.float64()}
#: precision of decimals whose name says their size
_DECIMALS: Final = {"Decimal32": 9, "Decimal64": 18, "Decimal128": 38, "Decimal256": 76}


def integer_range(name: str) -> tuple[int, int]:
    """Return the least and the greatest value of an integer type."""
    bits = int(name.removeprefix("U").removeprefix("Int"))
    return (0, 2**bits - 1) if name.startswith("U") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def decimal_size(type_: ClickHouseType) -> tuple[int, int]:
    """Return precision and scale of a decimal type."""
    sizes = [argument for argument in type_.arguments if isinstance(argument, int)]
    if type_.name in _DECIMALS:
        return _DECIMALS[type_.name], *sizes  # type: ignore[return-value]
    precision, *rest = sizes or [10]
    return precision, rest[0] if rest else 0


def number_encoder(logical: pa.DataType, target: ClickHouseType) -> Encode | None:
    """Return the conversion of values of ``logical`` to a number; None if ``target`` is not one or does not fit."""
    if target.name in _INTEGERS or target.name in _LARGE:
        return _integer_encoder(logical, target.name) if _is_whole(logical) else None
    if target.name.startswith("Decimal"):
        return _decimal_encoder(logical, *decimal_size(target)) if _is_exact(logical) else None
    if target.name in _FLOATS and (pa.types.is_floating(logical) or pa.types.is_integer(logical)):
        return _Float(_FLOATS[target.name])
    if target.name == "Bool" and (pa.types.is_boolean(logical) or pa.types.is_integer(logical)):
        return _bit
    return None


def _is_whole(logical: pa.DataType) -> bool:
    """Return whether values of the type are whole numbers. A truth value is 0 or 1, a duration the number of its
    units."""
    types = pa.types
    if types.is_decimal(logical):
        return bool(logical.scale == 0)
    return (
        types.is_integer(logical) or types.is_boolean(logical) or types.is_duration(logical) or logical in (U256, I256)
    )


def _is_exact(logical: pa.DataType) -> bool:
    return pa.types.is_integer(logical) or pa.types.is_decimal(logical) or layout_of(logical) is not None


# ── integers ─────────────────────────────────────────────────────────────────────────────────────────────────


def _integer_encoder(logical: pa.DataType, name: str) -> Encode:
    low, high = integer_range(name)
    layout = layout_of(logical)
    size = _LARGE.get(name, 8)

    def from_spark(column: pa.Array) -> pa.Array:
        assert layout is not None
        check_wide(column, layout, low, high)
        numbers = little_endian(column, layout, size)
        if name in _LARGE:
            return numbers
        return as_int64(numbers).view(pa.uint64() if name == "UInt64" else pa.int64()).cast(_INTEGERS[name])

    def from_numbers(column: pa.Array) -> pa.Array:
        if layout is not None and pa.types.is_binary(column.type):
            return from_spark(column)
        column = column.cast(pa.uint8()) if pa.types.is_boolean(column.type) else column
        column = column.cast(pa.int64()) if pa.types.is_duration(column.type) else column
        if column.type == _INTEGERS.get(name):
            return column
        check_between(column, low, high)
        return _large(column, size) if name in _LARGE else column.cast(_INTEGERS[name])

    return from_numbers


def _large(column: pa.Array, size: int) -> pa.Array:
    if size == 32:
        return decimal_bytes(column.cast(pa.decimal256(76, 0)))
    if pa.types.is_decimal256(column.type):
        return lower_half(decimal_bytes(column))
    return decimal_bytes(column.cast(pa.decimal128(38, 0)))


def _bit(column: pa.Array) -> pa.Array:
    if pa.types.is_boolean(column.type):
        return column
    check_between(column, 0, 1)
    return column.cast(pa.bool_())


# ── decimals ─────────────────────────────────────────────────────────────────────────────────────────────────


def _decimal_encoder(logical: pa.DataType, precision: int, scale: int) -> Encode:
    layout = layout_of(logical)
    target = pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)

    def encode(column: pa.Array) -> pa.Array:
        if layout is not None and pa.types.is_binary(column.type):
            column = _arrow_decimals(column, layout)
        elif pa.types.is_integer(column.type):
            column = column.cast(pa.decimal128(38, 0))
        if column.type == target:
            return column
        try:
            return column.cast(target)
        except pa.ArrowInvalid:
            raise _misfit(column, precision, scale) from None

    return encode


def _arrow_decimals(column: pa.Array, layout: Layout) -> pa.Array:
    check_wide(column, layout, -(10**76) + 1, 10**76 - 1)
    return as_decimals(little_endian(column, layout, 32), layout.scale)


def _misfit(column: pa.Array, precision: int, scale: int) -> UnwritableValue:
    """Return the error for the first value that does not fit; only now are values compared one by one."""
    culprit = next(
        (value for value in column.to_pylist() if value is not None and not _fits(value, precision, scale)), ""
    )
    return UnwritableValue(
        f"the value {shown(culprit)} has more than {precision - scale} digits before or {scale} after the point"
    )


def _fits(value: Decimal, precision: int, scale: int) -> bool:
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rjust(-exponent + 1, "0")
    whole, part = (text[:exponent], text[exponent:]) if exponent else (text, "")
    return len(whole.lstrip("0")) <= precision - scale and len(part.rstrip("0")) <= scale


# ── floating point ───────────────────────────────────────────────────────────────────────────────────────────


class _Float:
    """Rounds to the nearest number of the column's type; an overflow and an integer that is rounded are errors."""

    def __init__(self, target: pa.DataType) -> None:
        self._target = target

    def __call__(self, column: pa.Array) -> pa.Array:
        if column.type == self._target:
            return column
        if pa.types.is_integer(column.type):
            return self._exactly(column)
        result = column.cast(self._target)
        if self._target == pa.float32() and pa.types.is_float64(column.type):
            self._check_overflow(column, result)
        return result

    def _exactly(self, column: pa.Array) -> pa.Array:
        bits = 24 if self._target == pa.float32() else 53
        check_between(column, -(2**bits), 2**bits)
        return column.cast(self._target)

    def _check_overflow(self, column: pa.Array, result: pa.Array) -> None:
        overflowed = pc.and_(pc.is_inf(result), pc.is_finite(column)).fill_null(False)
        value: Any = first_where(column, overflowed)
        if value is not None:
            raise UnwritableValue(f"the value {value} is too large for 32 bits")


_FLIPPED: Final = bytes(byte ^ 0x80 for byte in range(256))
#: byte of a sign extension, by the highest byte of the number
_SIGNS: Final = bytes(0xFF if byte >= 0x80 else 0 for byte in range(256))


def check_wide(column: pa.Array, layout: Layout, low: int, high: int) -> None:
    """Raise `UnwritableValue` if a number in Spark's form is not between ``low`` and ``high``."""
    if layout.low >= low and layout.high <= high:
        return
    found = pc.min_max(column)
    if not found["min"].is_valid:
        return
    for number in (layout.decode(found["min"].as_py()), layout.decode(found["max"].as_py())):
        if not low <= number <= high:
            raise UnwritableValue(
                f"the value {layout.text(number)} is not between {layout.text(low)} and {layout.text(high)}"
            )


def little_endian(column: pa.Array, layout: Layout, size: int) -> pa.Array:
    """Convert numbers in Spark's form, which fit, to ``size`` bytes each. Byte after byte of all numbers: 25 ns per
    number."""
    count, width = len(column), layout.width
    filled = column.fill_null(bytes(width)).cast(pa.binary(width))
    content = filled.buffers()[1].slice(filled.offset * width, count * width).to_pybytes()
    result = bytearray(count * size)
    for number in range(min(width, size)):
        result[number::size] = content[width - 1 - number :: width]
    if layout.bias and size >= width:
        top = content[::width].translate(_FLIPPED)
        result[width - 1 :: size] = top
        for number in range(width, size):
            result[number::size] = top.translate(_SIGNS)
    return _fixed(pa.py_buffer(result), column, size)


def decimal_bytes(column: pa.Array) -> pa.Array:
    """Return the unscaled numbers of Arrow decimals of 128 or 256 bits as bytes; nothing is copied."""
    size = column.type.byte_width
    return pa.Array.from_buffers(pa.binary(size), len(column), column.buffers(), offset=column.offset)


def lower_half(column: pa.Array) -> pa.Array:
    """Convert numbers of 32 bytes that fit into 16 bytes."""
    content = column.buffers()[1].slice(column.offset * 32, len(column) * 32).to_pybytes()
    result = bytearray(len(column) * 16)
    for number in range(16):
        result[number::16] = content[number::32]
    return _fixed(pa.py_buffer(result), column, 16)


def as_decimals(column: pa.Array, scale: int) -> pa.Array:
    """Return numbers of 32 bytes as unscaled Arrow decimals with this scale; nothing is copied."""
    return pa.Array.from_buffers(pa.decimal256(76, scale), len(column), column.buffers(), offset=column.offset)


def as_int64(column: pa.Array) -> pa.Array:
    """Return numbers of 8 bytes as integers; nothing is copied."""
    return pa.Array.from_buffers(pa.int64(), len(column), column.buffers(), offset=column.offset)


def _fixed(content: pa.Buffer, column: pa.Array, size: int) -> pa.Array:
    validity = column.is_valid().buffers()[1] if column.null_count else None
    return pa.Array.from_buffers(pa.binary(size), len(column), [validity, content])
