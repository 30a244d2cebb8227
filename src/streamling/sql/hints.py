"""Parts of a valid SQL text that often mean something else than their author wants."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from streamling.sql import catalog
from streamling.sql.dialect import parse, tokenize
from streamling.sql.problems import Span, SqlProblem
from streamling.sql.source_text import SourceText

#: the time of a batch: users expect that it changes
_TIMES = frozenset({"current_date", "current_time", "current_timestamp", "curdate", "localtimestamp", "now", "today"})
_RANDOM = catalog.VOLATILE - _TIMES


def find_stars(sql: str, message: str, remedy: str) -> Iterator[SqlProblem]:
    """Each ``*`` of the outermost select lists."""
    text = SourceText(sql)
    for select in _outer_selects(parse(sql)):
        for item in select.expressions:
            if item.is_star:
                yield text.problem(text.span(item) if _has_place(item) else _star(sql, select, text), message, remedy)


def _has_place(item: exp.Expr) -> bool:
    return any("start" in part.meta for part in item.walk())


def _star(sql: str, select: exp.Select, text: SourceText) -> Span | None:
    """The first ``*`` after the SELECT: the parser stores no place for it."""
    begin = text.clause(select, TokenType.SELECT)
    for token in tokenize(sql):
        if token.token_type is TokenType.STAR and (begin is None or token.start >= begin.start):
            return Span(token.start, token.end + 1)
    return begin


def _outer_selects(query: exp.Expr) -> Iterator[exp.Select]:
    match query:
        case exp.Union():
            yield from _outer_selects(query.this)
            yield from _outer_selects(query.expression)
        case exp.Subquery():
            yield from _outer_selects(query.this)
        case exp.Select():
            yield query


def find_random_calls(sql: str, message: str, remedy: str) -> Iterator[SqlProblem]:
    """Each call of a function that is random; ``message`` follows its name."""
    text = SourceText(sql)
    for call in parse(sql).find_all(exp.Anonymous):
        if call.name.lower() in _RANDOM:
            yield text.problem(call, f"{call.name.lower()}{message}", remedy)


def find_comparisons_with_null(sql: str) -> Iterator[SqlProblem]:
    """``x = NULL``, which is never true."""
    text = SourceText(sql)
    for comparison in parse(sql).find_all(exp.EQ, exp.NEQ):
        if any(isinstance(side, exp.Null) for side in (comparison.this, comparison.expression)):
            operator, instead = ("=", "IS NULL") if isinstance(comparison, exp.EQ) else ("<>", "IS NOT NULL")
            yield text.problem(comparison, f"a comparison {operator} NULL is never true", f"write {instead}")
