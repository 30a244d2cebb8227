"""Arithmetic and conversions of wide numbers (`types/wide/layout.py`).

Every kernel takes the names of its types as last arguments. Spark evaluates kernels for all rows, even those that a
CASE excludes, so they never raise. If there is no result they return bytes that start with `FAILED` and the reason;
`streamling.sql.library.wide_numbers` raises it as an error in the JVM, for the rows that are used.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from streamling.types.json import json_texts
from streamling.types.names import TYPE_KEY, arrow_type
from streamling.types.wide.layout import FAILED, Layout, layout_of, to_integers, to_texts


def _layout(names: pa.Array) -> Layout:
    type_ = arrow_type(names[0].as_py())
    layout = None if type_ is None else layout_of(type_)
    assert layout is not None, names
    return layout


def _failed(reason: str, layout: Layout) -> bytes:
    text = FAILED + reason.encode()
    return text + b" " if len(text) == layout.width else text


def _encode_result(compute: Callable[[], int], layout: Layout) -> bytes:
    try:
        return layout.encode(compute())
    except (ValueError, OverflowError) as error:
        return _failed(str(error), layout)


def _arithmetic(symbol: str) -> Callable[..., pa.Array]:
    """Return a kernel for two operands; unscaled numbers are multiplied so that the result has the scale of its
    type."""
    compute = _OPERATORS[symbol]

    def kernel(lefts: pa.Array, rights: pa.Array, left: pa.Array, right: pa.Array, result: pa.Array) -> pa.Array:
        if not len(lefts):
            return pa.array([], pa.binary())
        a, b, r = _layout(left), _layout(right), _layout(result)
        times_a, times_b = _factors(symbol, a.scale, b.scale, r.scale)
        low, high, bias, width = r.low, r.high, r.bias, r.width

        def one(x: bytes, y: bytes) -> bytes:
            if len(x) != a.width or len(y) != b.width:  # an operand has failed
                return _failed(_reason(x if len(x) != a.width else y), r)
            i, j = int.from_bytes(x, "big") - a.bias, int.from_bytes(y, "big") - b.bias
            try:
                number = compute(i * times_a, j * times_b)
            except ZeroDivisionError:
                return _failed("division by zero", r)
            if low <= number <= high:
                return (number + bias).to_bytes(width, "big")
            return _failed(f"{a.text(i)} {symbol} {b.text(j)} does not fit into {r.name}", r)

        pairs = zip(lefts.to_pylist(), rights.to_pylist(), strict=True)
        return pa.array([None if x is None or y is None else one(x, y) for x, y in pairs], pa.binary())

    return kernel


def _reason(failed: bytes) -> str:
    return failed[len(FAILED) :].decode().rstrip()


def _factors(symbol: str, left: int, right: int, result: int) -> tuple[int, int]:
    if symbol == "*":
        return 1, 1
    if symbol == "/":
        return int(10 ** (result + right - left)), 1
    return int(10 ** (result - left)), int(10 ** (result - right))


def _divide(left: int, right: int) -> int:
    """Divide, truncating towards zero."""
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _remainder(left: int, right: int) -> int:
    """Return the remainder, with the sign of the dividend."""
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


_OPERATORS: Final[dict[str, Callable[[int, int], int]]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divide,
    "%": _remainder,
}


def _unary(compute: Callable[[int], int], shown: str) -> Callable[[pa.Array, pa.Array], pa.Array]:
    def kernel(values: pa.Array, names: pa.Array) -> pa.Array:
        if not len(values):
            return pa.array([], pa.binary())
        layout = _layout(names)

        def one(encoded: bytes) -> bytes:
            if len(encoded) != layout.width:
                return encoded
            number = layout.decode(encoded)
            if not layout.low <= compute(number) <= layout.high:
                return _failed(f"{shown.format(layout.text(number))} does not fit into {layout.name}", layout)
            return layout.encode(compute(number))

        return pa.array([None if encoded is None else one(encoded) for encoded in values.to_pylist()], pa.binary())

    return kernel


def convert(values: pa.Array, source: pa.Array, target: pa.Array) -> pa.Array:
    if not len(values):
        return pa.array([], pa.binary())
    old, new = _layout(source), _layout(target)

    def one(encoded: bytes) -> bytes:
        if len(encoded) != old.width:
            return _failed(_reason(encoded), new)
        return _encode_result(lambda: _rescale(old.decode(encoded), old.scale, new.scale), new)

    return pa.array([None if encoded is None else one(encoded) for encoded in values.to_pylist()], pa.binary())


def _rescale(number: int, old: int, new: int) -> int:
    """Convert to another scale: truncated towards zero if all fractional digits are dropped, as casts to whole numbers
    do, else rounded."""
    if new >= old:
        return int(number * 10 ** (new - old))
    lost = 10 ** (old - new)
    half = lost // 2 if new else 0
    return _divide(number + half if number >= 0 else number - half, lost)


def _from(read: Callable[[Any, Layout], int]) -> Callable[[pa.Array, pa.Array], pa.Array]:
    """Return a kernel that converts other values to numbers."""

    def kernel(values: pa.Array, names: pa.Array) -> pa.Array:
        if not len(values):
            return pa.array([], pa.binary())
        layout = _layout(names)

        def one(value: Any) -> bytes:
            return _encode_result(lambda: read(value, layout), layout)

        return pa.array([None if value is None else one(value) for value in values.to_pylist()], pa.binary())

    return kernel


def _of_text(value: str, layout: Layout) -> int:
    return layout.parse(value)


def _of_double(value: float, layout: Layout) -> int:
    if not math.isfinite(value):
        raise ValueError(f"{value} is not a valid {layout.name}")
    if not layout.scale:
        return int(value)
    return _of_decimal(repr(value), layout)


def _of_decimal(value: str, layout: Layout) -> int:
    sign, digits, exponent = Decimal(value).as_tuple()
    number = int("".join(map(str, digits)) or "0")
    assert isinstance(exponent, int)
    whole, scale = (number * 10**exponent, 0) if exponent > 0 else (number, -exponent)
    return _rescale(-whole if sign else whole, scale, layout.scale)


def member(documents: pa.Array, keys: pa.Array, names: pa.Array) -> pa.Array:
    """Extract numbers from JSON objects with all their digits; Spark's parser converts fractions to doubles."""
    if not len(documents):
        return pa.array([], pa.binary())
    layout, key = _layout(names), keys[0].as_py()
    decode = json.JSONDecoder(parse_float=str, parse_int=str).decode

    def one(document: str) -> bytes | None:
        try:
            value = decode(document)[key]
        except (ValueError, TypeError, KeyError, RecursionError):
            return None  # not an object, which is reported elsewhere, or one without the member
        if value is None or isinstance(value, str):
            return None if value is None else _encode_result(lambda: layout.parse(value), layout)
        return _failed(f"{json.dumps(value)} is not a number", layout)

    return pa.array([None if document is None else one(document) for document in documents.to_pylist()], pa.binary())


