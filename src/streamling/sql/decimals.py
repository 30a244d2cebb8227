"""Decimals with up to 38 digits, with DataFusion's result types: exact, or an error at run time.

Sums and products are Spark's own with the settings of `streamling.spark.jvm.settings`, which keep every digit after the
point. What Spark computes differently is expressed here.

Before a comparison, Spark converts both sides to one type, and fails if a value does not fit: DECIMAL(38, 0) and
DECIMAL(38, 18). One side then has more digits before the point, the other one more after it. The latter is rounded to
the digits of the former, in the direction that does not change the result of the comparison: ``w > f`` for whole ``w``
is ``w > floor(f)``. Comparisons that fit into 38 digits are left to Spark.
"""

from __future__ import annotations

import re

import pyarrow as pa
from sqlglot import exp

from streamling.sql.fragments import Args, UnsupportedSql, cast_node, fill, finished, type_of
from streamling.sql.printing import spark_sql
from streamling.sql.source_text import place_of
from streamling.types.wide.layout import SPARK_DIGITS

#: maximum digits of integer types
_INTEGERS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 20}
#: Spark negates through a Scala number of 34 digits and rounds the rest away
_NEGATED_EXACTLY = 34
#: digits that a quotient has after those of the dividend
_QUOTIENT_DIGITS = 4

#: integers, also as `widen` writes them, and exact decimals; Spark turns those with an exponent into doubles
_NUMBER = re.compile(r"0*(?:(\d+)L?|(\d*)\.(\d*))", re.ASCII)

#: digits, and how many of them are after the point
Size = tuple[int, int]


def is_decimal(type_: pa.DataType | None) -> bool:
    """Return whether it is a decimal that Spark supports."""
    return type_ is not None and bool(pa.types.is_decimal(type_)) and type_.precision <= SPARK_DIGITS


def are_decimals(left: pa.DataType | None, right: pa.DataType | None) -> bool:
    """Return whether an operator over these types computes with decimals."""
    return (is_decimal(left) or is_decimal(right)) and None not in (_size(left), _size(right))


def size(node: exp.Expr) -> Size | None:
    """Return the size of a decimal or integer; for a literal the digits it has. None for everything else."""
    value = node
    while isinstance(value, exp.Paren | exp.Neg):
        value = value.this
    is_number = isinstance(value, exp.Var) or (isinstance(value, exp.Literal) and not value.is_string)
    number = _NUMBER.fullmatch(value.name) if is_number else None
    if number is None:
        return _size(type_of(node))
    whole, digits = len(number[1] or number[2] or ""), len(number[3] or "")
    return (whole + digits, digits) if whole + digits <= SPARK_DIGITS else None


def wider(left: Size, right: Size) -> Size:
    """Return the size that fits all digits of both; it may exceed Spark's limit."""
    scale = max(left[1], right[1])
    return max(left[0] - left[1], right[0] - right[1]) + scale, scale


def arithmetic(node: exp.Binary) -> exp.Expr:
    """Return ``left + right`` and so on, where one side is a decimal and the other a decimal or an integer."""
    left, right = _as_decimal(node.this), _as_decimal(node.expression)
    if isinstance(node, exp.Div):
        return _quotient(left, _as_divisor(node.expression))
    node.set("this", left)
    node.set("expression", right)
    node.meta["arrow"] = _decimal(*_result(node, _sized(left), _sized(right)))
    return node


def negated(value: exp.Expr) -> exp.Expr:
    type_ = type_of(value)
    assert type_ is not None
    made: exp.Expr = exp.Neg(this=value)
    if type_.precision > _NEGATED_EXACTLY:
        zero = _cast(exp.Literal.number(0), type_)
        made = _cast(exp.Sub(this=zero, expression=exp.Paren(this=value)), type_)
    made.meta["arrow"] = type_
    return made


def quotient_scale(dividend: pa.DataType | None) -> int:
    """Return digits after the point of a quotient."""
    _, scale = _size(dividend) or (0, 0)
    return min(scale + _QUOTIENT_DIGITS, SPARK_DIGITS)


def divides_natively(node: exp.Div) -> bool:
    """Return whether Spark's 38 digits are enough to compute a quotient; always true if no decimal is involved."""
    left, right = type_of(node.this), type_of(node.expression)
    return not are_decimals(left, right) or _division(_as_decimal(node.this), _as_divisor(node.expression)) is not None


