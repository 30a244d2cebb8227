"""Parts of rewritten expressions: literals, casts, calls and finished Spark SQL.

The Arrow type of a part is in its ``meta["arrow"]``; without it, only Spark knows the type.
"""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter
from typing import Any

import pyarrow as pa
from sqlglot import exp

from streamling.sql.printing import spark_sql

Args = list[exp.Expr]
#: characters of one expression for Spark; some functions repeat their arguments
_MAX_CHARACTERS = 1_000_000
_INT64 = range(-(2**63), 2**63)


class UnsupportedSql(Exception):
    """Raised by a rewrite that cannot express a node for Spark; it becomes a problem at ``place``, by default the
    whole node."""

    def __init__(self, message: str, remedy: str | None = None, place: exp.Expr | None = None) -> None:
        super().__init__(message)
        self.remedy = remedy
        self.place = place


def type_of(node: exp.Expr) -> pa.DataType | None:
    return node.meta.get("arrow")


def typed(node: exp.Expr, type_: pa.DataType | None) -> exp.Expr:
    """Return ``node`` with its type."""
    node.meta["arrow"] = type_
    return node


def finished(sql: str, type_: pa.DataType | None, meta: Mapping[str, Any] | None = None) -> exp.Expr:
    """Return finished Spark SQL as a node; ``meta`` is that of the node it replaces."""
    made = exp.Var(this=sql)
    made.meta.update(meta or {})
    return typed(made, type_)


def call(name: str, *args: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(args))


def fill(template: str, args: Args, type_: pa.DataType | None = None) -> exp.Expr:
    """Return a template filled with the arguments as Spark SQL. ``{{`` is a brace."""
    spelled = [_spelled(arg) for arg in args]
    parts = []
    for literal, place, _, _ in Formatter().parse(template):
        parts.append(literal)
        if place is not None:
            parts.append(", ".join(spelled) if place == "*" else spelled[int(place)])
    if sum(map(len, parts)) > _MAX_CHARACTERS:
        remedy = "compute parts of it in a subquery, or in an earlier sql transform"
        raise UnsupportedSql("the expression is nested too deeply and becomes too long for Spark", remedy)
    filled = exp.Var(this="".join(parts))
    if type_ is not None:
        filled.meta["arrow"] = type_
    return filled


#: needs no parentheses in any expression; everything else does
_ATOMS = (
    *(exp.Anonymous, exp.Array, exp.Boolean, exp.Case, exp.Cast, exp.Column, exp.DataType, exp.Lambda, exp.Literal),
    *(exp.Null, exp.Paren),
)


def _spelled(arg: exp.Expr) -> str:
    text = spark_sql(arg)
    is_word = isinstance(arg, exp.Var) and text.isidentifier()
    return text if is_word or isinstance(arg, _ATOMS) else f"({text})"


def literal_text(arg: exp.Expr) -> str | None:
    """Return the value of a text literal."""
    return arg.name if isinstance(arg, exp.Literal) and arg.is_string else None


def cast_node(value: exp.Expr, spelling: str, type_: pa.DataType, cast: str = "CAST") -> exp.Expr:
    """Return Spark's own ``cast(value AS spelling)``; ``cast`` is CAST or TRY_CAST."""
    to = exp.Var(this=spelling)
    made = exp.TryCast(this=value, to=to, safe=True) if cast == "TRY_CAST" else exp.Cast(this=value, to=to)
    return typed(made, type_)


def rewrite_number(node: exp.Literal) -> exp.Expr:
    """Return a literal with its type; numbers with a point or exponent become doubles. Integers stay bare, because many
    of Spark's functions accept only an INT; see `widen`."""
    if node.is_string:
        return typed(node, pa.string())
    if node.name.isdigit():
        return typed(node, pa.int64() if int(node.name) in _INT64 else None)
    double = finished(f"{node.name}D", pa.float64(), node.meta)
    double.meta["exact"] = node.name
    return double


def widen(node: exp.Expr) -> exp.Expr:
    """Return an integer literal as a 64-bit integer, where its type becomes the type of a result."""
    if isinstance(node, exp.Literal) and not node.is_string and node.meta.get("arrow") == pa.int64():
        return finished(f"{node.name}L", pa.int64(), node.meta)
    return node


def as_exact_decimal(node: exp.Expr) -> exp.Expr:
    """Return a number with a point as an exact decimal, where it is combined with decimals."""
    return exp.Literal.number(node.meta["exact"]) if "exact" in node.meta else node
