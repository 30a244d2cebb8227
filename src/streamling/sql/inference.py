"""Types of operators, and the operators whose meaning depends on types.

None means that only Spark knows the type. A wrong guess would be worse than none: every rule here holds in both Spark
and DataFusion, or is enforced by the rewriting.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce

import pyarrow as pa
from sqlglot import exp

from streamling.sql import decimals
from streamling.sql.casts import from_decimal
from streamling.sql.fragments import as_exact_decimal, cast_node, type_of, typed, widen

TIMESTAMP_UTC = pa.timestamp("us", "UTC")
_WIDTHS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_NAMES = ("TINYINT", "SMALLINT", "INT", "BIGINT")
#: types whose values fit into a FLOAT, and doubles, which are only rounded
_ALL_IN_A_SINGLE = (pa.int8(), pa.int16(), pa.float32(), pa.float64(), pa.string(), pa.bool_(), pa.null())
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.Div, exp.Neg)
_FIXED: dict[type[exp.Expr], pa.DataType] = {
    exp.Null: pa.null(),
    exp.Boolean: pa.bool_(),
    exp.Not: pa.bool_(),
    exp.Between: pa.bool_(),
    exp.In: pa.bool_(),
    exp.CurrentTimestamp: TIMESTAMP_UTC,
    exp.CurrentDate: pa.date32(),
    exp.CurrentTime: pa.time64("us"),
    exp.DPipe: pa.string(),
}


def annotate(node: exp.Expr) -> exp.Expr:
    """Return ``node``, or its equivalent in Spark, with its type stored. Its parts are rewritten."""
    if isinstance(node, _ARITHMETIC) and all(type_of(part) == pa.null() for part in node.iter_expressions()):
        # Spark's is a DOUBLE, which makes doubles of integers
        return annotate(exp.Null()) if isinstance(node, exp.Neg) else cast_node(exp.Null(), "BIGINT", pa.int64())
    if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Mod | exp.Div):
        node = _arithmetic(node)
    elif isinstance(node, exp.BitwiseAnd | exp.BitwiseOr | exp.BitwiseXor):
        node = _bitwise(node)
    elif isinstance(node, exp.Neg) and decimals.is_decimal(type_of(node.this)):
        return decimals.negated(node.this)
    elif isinstance(node, exp.Neg | exp.Paren):
        node.meta["arrow"] = type_of(node.this)
    elif isinstance(node, exp.Case):
        _case(node)
    elif isinstance(node, exp.Array):
        _array(node)
    elif isinstance(node, exp.Predicate | exp.Connector):
        if isinstance(node, exp.Binary):
            left, right = unified([node.this, node.expression])
            node.set("this", left)
            node.set("expression", right)
        node.meta["arrow"] = pa.bool_()
    elif type(node) in _FIXED:
        node.meta["arrow"] = _FIXED[type(node)]
    if isinstance(node, exp.DPipe) and not all(_texty(side) for side in (node.this, node.expression)):
        node.meta["arrow"] = None  # lists and binary are concatenated as they are
    return node


#: operators whose meaning does not depend on the types of their parts, and parts that have none
_INDIFFERENT = (
    exp.Connector, exp.Not, exp.Paren, exp.Alias, exp.If, exp.Is, exp.Tuple, exp.Star, exp.Ordered, exp.Slice,
)  # fmt: skip
_UNTYPED = (
    exp.Lambda, exp.DataType, exp.Interval, exp.Star, exp.Identifier, exp.If, exp.Slice, exp.Alias, exp.Tuple,
    exp.PropertyEQ, exp.Kwarg, exp.Literal, exp.Null,
)  # fmt: skip


def untyped(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the operands of ``node`` whose unknown type may affect its meaning."""
    if isinstance(node, _INDIFFERENT):
        return
    operands = [node.expression] if isinstance(node, exp.Extract) else list(node.iter_expressions())
    if isinstance(node, exp.Case):
        operands += [branch.args["true"] for branch in node.args["ifs"]]
        operands += [branch.this for branch in node.args["ifs"] if node.this]
    yield from (part for part in operands if _is_unknown(part))


def _is_unknown(part: exp.Expr) -> bool:
    return type_of(part) is None and "span" not in part.meta and not isinstance(part, _UNTYPED)


def common(types: list[pa.DataType | None]) -> pa.DataType | None:
    """Return the type that values of all these types are converted to, if it is certain."""
    return reduce(_wider, types) if types else None


def unified(group: list[exp.Expr]) -> list[exp.Expr]:
    """Return the nodes as they are combined: beside decimals literals are exact, beside FLOATs integers become
    FLOAT."""
    if any(pa.types.is_decimal(type_of(node) or pa.null()) for node in group):
        return [as_exact_decimal(node) for node in group]
    if are_singles(map(type_of, group)):
        return [as_single(node) if type_of(node) in _WIDTHS else node for node in group]
    return group


def group_type(group: list[exp.Expr]) -> pa.DataType | None:
    """Return the common type of the group."""
    types = [type_of(node) for node in group]
    if are_singles(map(type_of, group)):
        return pa.float32()
    mixed_decimals = len(set(types)) > 1 and any(pa.types.is_decimal(type_ or pa.null()) for type_ in types)
    return None if mixed_decimals else common(types)