def _quotient(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    sql = _division(left, right)
    assert sql is not None, "`divides_natively` is checked before"
    return finished(sql, _quotient_type(left, right))


def _quotient_type(left: exp.Expr, right: exp.Expr) -> pa.DataType:
    (precision, scale), (_, other_scale) = _sized(left), _sized(right)
    digits = quotient_scale(type_of(left))
    return _decimal(precision + digits - scale + other_scale, digits)


def _division(left: exp.Expr, right: exp.Expr) -> str | None:
    """Return a quotient truncated four digits after those of the dividend, as Spark SQL: the dividend without its
    remainder is divided, which leaves no further digits. None if Spark has no type for it: its own quotient is rounded
    to half of the digits after the point."""
    (precision, scale), (other, other_scale) = _sized(left), _sized(right)
    result = _quotient_type(left, right)
    moved = result.scale + other_scale  # digits after the point of a dividend that divides without a remainder
    if moved > SPARK_DIGITS:
        return None
    x = _spelled_cast(left, min(SPARK_DIGITS, precision - scale + moved), moved)
    y = f"({spark_sql(right)})"
    even = f"({x} - {x} % ({y} * {_power(-result.scale)}))"
    whole, digits = _spark_quotient((min(SPARK_DIGITS, precision - scale + moved + 1), moved), (other, other_scale))
    if digits >= result.scale and whole >= result.precision - result.scale:
        return f"CAST({even} / {y} AS DECIMAL({result.precision}, {result.scale}))"
    whole, _ = _spark_quotient((SPARK_DIGITS, 0), (other, 0))
    if whole < result.precision:
        return None
    units = f"CAST({even} * {_power(moved)} AS DECIMAL({SPARK_DIGITS}, 0))"
    divisor = f"CAST({y} * {_power(other_scale)} AS DECIMAL({other}, 0))"
    quotient = f"CAST({units} / {divisor} AS DECIMAL({result.precision}, 0))"
    return f"CAST({quotient} * {_power(-result.scale)} AS DECIMAL({result.precision}, {result.scale}))"


def _spark_quotient(left: Size, right: Size) -> tuple[int, int]:
    """Return digits before and after the point of Spark's own quotient."""
    whole = min(SPARK_DIGITS, left[0] - left[1] + right[1])
    digits = min(SPARK_DIGITS, max(6, left[1] + right[0] + 1))
    excess = whole + digits - SPARK_DIGITS
    if excess <= 0:
        return whole, digits
    digits -= excess // 2 + 1
    return SPARK_DIGITS - digits, digits


def _power(exponent: int) -> str:
    """Return a power of ten as a decimal with the minimum number of digits."""
    size = f"{exponent + 1}, 0" if exponent >= 0 else f"{-exponent}, {-exponent}"
    return f"CAST('1E{exponent}' AS DECIMAL({size}))"


def _spelled_cast(node: exp.Expr, precision: int, scale: int) -> str:
    return f"CAST({spark_sql(node)} AS DECIMAL({precision}, {scale}))"


def _result(node: exp.Binary, left: Size, right: Size) -> Size:
    (precision, scale), (other, other_scale) = left, right
    if isinstance(node, exp.Mul):
        if scale + other_scale > SPARK_DIGITS:
            raise UnsupportedSql(
                (
                    f"the product has {scale + other_scale} digits after the point, but a DECIMAL has at most "
                    f"{SPARK_DIGITS}"
                ),
                f"cast one side, to fewer digits or to a wide decimal such as DECIMAL({precision + other}, {scale})",
            )
        return precision + other + 1, scale + other_scale
    most = max(scale, other_scale)
    if isinstance(node, exp.Mod):
        return min(precision - scale, other - other_scale) + most, most
    return max(precision - scale, other - other_scale) + most + 1, most


def _as_decimal(side: exp.Expr) -> exp.Expr:
    """Return an integer as a decimal that fits all values of its type: for Spark, a literal has as many digits as are
    written."""
    type_ = type_of(side)
    return side if type_ not in _INTEGERS else _cast(side, _decimal(_INTEGERS[type_], 0))


def _as_divisor(side: exp.Expr) -> exp.Expr:
    """Return a literal with only the digits it has: the fewer, the more are left for the quotient."""
    if isinstance(side, exp.Literal) and type_of(side) in _INTEGERS:
        return _cast(side, _decimal(len(side.name), 0))
    return _as_decimal(side)


def _size(type_: pa.DataType | None) -> Size | None:
    if is_decimal(type_):
        assert type_ is not None
        return type_.precision, type_.scale
    return (_INTEGERS[type_], 0) if type_ in _INTEGERS else None


def _sized(node: exp.Expr) -> Size:
    found = _size(type_of(node))
    assert found is not None, node
    return found


def _cast(node: exp.Expr, type_: pa.DataType) -> exp.Expr:
    return cast_node(node, f"DECIMAL({type_.precision}, {type_.scale})", type_)


def _decimal(precision: int, scale: int) -> pa.DataType:
    return pa.decimal128(min(precision, SPARK_DIGITS), scale)


_SIGNS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}
#: the coarse side ``{0}`` compared with the fine side, rounded down ``{1}`` and up ``{2}``, which are the same if it
#: has no further digits
_ROUNDED = {
    "=": "({0} BETWEEN {2} AND {1})",
    "<>": "({0} NOT BETWEEN {2} AND {1})",
    ">": "({0} > {1})",
    ">=": "({0} >= {2})",
    "<": "({0} < {2})",
    "<=": "({0} <= {1})",
    "IS NOT DISTINCT FROM": "({0} <=> {1} AND {0} <=> {2})",
    "IS DISTINCT FROM": "(NOT ({0} <=> {1} AND {0} <=> {2}))",
}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def exact_comparison(node: exp.Expr) -> exp.Expr:
    """Return ``node``, or an equivalent comparison where Spark would fail. Its parts are rewritten and typed."""
    made: exp.Expr | None = None
    if type(node) in _SIGNS:
        made = _rounded(_SIGNS[type(node)], node.this, node.expression)
    elif isinstance(node, exp.Between):
        made = _between(node.this, node.args["low"], node.args["high"])
    elif isinstance(node, exp.In):
        made = _in(node.this, node.expressions)
    elif isinstance(node, exp.Case) and node.this:
        _case(node)
    if made is None:
        return node
    made.meta.update({**place_of(node), "arrow": pa.bool_()})
    return made


