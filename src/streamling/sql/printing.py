"""Prints rewritten expressions as Spark SQL.

User text reaches Spark as a quoted literal or a quoted name, never as SQL: the printer accepts a fixed set of nodes and
rejects all others, and `check_emitted` reads its output once more.
"""

from __future__ import annotations

import re

from sqlglot import exp
from sqlglot.dialects.spark import Spark

from streamling.spark.sql_text import literal
from streamling.sql import catalog

#: the nodes of a rewritten expression. Finished Spark SQL (from templates of the function library) is in `exp.Var`; the
#: rewriter accepts no `exp.Var` from the parser.
_PRINTABLE: frozenset[type[exp.Expr]] = frozenset(
    {
        exp.Add, exp.Alias, exp.All, exp.And, exp.Anonymous, exp.Any, exp.Array, exp.Between, exp.BitwiseAnd,
        exp.BitwiseNot, exp.BitwiseOr, exp.BitwiseXor, exp.Boolean, exp.Bracket, exp.Case, exp.Cast, exp.Column,
        exp.CurrentDate, exp.CurrentTime, exp.CurrentTimestamp, exp.DPipe, exp.Div, exp.Dot, exp.EQ, exp.Escape,
        exp.GT, exp.GTE, exp.HexString, exp.ILike, exp.Identifier, exp.If, exp.In, exp.IntDiv, exp.Is, exp.LT, exp.LTE,
        exp.Lambda, exp.Like, exp.Literal, exp.Mod, exp.Mul, exp.NEQ, exp.Neg, exp.Not, exp.Null, exp.NullSafeEQ,
        exp.NullSafeNEQ, exp.Or, exp.Paren, exp.RegexpLike, exp.Star, exp.Sub, exp.TryCast, exp.Tuple, exp.Var,
    }
)  # fmt: skip


#: Spark accepts none of these as an operand of another one, or of a comparison, without parentheses
_PREDICATES = (
    *(exp.Between, exp.Escape, exp.ILike, exp.In, exp.Is, exp.Like, exp.Not, exp.NullSafeEQ, exp.NullSafeNEQ),
    exp.RegexpLike,
)


def _needs_brackets(node: str | exp.Expr | None) -> bool:
    if not isinstance(node, _PREDICATES) or not isinstance(node.parent, exp.Between | exp.Binary | exp.In):
        return False
    is_pattern = isinstance(node.parent, exp.Escape) and node.arg_key == "this"  # x LIKE y, before ESCAPE z
    return not isinstance(node.parent, exp.Connector) and not is_pattern


class Unprintable(Exception):
    """A node without a rule for Spark SQL."""

    def __init__(self, node: exp.Expr) -> None:
        super().__init__(type(node).__name__)
        self.node = node


class _Emitted(Spark):
    """Spark's dialect with our quoting."""

    class Generator(Spark.Generator):  # type: ignore[misc,valid-type]
        def sql(self, expression: str | exp.Expr | None, key: str | None = None, comment: bool = True) -> str:
            if isinstance(expression, exp.Expr) and key is None and type(expression) not in _PRINTABLE:
                raise Unprintable(expression)
            text = str(super().sql(expression, key, comment))
            return f"({text})" if key is None and _needs_brackets(expression) else text

        def literal_sql(self, expression: exp.Literal) -> str:
            return literal(expression.name) if expression.is_string else str(expression.this)

        def currentdate_sql(self, expression: exp.CurrentDate) -> str:
            return "current_date()"  # as a call, so that a session can replace the function


def spark_sql(node: exp.Expr) -> str:
    """Return ``node`` as Spark SQL, with all names quoted. Raises `Unprintable`."""
    return node.sql(_Emitted, comments=False, identify=True)


#: strings, quoted names, numbers, words, and operator characters
_TOKEN = re.compile(
    r"""(?P<quoted>'(?:[^'\\]|\\.)*'|`(?:[^`]|``)*`)
      |(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?:[LDF]|BD)?\b)
      |(?P<word>[A-Za-z_]\w*)
      |(?P<bad>--|/\*)
      |(?P<sign>[-()\[\]<>,.=!+*/%&|^~:\s])""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_BRACKET = re.compile(r"\s*\(")
#: words that may precede a parenthesis without being a function
_KEYWORDS = frozenset(
    {
        "all", "and", "any", "array", "as", "between", "boolean", "case", "cast", "date", "decimal", "distinct", "div",
        "else", "end", "escape", "from", "ilike", "in", "interval", "is", "like", "map", "not", "or", "rlike", "struct",
        "then", "time", "timestamp", "timestamp_ltz", "timestamp_ntz", "try_cast", "when",
    }
)  # fmt: skip
#: valid only inside a query, or refer to things outside the expression by name
_QUERY_WORDS = frozenset({"identifier", "lateral", "select", "table", "union", "using", "values", "with"})
_CALLABLE = catalog.SCALARS | catalog.GENERATORS | _KEYWORDS


def check_emitted(text: str) -> str | None:
    """Return the first thing in a text that is not part of an expression over columns, literals and reviewed functions;
    None: nothing."""
    place, previous = 0, ""
    while place < len(text):
        token = _TOKEN.match(text, place)
        if token is None or token["bad"]:
            return text[place : place + 20]
        place, word = token.end(), (token["word"] or "").lower()
        if word in _QUERY_WORDS or (word == "from" and previous != "distinct"):
            return word.upper()
        if word and _BRACKET.match(text, place) and not is_callable(word):
            return f"{word}()"
        if word or not token[0].isspace():
            previous = word
    return None


def is_callable(name: str) -> bool:
    return name in _CALLABLE or name.startswith(catalog.KERNEL_PREFIX)
