"""Arithmetic and conversions of wide numbers against Python's integers, `decimal` and `fractions`, without Spark."""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

from streamling.sql.library import wide_numbers as declared
from streamling.sql.library.declaration import Kernel
from streamling.types.names import arrow_type_name
from streamling.types.wide import kernels
from streamling.types.wide.layout import I256, U256, WideDecimal, from_integers
from tests.types.wide.wide_numbers import held, some

SEED = 4711


def run(kernel: Kernel, *columns: pa.Array, types: list[pa.DataType]) -> list[Any]:
    function = getattr(kernels, kernel.path.partition(".")[2])
    names = [pa.array([arrow_type_name(type_)] * len(columns[0]), pa.string()) for type_ in types]
    return function(*columns, *names).to_pylist()


def outcome(value: bytes | None, type_: pa.DataType) -> int | str | None:
    """Return a number, or the reason for a failure."""
    layout = held(type_)
    if value is None or len(value) == layout.width:
        return None if value is None else layout.decode(value)
    assert value.startswith(kernels.FAILED)
    return value[1:].decode().rstrip()


def truncated(a: int, b: int) -> int:
    return math.trunc(Fraction(a, b))


OPERATIONS: list[tuple[Kernel, str, Callable[[int, int], int]]] = [
    (declared.ADD, "+", operator.add),
    (declared.SUBTRACT, "-", operator.sub),
    (declared.MULTIPLY, "*", operator.mul),
    (declared.DIVIDE, "/", truncated),
    (declared.REMAINDER, "%", lambda a, b: a - b * truncated(a, b)),
]


@pytest.mark.parametrize("type_", [U256, I256], ids=str)
@pytest.mark.parametrize(("kernel", "symbol", "exact"), OPERATIONS, ids=[symbol for _, symbol, _ in OPERATIONS])
def test_whole_numbers_compute_as_pythons_do(type_: Any, kernel: Kernel, symbol: str, exact: Any) -> None:
    layout, chance = held(type_), random.Random(SEED)
    pairs = list(zip(some(type_, 2000, chance), some(type_, 2000, chance), strict=True))
    columns = [from_integers(side, layout) for side in zip(*pairs, strict=True)]
    for (a, b), found in zip(pairs, run(kernel, *columns, types=[type_] * 3), strict=True):
        if symbol in "/%" and b == 0:
            assert outcome(found, type_) == "division by zero"
        elif layout.low <= exact(a, b) <= layout.high:
            assert outcome(found, type_) == exact(a, b)
        else:
            assert outcome(found, type_) == f"{a} {symbol} {b} does not fit into {type_}"


@pytest.mark.parametrize(("kernel", "symbol", "exact"), OPERATIONS, ids=[symbol for _, symbol, _ in OPERATIONS])
def test_decimals_of_different_scales_compute_exactly(kernel: Kernel, symbol: str, exact: Any) -> None:
    left, right = pa.decimal256(60, 4), WideDecimal(90, 7)
    result = WideDecimal(160, {"*": 11, "/": 18}.get(symbol, 7))
    chance = random.Random(SEED)
    pairs = list(zip(some(left, 500, chance), [n or 1 for n in some(right, 500, chance)], strict=True))
    columns = [from_integers([a for a, _ in pairs], held(left)), from_integers([b for _, b in pairs], held(right))]
    for (a, b), found in zip(pairs, run(kernel, *columns, types=[left, right, result]), strict=True):
        x, y = Fraction(a, 10**4), Fraction(b, 10**7)
        values = {"+": x + y, "-": x - y, "*": x * y, "/": x / y, "%": x - y * math.trunc(x / y)}
        assert outcome(found, result) == math.trunc(values[symbol] * 10 ** held(result).scale), (a, b)


def test_operations_with_null_are_null() -> None:
    layout = held(U256)
    assert run(declared.ADD, from_integers([1, None], layout), from_integers([None, 2], layout), types=[U256] * 3) == [
        None,
        None,
    ]


def test_a_failure_propagates_through_further_steps() -> None:
    layout = held(U256)
    failed = run(declared.SUBTRACT, from_integers([5], layout), from_integers([7], layout), types=[U256] * 3)
    again = run(declared.MULTIPLY, pa.array(failed, pa.binary()), from_integers([2], layout), types=[U256] * 3)
    assert outcome(again[0], U256) == "5 - 7 does not fit into u256"