def _wider(left: pa.DataType | None, right: pa.DataType | None) -> pa.DataType | None:
    if left == right or right == pa.null():
        return left
    if left == pa.null():
        return right
    if left in _WIDTHS and right in _WIDTHS:
        return max(left, right, key=_WIDTHS.index)
    if pa.float64() in (left, right) and all(_number(side) for side in (left, right)):
        return pa.float64()
    return None


def _number(type_: pa.DataType | None) -> bool:
    return type_ is not None and (
        pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)
    )


def _texty(node: exp.Expr) -> bool:
    type_ = type_of(node)
    return type_ is not None and (pa.types.is_string(type_) or _number(type_) or pa.types.is_boolean(type_))


def _arithmetic(node: exp.Binary) -> exp.Expr:
    left, right = type_of(node.this), type_of(node.expression)
    result = common([left, right])
    if decimals.are_decimals(left, right):
        return decimals.arithmetic(node)
    if isinstance(node, exp.Sub) and left == right == pa.date32():  # days; Spark returns an interval
        return _days(node)
    if result in _WIDTHS:
        node.set("this", widen(node.this))
        node.set("expression", widen(node.expression))
        if isinstance(node, exp.Div):  # 7 / 2 is 3; Spark's / returns 3.5
            node = exp.IntDiv(this=node.this, expression=node.expression)
            result = pa.int64()
    elif pa.float32() in (left, right) and all(map(_single_or_exact, (left, right))):
        return _single(node)
    elif result == pa.float64() or (_moment(left) and "span" in node.expression.meta):
        result = result or left
    else:
        result = None
    node.meta["arrow"] = result
    return node


def _days(node: exp.Sub) -> exp.Expr:
    days = exp.Anonymous(this="datediff", expressions=[node.this, node.expression])
    return cast_node(days, "BIGINT", pa.int64())


def _single_or_exact(type_: pa.DataType | None) -> bool:
    return type_ == pa.float32() or type_ in _WIDTHS or decimals.is_decimal(type_)


def _single(node: exp.Binary) -> exp.Expr:
    """Make the result of two FLOATs, or of one and an integer or decimal, a FLOAT. Spark would return a DOUBLE."""
    for side in ("this", "expression"):
        if type_of(node.args[side]) != pa.float32():
            node.set(side, as_single(node.args[side]))
    if isinstance(node, exp.Div):
        return as_single(node)
    node.meta["arrow"] = pa.float32()
    return node


def as_single(node: exp.Expr, cast: str = "CAST") -> exp.Expr:
    """Return a cast to FLOAT. If it becomes a DOUBLE next, Spark's optimizer removes a cast of an integer or decimal,
    and with it the rounding; subtracting zero keeps it, and the sign of -0.0 too."""
    made = cast_node(node, "FLOAT", pa.float32(), cast)
    if type_of(node) not in _ALL_IN_A_SINGLE:
        return typed(exp.Paren(this=exp.Sub(this=made, expression=exp.Var(this="0F"))), pa.float32())
    return made


def are_singles(types: Iterable[pa.DataType | None]) -> bool:
    """Return whether only FLOATs and integers are combined."""
    found = set(types)
    return pa.float32() in found and found <= {pa.float32(), pa.null(), *_WIDTHS}


def _bitwise(node: exp.Binary) -> exp.Expr:
    """Infer a bitwise operation: beside an integer, a double or decimal loses its fraction."""
    for side, other in (("this", "expression"), ("expression", "this")):
        wanted = type_of(node.args[other])
        if wanted in _WIDTHS and _has_fraction(type_of(node.args[side])):
            value, spelling = node.args[side], _NAMES[_WIDTHS.index(wanted)]
            node.set(side, from_decimal(value, spelling, wanted) or cast_node(value, spelling, wanted))
    result = common([type_of(node.this), type_of(node.expression)])
    if result in _WIDTHS:
        node.set("this", widen(node.this))
        node.set("expression", widen(node.expression))
        node.meta["arrow"] = result
    return node


def _has_fraction(type_: pa.DataType | None) -> bool:
    return type_ is not None and bool(pa.types.is_floating(type_) or decimals.is_decimal(type_))


def _moment(type_: pa.DataType | None) -> bool:
    return type_ is not None and pa.types.is_timestamp(type_)


def _case(node: exp.Case) -> None:
    results = [branch.args["true"] for branch in node.args["ifs"]]
    results += [node.args["default"]] if node.args.get("default") else []
    node.meta["arrow"] = group_type(results)
    for branch in () if node.this else node.args["ifs"]:
        if type_of(branch.this) == pa.null():
            branch.set("this", cast_node(branch.this, "BOOLEAN", pa.bool_()))
    written = [widen(result) for result in unified(results)]
    for branch, result in zip(node.args["ifs"], written, strict=False):
        branch.set("true", result)
    if node.args.get("default"):
        node.set("default", written[-1])


def _array(node: exp.Array) -> None:
    node.set("expressions", [widen(element) for element in node.expressions])
    element = common([type_of(element) for element in node.expressions])
    node.meta["arrow"] = None if element is None else pa.list_(element)