def text(values: pa.Array, names: pa.Array) -> pa.Array:
    if not len(values):
        return pa.array([], pa.string())
    layout = _layout(names)
    return to_texts(_without_failures(values, layout), layout)


def _without_failures(values: pa.Array, layout: Layout) -> pa.Array:
    return pc.if_else(pc.equal(pc.binary_length(values), layout.width), values, None)


def json_text(values: pa.Array, names: pa.Array) -> pa.Array:
    if not len(values):
        return pa.array([], pa.string())
    field = pa.field("value", values.type, metadata={TYPE_KEY: names[0].as_py()})
    return pa.array(json_texts(values, field), pa.string())


def double(values: pa.Array, names: pa.Array) -> pa.Array:
    if not len(values):
        return pa.array([], pa.float64())
    layout = _layout(names)
    point = 10**layout.scale
    numbers = to_integers(_without_failures(values, layout), layout)
    return pa.array([None if n is None else _float(n, point) for n in numbers], pa.float64())


def _float(number: int, point: int) -> float:
    try:
        return number / point
    except OverflowError:
        return -math.inf if number < 0 else math.inf


add, sub, mul, div, mod = map(_arithmetic, "+-*/%")
neg = _unary(lambda number: -number, "-({})")
absolute = _unary(abs, "abs({})")
parse = _from(_of_text)
from_double = _from(_of_double)
from_decimal = _from(_of_decimal)
