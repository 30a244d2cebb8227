"""Choices between values."""

from __future__ import annotations

from sqlglot import exp

from streamling.sql.inference import group_type, type_of, unified
from streamling.sql.library.declaration import Args, Function, Rewrite, call, fill
from streamling.sql.text_coercion import as_compared, as_results


def _widened(name: str, first: int = 0) -> Rewrite:
    """The result has the common type of the arguments (from ``first`` on); literals beside decimals are exact."""

    def rewrite(args: Args) -> exp.Expr:
        chosen = as_results(args[first:]) if name.startswith("nvl") else as_compared(args[first:], numbers=True)
        if len(args) == 1:
            return args[0]
        rewritten = call(name, *args[:first], *unified(chosen))
        rewritten.meta["arrow"] = group_type(chosen)
        return rewritten

    return rewrite


def _nullif(args: Args) -> exp.Expr:
    """With the common type of both."""
    compared = as_compared(args, numbers=True)
    if type_of(compared[0]) == type_of(compared[1]):
        return fill("nullif({0}, {1})", compared, type_of(compared[0]))
    return fill("if({0} = {1}, NULL, if(true, {0}, {1}))", unified(compared), group_type(compared))


FUNCTIONS = (
    Function("coalesce", "any any*", _widened("coalesce"), "The first that is not NULL.", "coalesce(NULL, 2, 3) = 2"),
    Function(
        "greatest", "any any*", _widened("greatest"), "The largest; NULLs do not count.", "greatest(1, NULL, 3) = 3"
    ),
    Function("least", "any any*", _widened("least"), "The smallest; NULLs do not count.", "least(1, NULL, 3) = 1"),
    Function(
        "nullif",
        "any any",
        _nullif,
        "NULL when both are equal, else the first.",
        "nullif(1, 2) = 1\nnullif(1, 1) IS NULL",
        differs="0.0 and -0.0 are equal, as they are for `=`",
    ),
    Function(
        "nvl",
        "any any",
        _widened("nvl"),
        "The second when the first is NULL.",
        "nvl(NULL, 2) = 2",
        None,
        "ifnull",
        differs="times stay times and decimals keep their digits, DataFusion makes text or doubles of them",
    ),
    Function(
        "nvl2",
        "any any any",
        _widened("nvl2", 1),
        "The second when the first is not NULL, else the third.",
        "nvl2(1, 'a', 'b') = 'a'",
    ),
    Function(
        "if",
        "bool any any",
        _widened("if", 1),
        "The second when the first is true, else the third.",
        "if(1 < 2, 'a', 'b') = 'a'",
    ),
    Function(
        "coalesce_meta",
        "any any*",
        _widened("coalesce"),
        "The first that is not NULL.",
        "coalesce_meta(NULL, 'a') = 'a'",
    ),
)
