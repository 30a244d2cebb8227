"""Conditions over rows, in a small part of SQL.

A condition is parsed, never run as SQL: it may contain columns (`address.city` for a field of a struct), literals,
`AND`, `OR`, `NOT`, comparisons, `IN`, `BETWEEN`, `LIKE`, `ILIKE`, `IS NULL`, arithmetic, and the functions `lower`,
`upper`, `length`, `abs` and `coalesce`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from streamling.errors import StreamlingError

if TYPE_CHECKING:
    from sqlglot import exp

#: a value of a condition: one per row, or the same for all
Value = Any
Evaluate = Callable[[pa.RecordBatch], Value]


def compile_condition(text: str) -> Evaluate:
    """Return the function that evaluates a condition for a batch; raises a user error if it is invalid."""
    try:
        return _compile(_parse(text))
    except RecursionError:
        raise StreamlingError.user("the filter has too many conditions") from None


def _parse(condition: str) -> exp.Expr:
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        return sqlglot.parse_one(condition, dialect="spark")
    except (SqlglotError, RecursionError) as error:
        reason = str(error).splitlines()[0]
        raise StreamlingError.user(f"the filter cannot be read: {reason}") from None


def _compile(node: exp.Expr) -> Evaluate:
    """Return the function that computes ``node`` for a batch."""
    compile_node = _rules().get(type(node).__name__)
    if compile_node is None:
        raise StreamlingError.user(
            f"the filter contains '{node.sql('spark')}', which is not supported here",
            remedy="use comparisons, AND, OR, NOT, IN, BETWEEN, LIKE, IS NULL and arithmetic",
        )
    evaluate = compile_node(node)
    return _inverted(evaluate) if node.args.get("negate") else evaluate


def _inverted(evaluate: Evaluate) -> Evaluate:
    def inverted(batch: pa.RecordBatch) -> Value:
        import pyarrow.compute as pc

        return pc.invert(evaluate(batch))

    return inverted


def _rules() -> Mapping[str, Callable[[Any], Evaluate]]:
    return {
        "Paren": lambda node: _compile(node.this),
        "Column": _column,
        "Dot": _column,
        "Identifier": _column,
        "Literal": _literal,
        "Boolean": lambda node: _constant(pa.scalar(bool(node.this))),
        "Null": lambda node: _constant(pa.scalar(None)),
        "Neg": lambda node: _call("negate", node.this),
        "And": lambda node: _call("and_kleene", node.left, node.right),
        "Or": lambda node: _call("or_kleene", node.left, node.right),
        "Not": lambda node: _call("invert", node.this),
        "Is": lambda node: _call("is_null", node.this),
        **{name: _comparison(function) for name, function in _COMPARISONS.items()},
        **{name: _binary(function) for name, function in _ARITHMETIC.items()},
        "Between": _between,
        "In": _in,
        "Like": lambda node: _like(node, ignore_case=False),
        "ILike": lambda node: _like(node, ignore_case=True),
        "Lower": lambda node: _call("utf8_lower", node.this),
        "Upper": lambda node: _call("utf8_upper", node.this),
        "Length": lambda node: _call("utf8_length", node.this),
        "Abs": lambda node: _call("abs", node.this),
        "Coalesce": lambda node: _call("coalesce", node.this, *node.expressions),
    }


_COMPARISONS: Final = {
    "EQ": "equal",
    "NEQ": "not_equal",
    "GT": "greater",
    "GTE": "greater_equal",
    "LT": "less",
    "LTE": "less_equal",
}
_ARITHMETIC: Final = {"Add": "add", "Sub": "subtract", "Mul": "multiply", "Div": "divide"}


def _constant(value: Value) -> Evaluate:
    return lambda batch: value


def _literal(node: Any) -> Evaluate:
    if node.is_string:
        return _constant(pa.scalar(str(node.this)))
    text = str(node.this)
    return _constant(pa.scalar(int(text) if text.isdigit() else float(text)))


def _column(node: Any) -> Evaluate:
    path = [part.name for part in node.parts] if hasattr(node, "parts") else [node.name]

    def evaluate(batch: pa.RecordBatch) -> Value:
        import pyarrow.compute as pc

        found = _named(batch, path[0])
        return pc.struct_field(found, path[1:]) if len(path) > 1 else found

    return evaluate


def _named(batch: pa.RecordBatch, name: str) -> pa.Array:
    """Return a column; names are compared as SQL does, without regard to case."""
    names = batch.schema.names
    match = name if name in names else next((each for each in names if each.lower() == name.lower()), None)
    if match is None:
        raise StreamlingError.user(
            f"the filter names the column '{name}', which the rows do not have", remedy=f"columns: {', '.join(names)}"
        )
    return batch.column(match)


def _call(function: str, *operands: Any) -> Evaluate:
    evaluated = [_compile(operand) for operand in operands]

    def evaluate(batch: pa.RecordBatch) -> Value:
        import pyarrow.compute as pc

        return pc.call_function(function, [each(batch) for each in evaluated])

    return evaluate


def _binary(function: str) -> Callable[[Any], Evaluate]:
    return lambda node: _call(function, node.left, node.right)


def _comparison(function: str) -> Callable[[Any], Evaluate]:
    def compile_node(node: Any) -> Evaluate:
        left, right = _compile(node.left), _compile(node.right)

        def evaluate(batch: pa.RecordBatch) -> Value:
            import pyarrow.compute as pc

            return pc.call_function(function, list(_comparable(left(batch), right(batch))))

        return evaluate

    return compile_node


def _comparable(left: Value, right: Value) -> tuple[Value, Value]:
    """Give a literal the type of what it is compared with, as in `time > '2026-01-01'`."""
    if isinstance(right, pa.Scalar) and not isinstance(left, pa.Scalar):
        return left, _as_type(right, left.type)
    if isinstance(left, pa.Scalar) and not isinstance(right, pa.Scalar):
        return _as_type(left, right.type), right
    return left, right


def _as_type(value: pa.Scalar[Any], wanted: pa.DataType) -> pa.Scalar[Any]:
    is_text = pa.types.is_string(value.type)
    if not is_text or pa.types.is_string(wanted) or pa.types.is_large_string(wanted):
        return value
    if pa.types.is_timestamp(wanted) and wanted.tz is not None:
        time = datetime.fromisoformat(value.as_py())
        return pa.scalar(time if time.tzinfo is not None else time.replace(tzinfo=UTC), wanted)
    return pa.array([value.as_py()]).cast(wanted)[0]


def _between(node: Any) -> Evaluate:
    from sqlglot import exp

    low = exp.GTE(this=node.this, expression=node.args["low"])
    return _compile(exp.And(this=low, expression=exp.LTE(this=node.this, expression=node.args["high"])))


def _in(node: Any) -> Evaluate:
    from sqlglot import exp

    if not node.expressions:
        raise StreamlingError.user("the filter contains IN without a list of values")
    condition: Any = None
    for value in node.expressions:
        equal = exp.EQ(this=node.this, expression=value)
        condition = equal if condition is None else exp.Or(this=condition, expression=equal)
    return _compile(condition)


def _like(node: Any, *, ignore_case: bool) -> Evaluate:
    value = _compile(node.this)
    if not node.expression.is_string:
        raise StreamlingError.user("the pattern of LIKE must be a quoted text")
    pattern = str(node.expression.this)

    def evaluate(batch: pa.RecordBatch) -> Value:
        import pyarrow.compute as pc

        return pc.match_like(value(batch), pattern, ignore_case=ignore_case)

    return evaluate