def compared(sign: str, left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Return ``left sign right``."""
    return _rounded(sign, left, right) or fill(f"({{0}} {sign} {{1}})", [left, right], pa.bool_())


def fit_together(values: Args) -> bool:
    """Return whether Spark has a type for the digits of all these values, or does not look for a decimal one."""
    return not _split(values[0], values[1:])[1]


def _split(value: exp.Expr, others: Args) -> tuple[Args, Args]:
    """Return the others that share a type of 38 digits with ``value`` and each other, and the rest."""
    sizes = [size(one) for one in (value, *others)]
    if any(found is None and type_of(one) != pa.null() for one, found in zip((value, *others), sizes, strict=True)):
        return others, []
    together: Args = []
    apart: Args = []
    common = sizes[0] or (0, 0)
    for other, found in zip(others, sizes[1:], strict=True):
        needed = wider(common, found or (0, 0))
        if needed[0] > SPARK_DIGITS:
            apart.append(other)
        else:
            together.append(other)
            common = needed
    return together, apart


def _rounded(sign: str, left: exp.Expr, right: exp.Expr) -> exp.Expr | None:
    """Return None if Spark's own comparison has enough digits."""
    if fit_together([left, right]):
        return None
    (_, scale), (_, other_scale) = _size_of(left), _size_of(right)
    if scale > other_scale:
        return _rounded(_MIRRORED.get(sign, sign), right, left)
    floor, ceil = (fill(f"{name}({{0}}, {scale})", [right]) for name in ("floor", "ceil"))
    return fill(_ROUNDED[sign], [left, floor, ceil], pa.bool_())


def _between(value: exp.Expr, low: exp.Expr, high: exp.Expr) -> exp.Expr | None:
    if fit_together([value, low]) and fit_together([value, high]):
        return None
    return fill("({0} AND {1})", [compared(">=", value, low), compared("<=", value, high)])


def _in(value: exp.Expr, listed: Args) -> exp.Expr | None:
    together, apart = _split(value, listed)
    if not apart:
        return None
    tests = [compared("=", value, one) for one in apart]
    if together:
        places = ", ".join(f"{{{number}}}" for number in range(1, len(together) + 1))
        tests.insert(0, fill(f"{{0}} IN ({places})", [value, *together]))
    return fill(f"({' OR '.join(f'{{{number}}}' for number in range(len(tests)))})", tests)


def _case(node: exp.Case) -> None:
    """Rewrite ``CASE x WHEN y`` as ``CASE WHEN x = y``."""
    branches = node.args["ifs"]
    if all(fit_together([node.this, branch.this]) for branch in branches):
        return
    for branch in branches:
        branch.set("this", compared("=", node.this, branch.this))
    node.set("this", None)


def _size_of(node: exp.Expr) -> Size:
    found = size(node)
    assert found is not None, node
    return found
