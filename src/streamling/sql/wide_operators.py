"""Operators over wide numbers: comparisons become Spark's over bytes, everything else a kernel.

The parts of a node are already rewritten, and their types are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from streamling.sql import typenames
from streamling.sql.decimals import quotient_scale
from streamling.sql.fragments import UnsupportedSql, finished, type_of, typed
from streamling.sql.library.declaration import Kernel
from streamling.sql.library.wide_numbers import ABSOLUTE, ADD, DIVIDE, MULTIPLY, NEGATE, REMAINDER, SUBTRACT, call
from streamling.sql.printing import spark_sql
from streamling.sql.source_text import SourceText, place_of
from streamling.sql.wide_values import (
    cast,
    cast_out,
    common_type,
    computed,
    constant,
    operand_type,
    size,
    text_of,
    to_wide,
    wide_decimal,
)
from streamling.types.wide.layout import SPARK_DIGITS, U256, WideInteger, contains_wide, is_wide

_ARITHMETIC: dict[type[exp.Expr], Kernel] = {
    exp.Add: ADD,
    exp.Sub: SUBTRACT,
    exp.Mul: MULTIPLY,
    exp.Div: DIVIDE,
    exp.IntDiv: DIVIDE,
    exp.Mod: REMAINDER,
}
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
#: digits after the point of a quotient of decimals
_QUOTIENT_SCALE = 18
_TO_TEXT = "cast it first, for example CAST(x AS TEXT)"
#: parts of the language that accept any value
_INDIFFERENT = (exp.Paren, exp.Alias, exp.If, exp.Is, exp.Bracket, exp.Tuple, exp.Null, exp.Not, exp.And, exp.Or)


@dataclass(frozen=True)
class WideNumbers:
    """Rewrites nodes that involve wide numbers."""

    text: SourceText

    def rewrite(self, node: exp.Expr) -> exp.Expr | None:
        """Return the equivalent of ``node`` in Spark; None if it does not involve wide numbers. Raises
        `UnsupportedSql`."""
        if isinstance(node, exp.Cast):
            return _placed(self._cast(node), node)
        parts = [part for part in node.iter_expressions() if contains_wide(type_of(part))]
        if isinstance(node, exp.Case):
            parts += [part for branch in node.args["ifs"] for part in (branch.this, branch.args["true"])]
            parts = [part for part in parts if contains_wide(type_of(part))]
        if not parts or isinstance(node, exp.Anonymous):
            return None
        return _placed(self._operator(node), node)

    def where(self, node: exp.Expr) -> str:
        """Return the user's text, for errors at run time."""
        span = self.text.whole(node)
        written = spark_sql(node) if span is None else self.text.sql[span.start : span.end]
        return " ".join(written.replace("`", "").split())

    # ── operators ───────────────────────────────────────────────────────────────────────────────────────────

    def _operator(self, node: exp.Expr) -> exp.Expr | None:
        if type(node) in _ARITHMETIC and isinstance(node, exp.Binary):
            return self.arithmetic(_ARITHMETIC[type(node)], node.this, node.expression, node)
        if isinstance(node, _COMPARISONS):
            return typed(self._together(node, ["this", "expression"]), pa.bool_())
        if isinstance(node, exp.Between):
            return typed(self._together(node, ["this", "low", "high"]), pa.bool_())
        if isinstance(node, exp.In):
            return self._in(node)
        if isinstance(node, exp.Neg):
            return self.negated(node.this, node)
        if isinstance(node, exp.Case):
            return self._case(node)
        if isinstance(node, exp.DPipe):
            for side in ("this", "expression"):
                node.set(side, self.as_text(node.args[side]))
            return None
        if isinstance(node, exp.Array):
            return self.array(node.expressions, node)
        if isinstance(node, _INDIFFERENT):
            return None
        raise UnsupportedSql(f"{self.where(node)} is not supported for {_first_type(node)}", _TO_TEXT)

    def arithmetic(self, kernel: Kernel, left: exp.Expr, right: exp.Expr, node: exp.Expr) -> exp.Expr:
        where, sides = self.where(node), (left, right)
        types = [operand_type(side, other) for side, other in (sides, sides[::-1])]
        result = _result(kernel, [type_of(side) for side in sides], types)
        values = [to_wide(side, type_, where, unchecked=True) for side, type_ in zip(sides, types, strict=True)]
        return computed(call(kernel, *values, types=[*types, result]), result, where)

    def decimal_quotient(self, node: exp.Div) -> exp.Expr:
        """Return the quotient of two decimals with up to 38 digits that needs more digits to compute than to store."""
        where, sides = self.where(node), (node.this, node.expression)
        types = [wide_decimal(*_size_of(type_of(side))) for side in sides]
        digits = quotient_scale(type_of(node.this))
        result = wide_decimal(*_size_of(types[0]))
        result = wide_decimal(result.precision - result.scale + types[1].scale, digits)
        values = [to_wide(side, type_, where, unchecked=True) for side, type_ in zip(sides, types, strict=True)]
        quotient = computed(call(DIVIDE, *values, types=[*types, result]), result, where)
        spelling, type_ = f"DECIMAL({SPARK_DIGITS}, {digits})", pa.decimal128(SPARK_DIGITS, digits)
        return finished(cast_out(quotient, type_, spelling, where, or_null=False), type_, place_of(node))

    def negated(self, value: exp.Expr, node: exp.Expr) -> exp.Expr:
        type_ = type_of(value)
        if type_ == U256:
            raise UnsupportedSql("u256 has no negative numbers", "cast it, for example -CAST(x AS I256)")
        where = self.where(node)
        return computed(call(NEGATE, to_wide(value, type_, where, unchecked=True), types=[type_]), type_, where)

    def absolute(self, value: exp.Expr, node: exp.Expr) -> exp.Expr:
        type_, where = type_of(value), self.where(node)
        if type_ == U256:
            return value
        return computed(call(ABSOLUTE, to_wide(value, type_, where, unchecked=True), types=[type_]), type_, where)

    def values(self, nodes: Sequence[exp.Expr], node: exp.Expr) -> tuple[list[exp.Expr], pa.DataType]:
        """Return all nodes converted to one type."""
        if any(contains_wide(type_of(one)) and not is_wide(type_of(one)) for one in nodes):
            types = {type_of(one) for one in nodes} - {pa.null()}
            if len(types) > 1 or None in types:
                raise UnsupportedSql(
                    f"{self.where(node)} is not supported for {_first_type(node)}", "cast the parts first"
                )
            return list(nodes), types.pop()
        type_, where = common_type(nodes), self.where(node)
        return [finished(to_wide(one, type_, where), type_, place_of(one)) for one in nodes], type_

    def array(self, elements: Sequence[exp.Expr], node: exp.Expr) -> exp.Expr:
        values, type_ = self.values(elements, node)
        return finished(f"array({', '.join(map(spark_sql, values))})", pa.list_(type_), place_of(node))

    def as_text(self, node: exp.Expr) -> exp.Expr:
        """Return a wide number as its digits; everything else unchanged."""
        return (
            finished(text_of(node, self.where(node)), pa.string(), place_of(node)) if is_wide(type_of(node)) else node
        )

    def _together(self, node: exp.Expr, names: Sequence[str]) -> exp.Expr:
        values, _ = self.values([node.args[name] for name in names], node)
        for name, value in zip(names, values, strict=True):
            node.set(name, value)
        return node

    def _in(self, node: exp.In) -> exp.Expr:
        [value, *listed], _ = self.values([node.this, *node.expressions], node)
        node.set("this", value)
        node.set("expressions", listed)
        return typed(node, pa.bool_())

    def _case(self, node: exp.Case) -> exp.Expr | None:
        branches, default = node.args["ifs"], node.args.get("default")
        if contains_wide(type_of(node.this) if node.this else None):
            [value, *compared], _ = self.values([node.this, *(branch.this for branch in branches)], node)
            node.set("this", value)
            for branch, one in zip(branches, compared, strict=True):
                branch.set("this", one)
        results = [branch.args["true"] for branch in branches] + ([default] if default else [])
        if not any(contains_wide(type_of(result)) for result in results):
            return None
        values, type_ = self.values(results, node)
        for branch, one in zip(branches, values, strict=False):
            branch.set("true", one)
        if default:
            node.set("default", values[-1])
        node.meta["arrow"] = type_
        return node

    # ── casts ───────────────────────────────────────────────────────────────────────────────────────────────

    def _cast(self, node: exp.Cast) -> exp.Expr | None:
        known = typenames.spark_type(node.to)
        if known is None:
            return None
        return self.cast(node.this, known, node, or_null=isinstance(node, exp.TryCast))

    def cast(
        self, value: exp.Expr, known: tuple[str, pa.DataType], node: exp.Expr, *, or_null: bool = False
    ) -> exp.Expr | None:
        """Return ``CAST(value AS known)``; None if no wide number is involved."""
        spelling, type_ = known
        found = type_of(value)
        if not contains_wide(type_) and not contains_wide(found):
            return None
        if found == type_:
            return finished(spark_sql(value), type_, place_of(node))
        if (contains_wide(type_) and not is_wide(type_)) or (contains_wide(found) and not is_wide(found)):
            raise UnsupportedSql(f"there is no cast from {found} to {type_}", "cast the values inside one by one")
        if is_wide(type_):
            return finished(self._into(value, type_, node, or_null), type_, place_of(node))
        return finished(cast_out(value, type_, spelling, self.where(node), or_null=or_null), type_, place_of(node))

    def _into(self, value: exp.Expr, type_: pa.DataType, node: exp.Expr, or_null: bool) -> str:
        if constant(value) is not None and not or_null:
            return to_wide(value, type_, self.where(node))
        return cast(value, type_, self.where(node), or_null=or_null)


