"""The nodes that a SQL expression may contain. Everything else is rejected, not passed on to Spark."""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from streamling.sql.fragments import UnsupportedSql, call

_ONE, _TWO = frozenset({"this"}), frozenset({"this", "expression"})
_LISTED = frozenset({"this", "expressions"})
_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)

#: node → the parts it may have
_PARTS: dict[type[exp.Expr], frozenset[str]] = {
    **dict.fromkeys(
        (
            exp.Add, exp.And, exp.BitwiseAnd, exp.BitwiseLeftShift, exp.BitwiseOr, exp.BitwiseRightShift,
            exp.BitwiseXor, exp.Dot, exp.EQ, exp.Escape, exp.Extract, exp.GT, exp.GTE, exp.IntDiv, exp.Is,
            exp.LT, exp.LTE, exp.Mod, exp.Mul, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Or, exp.PropertyEQ,
            exp.RegexpILike, exp.RegexpLike, exp.SimilarTo, exp.Sub,
        ),
        _TWO,
    ),
    **dict.fromkeys((exp.All, exp.Any, exp.BitwiseNot, exp.Neg, exp.Not, exp.Paren), _ONE),
    **dict.fromkeys((exp.Boolean, exp.ByteString, exp.HexString, exp.National, exp.RawString), _ONE),
    **dict.fromkeys((exp.CurrentDate, exp.CurrentTime, exp.CurrentTimestamp, exp.CurrentUser, exp.Null), frozenset()),
    **dict.fromkeys((exp.ILike, exp.Like), _TWO | {"negate"}),
    exp.Alias: frozenset({"this", "alias"}),
    exp.Anonymous: _LISTED,
    exp.Array: frozenset({"expressions", "bracket_notation"}),
    exp.Between: frozenset({"this", "low", "high", "symmetric"}),
    exp.Bracket: _LISTED,
    exp.Case: frozenset({"this", "ifs", "default"}),
    exp.Cast: frozenset({"this", "to", "safe"}),
    exp.Column: frozenset({"this", "table", "db", "catalog"}),
    exp.Concat: frozenset({"expressions", "safe", "coalesce"}),
    exp.Div: _TWO | {"typed", "safe"},
    exp.DPipe: _TWO | {"safe"},
    exp.Identifier: frozenset({"this", "quoted"}),
    exp.If: frozenset({"this", "true"}),
    exp.In: _LISTED,
    exp.Interval: frozenset({"this", "unit"}),
    exp.Lambda: _LISTED,
    exp.Literal: frozenset({"this", "is_string"}),
    exp.Overlay: frozenset({"this", "expression", "from_", "for_"}),
    exp.Slice: _TWO | {"step"},
    exp.Star: frozenset(),
    exp.StrPosition: frozenset({"this", "substr"}),
    exp.Struct: frozenset({"expressions"}),
    exp.Substring: frozenset({"this", "start", "length"}),
    exp.Trim: frozenset({"this", "expression", "position"}),
    exp.TryCast: frozenset({"this", "to", "safe"}),
    exp.Tuple: frozenset({"expressions"}),
}  # fmt: skip
_INSTEAD: dict[type[exp.Expr], str] = {
    exp.AtTimeZone: "write from_utc_timestamp(x, 'zone')",
    exp.Collate: "write lower(x) to compare ignoring case",
    exp.JSONExtract: "write json_query(x, '$.path')",
    exp.JSONExtractScalar: "write json_value(x, '$.path')",
    exp.Kwarg: "write the arguments in order, without names",
}
_NAMES: dict[type[exp.Expr], str] = {
    exp.JSONExtract: "->",
    exp.JSONExtractScalar: "->>",
    exp.Kwarg: "a named argument",
    exp.Var: "this word",
}


def check_syntax(node: exp.Expr) -> None:
    """Raise `UnsupportedSql` for a node, or a part of one, that is not listed."""
    parts = _PARTS.get(type(node))
    if parts is None:
        name = _NAMES.get(type(node)) or re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(node).__name__).upper()
        raise UnsupportedSql(f"{name} is not supported", _INSTEAD.get(type(node)))
    if isinstance(node, exp.Literal) and not node.is_string and not _NUMBER.fullmatch(node.name):
        raise UnsupportedSql(f"{node.name} is not a number", "such as 1, 1.5 or 1e3")
    for key, value in node.args.items():
        if value and key not in parts:
            raise UnsupportedSql(f"{key.strip('_').upper()} is not supported", "remove it")
    if isinstance(node, exp.In) and not node.expressions:
        raise UnsupportedSql("IN has no values", "write x IN (1, 2)")


def plain(node: exp.Expr) -> exp.Expr:
    """Return the canonical form of an alternative syntax."""
    make = _PLAIN.get(type(node))
    if make is None:
        return node
    made = make(node)
    made.meta.update(node.meta)
    return made


def _text(node: exp.Expr) -> exp.Expr:
    return exp.Literal.string(node.name)


def _joined(node: exp.Expr) -> exp.Expr:
    """Concatenate adjacent texts: ``'a' 'b'``."""
    if not all(isinstance(part, exp.Literal) and part.is_string for part in node.expressions):
        raise UnsupportedSql("there is no operator between two values", "join them with ||")
    return exp.Literal.string("".join(part.name for part in node.expressions))


def _named_struct(node: exp.Expr) -> exp.Expr:
    """Translate ``{'a': 1}``."""
    parts: list[exp.Expr] = []
    for part in node.expressions:
        if not isinstance(part, exp.PropertyEQ) or not isinstance(part.this, exp.Identifier):
            raise UnsupportedSql("a field of the struct has no name", "write {'name': value}")
        parts += [exp.Literal.string(part.this.name), part.expression]
    return call("named_struct", *parts)


_PLAIN: dict[type[exp.Expr], Callable[[exp.Expr], exp.Expr]] = {
    exp.ByteString: _text,
    exp.National: _text,
    exp.RawString: _text,
    exp.Concat: _joined,
    exp.Struct: _named_struct,
    exp.SimilarTo: lambda node: exp.RegexpLike(this=node.this, expression=node.expression),
    exp.CurrentUser: lambda node: call("current_user"),
}