def test_a_failure_is_never_mistaken_for_a_number() -> None:
    width = held(U256).width
    texts = ["x" * length for length in range(60)]
    found = run(declared.PARSE, pa.array(texts), types=[U256])
    assert all(len(value) != width and value.startswith(b"!") for value in found)


def test_signs() -> None:
    layout = held(I256)
    numbers = from_integers([5, -5, 0, layout.low], layout)
    reason = f"({layout.low}) does not fit into i256"
    assert [outcome(v, I256) for v in run(declared.NEGATE, numbers, types=[I256])] == [-5, 5, 0, f"-{reason}"]
    assert [outcome(v, I256) for v in run(declared.ABSOLUTE, numbers, types=[I256])] == [5, 5, 0, f"abs{reason}"]


def test_conversions_round_decimals_and_truncate_to_whole_numbers() -> None:
    decimal, shorter = WideDecimal(80, 3), pa.decimal256(50, 1)
    numbers = from_integers([1250, 1249, -1250, -1999, None], held(decimal))
    assert [outcome(v, shorter) for v in run(declared.CONVERT, numbers, types=[decimal, shorter])] == [
        13,
        12,
        -13,
        -20,
        None,
    ]
    assert [outcome(v, U256) for v in run(declared.CONVERT, numbers, types=[decimal, U256])] == [
        1,
        1,
        "-1 does not fit into u256",
        "-1 does not fit into u256",
        None,
    ]


def test_other_numbers_become_wide_ones() -> None:
    doubles = run(declared.FROM_DOUBLE, pa.array([1e30, -1.9, math.nan, math.inf, None]), types=[I256])
    assert [outcome(v, I256) for v in doubles] == [
        int(1e30),
        -1,
        "nan is not a valid i256",
        "inf is not a valid i256",
        None,
    ]
    decimals = run(declared.FROM_DECIMAL, pa.array(["1.50", "-0.6", "1E+20"]), types=[I256])
    assert [outcome(v, I256) for v in decimals] == [1, 0, 10**20]
    texts = run(declared.PARSE, pa.array(["12", "-1", "x", None]), types=[U256])
    assert [outcome(v, U256) for v in texts] == [12, "-1 does not fit into u256", "'x' is not a number", None]


def test_doubles_are_the_nearest() -> None:
    chance = random.Random(SEED)
    numbers = some(I256, 500, chance)
    assert run(declared.DOUBLE, from_integers(numbers, held(I256)), types=[I256]) == [float(n) for n in numbers]
    decimal = WideDecimal(400, 2)
    found = run(declared.DOUBLE, from_integers([150, -(10**399)], held(decimal)), types=[decimal])
    assert found == [1.5, -math.inf]


def test_json_of_nested_numbers_has_all_digits() -> None:
    type_ = pa.struct([("a", U256), ("b", pa.list_(WideDecimal(100, 2)))])
    rows = [{"a": held(U256).encode(2**256 - 1), "b": [held(WideDecimal(100, 2)).encode(-5), None]}, None]
    column = pa.array(rows, pa.struct([("a", pa.binary()), ("b", pa.list_(pa.binary()))]))
    assert run(declared.JSON, column, types=[type_]) == [f'{{"a":{2**256 - 1},"b":[-0.05,null]}}', None]


def test_numbers_in_json_keep_their_digits() -> None:
    decimal = WideDecimal(80, 30)
    long = "12345678901234567890123456789012345678901234567890.123456789012345678901234567"
    documents = [f'{{"a": {long}}}', f'{{"a": "{long}"}}', '{"a": null}', "{}", "[1]", "broken", '{"a": [1]}', None]
    found = run(declared.MEMBER, pa.array(documents), pa.array(["a"] * len(documents)), types=[decimal])
    number = held(decimal).parse(long)
    assert [outcome(value, decimal) for value in found] == [number, number, *[None] * 4, '["1"] is not a number', None]


def test_empty_arrays_give_empty_arrays() -> None:
    nothing = pa.array([], pa.binary())
    for kernel in declared.FUNCTIONS[0].kernels:
        arithmetic = kernel in {one for one, *_ in OPERATIONS}
        arguments = 2 if arithmetic or kernel == declared.MEMBER else 1
        types = 3 if arithmetic else 2 if kernel == declared.CONVERT else 1
        assert run(kernel, *[nothing] * arguments, types=[U256] * types) == []
