"""Integers of 256 bits and decimals of more than 38 digits. Operators, casts and literals support them too."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from sqlglot import exp

from streamling.spark.sql_text import literal
from streamling.sql.fragments import Args
from streamling.sql.library.declaration import Function, Kernel
from streamling.types.names import arrow_type_name
from streamling.types.wide.layout import FAILED, I256, U256, Layout


def _kernel(name: str, returns: str = "binary") -> Kernel:
    return Kernel(f"wide.{name}", returns, "streamling.types.wide.kernels")


ADD = _kernel("add")
SUBTRACT = _kernel("sub")
MULTIPLY = _kernel("mul")
DIVIDE = _kernel("div")
REMAINDER = _kernel("mod")
NEGATE = _kernel("neg")
ABSOLUTE = _kernel("absolute")
CONVERT = _kernel("convert")
PARSE = _kernel("parse")
FROM_DOUBLE = _kernel("from_double")
FROM_DECIMAL = _kernel("from_decimal")
MEMBER = _kernel("member")
TEXT = _kernel("text", "string")
JSON = _kernel("json_text", "string")
DOUBLE = _kernel("double", "double")
_KERNELS = (
    ADD, SUBTRACT, MULTIPLY, DIVIDE, REMAINDER, NEGATE, ABSOLUTE, CONVERT, PARSE, FROM_DOUBLE, FROM_DECIMAL, MEMBER,
    TEXT, JSON, DOUBLE,
)  # fmt: skip


def call(kernel: Kernel, *arguments: str, types: Iterable[pa.DataType]) -> str:
    """Return a kernel over SQL arguments."""
    names = (literal(arrow_type_name(type_)) for type_ in types)
    return f"{kernel.spark_name}({', '.join([*arguments, *names])})"


def checked(value: str, layout: Layout, instead: str) -> str:
    """Return the result of a kernel; ``instead`` if it failed."""
    return f"IF(length({value}) <> {layout.width}, {instead}, {value})"


def failure(value: str) -> str:
    """Return why a kernel failed."""
    return f"trim(substring(CAST({value} AS STRING), {len(FAILED) + 1}))"


def failed(why: str, layout: Layout) -> str:
    """Return the result of a kernel that fails because of ``why`` (SQL)."""
    text = f"concat('{FAILED.decode()}', {why})"
    return f"CAST(rpad({text}, {2 * layout.width + 64}, ' ') AS BINARY)"  # never as long as a number


def _before(args: Args) -> exp.Expr:
    """Raise: `streamling.sql.wide_functions` has rewritten the call: errors at run time name the location in the
    text."""
    raise AssertionError("calls with wide numbers are rewritten before functions are looked up")


def _function(name: str, takes: str, summary: str, examples: str, result: pa.DataType | None = None) -> Function:
    return Function(name, takes, _before, summary, examples, result, uses=_KERNELS)


def _operation(name: str, what: str, example: str) -> tuple[Function, Function]:
    unsigned, signed = f"u256_{name}", f"i256_{name}"
    description = f"{what}; an error if it does not fit."
    return (
        _function(unsigned, "number number", description, f"{unsigned}({example}", U256),
        _function(signed, "number number", description, f"{signed}({example}", I256),
    )


_HIGHEST = 2**256 - 1

FUNCTIONS = (
    _function(
        "to_u256", "any", "Converts to u256, from text also with `0x`; an error if it is invalid.",
        f"u256_to_string(to_u256('{_HIGHEST}')) = '{_HIGHEST}'\nto_u256('0xff') = 255", U256,
    ),
    _function(
        "to_i256", "any", "Converts to i256, from text also with `0x`; an error if it is invalid.",
        "i256_to_string(to_i256('-5')) = '-5'", I256,
    ),
    _function("u256_to_string", "number", "All digits.", "u256_to_string(7) = '7'", pa.string()),
    _function("i256_to_string", "number", "All digits.", "i256_to_string(-7) = '-7'", pa.string()),
    *_operation("add", "The sum, like `+`", "1, 2) = 3"),
    *_operation("sub", "The difference, like `-`", "3, 2) = 1"),
    *_operation("mul", "The product, like `*`", "3, 2) = 6"),
    *_operation("div", "The quotient rounded towards zero, like `/`", "7, 2) = 3"),
    *_operation("mod", "The remainder, with the sign of the first, like `%`", "7, 2) = 1"),
    _function("i256_neg", "number", "Negates a number, like `-x`.", "i256_neg(5) = -5", I256),
    _function("i256_abs", "number", "Absolute value, like `abs`.", "i256_abs(-5) = 5", I256),
    _function(
        "to_decimal_arb_from_string", "text int int",
        "Converts text to a decimal with precision and scale, like `CAST(text AS DECIMAL(100, 20))`.",
        "to_decimal_arb_from_string('1.5', 100, 20) = 1.5",
    ),
    _function(
        "decimal_arb_to_string", "number", "All digits of a decimal of more than 38 digits.",
        "decimal_arb_to_string(CAST('1.5' AS DECIMAL(40, 1))) = '1.5'", pa.string(),
    ),
    Function(
        "decimal_arb_to_sort_key", "number", _before, "Bytes that sort like the numbers.",
        "decimal_arb_to_sort_key(CAST(1 AS DECIMAL(40, 1))) > decimal_arb_to_sort_key(CAST(-1 AS DECIMAL(40, 1)))",
        pa.binary(),
    ),
    _function(
        "to_int64", "any", "Converts to BIGINT; an error if it does not fit.",
        "to_int64('12') = 12\nto_int64(to_u256(12)) = 12", pa.int64(),
    ),
)  # fmt: skip
