"""Number literals as in DataFusion: 1 is a 64-bit integer and 1.5 a double, where Spark has INT and DECIMAL."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

_INT64 = range(-(2**63), 2**63)


def rewrite_number(node: exp.Literal) -> exp.Expr:
    """A literal with its type; numbers with a point or exponent become doubles. Integers stay bare, because many of
    Spark's functions accept only an INT; see `widen`."""
    if node.is_string:
        return _typed(node, pa.string())
    if node.name.isdigit():
        return _typed(node, pa.int64() if int(node.name) in _INT64 else None)
    double = _typed(_like(node, f"{node.name}D"), pa.float64())
    double.meta["exact"] = node.name
    return double


def type_of(node: exp.Expr) -> pa.DataType | None:
    return node.meta.get("arrow")


def widen(node: exp.Expr) -> exp.Expr:
    """An integer literal as a 64-bit integer, where its type becomes the type of a result."""
    if isinstance(node, exp.Literal) and not node.is_string and node.meta.get("arrow") == pa.int64():
        return _typed(_like(node, f"{node.name}L"), pa.int64())
    return node


def as_exact_decimal(node: exp.Expr) -> exp.Expr:
    """A number with a point as an exact decimal, where it is combined with decimals."""
    return exp.Literal.number(node.meta["exact"]) if "exact" in node.meta else node


def _like(node: exp.Expr, text: str) -> exp.Expr:
    replacement = exp.Var(this=text)
    replacement.meta.update(node.meta)
    return replacement


def _typed(node: exp.Expr, type_: pa.DataType | None) -> exp.Expr:
    node.meta["arrow"] = type_
    return node