def _result(kernel: Kernel, found: Sequence[pa.DataType | None], types: Sequence[pa.DataType]) -> pa.DataType:
    """Return the type of ``left kernel right``."""
    wide = {type_ for type_ in found if is_wide(type_)}
    if all(isinstance(type_, WideInteger) for type_ in wide):
        if len(wide) > 1:
            raise UnsupportedSql("u256 and i256 cannot be combined", "cast one of them, for example CAST(x AS I256)")
        return wide.pop()
    (left, left_scale), (right, right_scale) = (_size_of(type_) for type_ in types)
    scale = max(left_scale, right_scale)
    if kernel == MULTIPLY:
        return wide_decimal(left + right, left_scale + right_scale)
    if kernel == DIVIDE:
        return wide_decimal(left + right_scale, max(_QUOTIENT_SCALE, scale))
    if kernel == REMAINDER:
        return wide_decimal(min(left, right), scale)
    return wide_decimal(max(left, right) + 1, scale)


def _size_of(type_: pa.DataType) -> tuple[int, int]:
    stand_in = exp.Var(this="")
    stand_in.meta["arrow"] = type_
    found = size(stand_in)
    assert found is not None, type_
    return found


def _placed(rewritten: exp.Expr | None, node: exp.Expr) -> exp.Expr | None:
    if rewritten is not None and rewritten is not node:
        rewritten.meta.update(place_of(node))
    return rewritten


def _first_type(node: exp.Expr) -> str:
    return str(next(type_of(part) for part in node.walk() if contains_wide(type_of(part))))
