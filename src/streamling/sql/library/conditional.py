"""Choices between values."""

from __future__ import annotations

from sqlglot import exp

from streamling.sql.coercion import as_compared, as_results
from streamling.sql.decimals import compared, fit_together
from streamling.sql.fragments import Args, call, fill, type_of
from streamling.sql.inference import group_type, unified
from streamling.sql.library.declaration import Function, Rewrite

_ORDER = {"least": "<=", "greatest": ">="}


def _widened(name: str, first: int = 0) -> Rewrite:
    """Give the result the common type of the arguments (from ``first`` on); literals beside decimals are exact."""

    def rewrite(args: Args) -> exp.Expr:
        chosen = as_results(args[first:]) if name.startswith("nvl") else as_compared(args[first:], numbers=True)
        if len(args) == 1:
            return args[0]
        rewritten = _extreme(name, unified(chosen)) or call(name, *args[:first], *unified(chosen))
        rewritten.meta["arrow"] = group_type(chosen)
        return rewritten

    return rewrite


def _extreme(name: str, args: Args) -> exp.Expr | None:
    """Return ``least`` or ``greatest`` of decimals without a common type of 38 digits: only the chosen value is cast to
    the type of the result. None for everything else, which is left to Spark's own functions."""
    if name not in _ORDER or fit_together(args):
        return None
    values, branches = list(args), []
    for number, chosen in enumerate(args[:-1]):
        wins = [compared(_ORDER[name], chosen, other) for other in (*args[:number], *args[number + 1 :])]
        conditions = "".join(f" AND coalesce({{{len(values) + place}}}, true)" for place in range(len(wins)))
        branches.append(f"WHEN {{{number}}} IS NOT NULL{conditions} THEN {{{number}}}")
        values += wins
    return fill(f"CASE {' '.join(branches)} ELSE {{{len(args) - 1}}} END", values)


def _nullif(args: Args) -> exp.Expr:
    """Translate ``nullif``, with the common type of both arguments."""
    values = as_compared(args, numbers=True)
    if type_of(values[0]) == type_of(values[1]):
        return fill("nullif({0}, {1})", values, type_of(values[0]))
    written = unified(values)
    equal = compared("=", *written)
    return fill("if({2}, NULL, if(true, {0}, {1}))", [*written, equal], group_type(values))


FUNCTIONS = (
    Function(
        "coalesce", "any any*", _widened("coalesce"), "The first value that is not NULL.", "coalesce(NULL, 2, 3) = 2"
    ),
    Function(
        "greatest", "any any*", _widened("greatest"), "The largest value, ignoring NULLs.", "greatest(1, NULL, 3) = 3"
    ),
    Function("least", "any any*", _widened("least"), "The smallest value, ignoring NULLs.", "least(1, NULL, 3) = 1"),
    Function(
        "nullif",
        "any any",
        _nullif,
        "NULL if both are equal, otherwise the first.",
        "nullif(1, 2) = 1\nnullif(1, 1) IS NULL",
        differs="0.0 and -0.0 are equal, as with `=`",
    ),
    Function(
        "nvl",
        "any any",
        _widened("nvl"),
        "The second if the first is NULL.",
        "nvl(NULL, 2) = 2",
        None,
        "ifnull",
        differs=("times stay times and decimals keep their digits; DataFusion converts them to text or doubles"),
    ),
    Function(
        "nvl2",
        "any any any",
        _widened("nvl2", 1),
        "The second if the first is not NULL, otherwise the third.",
        "nvl2(1, 'a', 'b') = 'a'",
    ),
    Function(
        "if",
        "bool any any",
        _widened("if", 1),
        "The second if the first is true, otherwise the third.",
        "if(1 < 2, 'a', 'b') = 'a'",
    ),
    Function(
        "coalesce_meta",
        "any any*",
        _widened("coalesce"),
        "The first value that is not NULL.",
        "coalesce_meta(NULL, 'a') = 'a'",
    ),
)
