"""Comparisons of decimals that have no common type of 38 digits.

Spark first converts both sides to one type, and fails if a value does not fit: DECIMAL(38, 0) and DECIMAL(38, 18). One
side then has more digits before the point, the other one more after it. The latter is rounded to the digits of the
former, in the direction that does not change the result of the comparison: ``w > f`` for whole ``w`` is ``w >
floor(f)``. Comparisons that fit into 38 digits are left to Spark.
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from streamling.sql.decimals import Size, size, wider
from streamling.sql.library.declaration import Args, fill
from streamling.sql.literals import type_of
from streamling.sql.source_text import place_of
from streamling.types.wide.layout import SPARK_DIGITS

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


def exact(node: exp.Expr) -> exp.Expr:
    """``node``, or an equivalent comparison where Spark would fail. Its parts are rewritten and typed."""
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
    """``left sign right``."""
    return _rounded(sign, left, right) or fill(f"({{0}} {sign} {{1}})", [left, right], pa.bool_())


def fit_together(values: Args) -> bool:
    """Whether Spark has a type for the digits of all these values, or does not look for a decimal one."""
    return not _split(values[0], values[1:])[1]


def _split(value: exp.Expr, others: Args) -> tuple[Args, Args]:
    """The others that share a type of 38 digits with ``value`` and each other, and the rest."""
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
    """None if Spark's own comparison has enough digits."""
    if fit_together([left, right]):
        return None
    (_, scale), (_, other_scale) = _sized(left), _sized(right)
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
    """``CASE x WHEN y`` as ``CASE WHEN x = y``."""
    branches = node.args["ifs"]
    if all(fit_together([node.this, branch.this]) for branch in branches):
        return
    for branch in branches:
        branch.set("this", compared("=", node.this, branch.this))
    node.set("this", None)


def _sized(node: exp.Expr) -> Size:
    found = size(node)
    assert found is not None, node
    return found
