"""A SQL text of a pipeline file, parsed once, and everything that is asked about it on the way to Spark's plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from streamling.sql import catalog, rules
from streamling.sql.compiler import Compiled, Inputs, compile_query
from streamling.sql.dialect import deep_recursion, parse, too_deep
from streamling.sql.library.declaration import Function
from streamling.sql.problems import InvalidSql, SqlProblem, TextSpan
from streamling.sql.references import lookup_calls, name_parts, references, resolve_table_names, table_name
from streamling.sql.source_text import Compilation, SourceText, has_place

if TYPE_CHECKING:
    from streamling.sql.source_text import Analyse

#: the time of a batch: users expect that it changes
_TIMES = frozenset({"current_date", "current_time", "current_timestamp", "curdate", "localtimestamp", "now", "today"})
_TIME_SYNTAX = (exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime)
_RANDOM = catalog.VOLATILE - _TIMES


@dataclass(frozen=True)
class Lookup:
    """A reference to a dynamic table in a SQL text."""

    table: str
    call: exp.Expr
    text: SourceText

    def problem(self, message: str, remedy: str) -> SqlProblem:
        return self.text.problem(self.call, message, remedy)


class Statement:
    """One query. Raises `InvalidSql` if the text is not exactly one query that can be parsed. The syntax tree is never
    changed: several threads may compile it."""

    def __init__(self, sql: str) -> None:
        self.sql = sql
        self.query, tokens = parse(sql)
        self.text = SourceText(sql, tokens)
        resolve_table_names(self.query)

    @cached_property
    def nodes(self) -> Mapping[str, int]:
        """The nodes that it reads, as written, with the offset of the first mention."""
        offsets: dict[str, int] = {}
        for table in references(self.query):
            offsets.setdefault(table_name(table), min(part.meta.get("start", 0) for part in name_parts(table)))
        return offsets

    @cached_property
    def lookups(self) -> tuple[Lookup, ...]:
        """Every table that it looks values up in, in text order."""
        calls = [call for call in lookup_calls(self.query) if call.expressions and call.expressions[0].is_string]
        calls.sort(key=lambda call: call.meta.get("start", 0))
        return tuple(Lookup(call.expressions[0].name, call, self.text) for call in calls)

    @cached_property
    def is_repeatable(self) -> bool:
        """Whether the same rows give the same result when it runs again."""
        parts = self.query.find_all(exp.Anonymous, *_TIME_SYNTAX)
        return not any(isinstance(part, _TIME_SYNTAX) or part.name.lower() in catalog.VOLATILE for part in parts)

    def compile(
        self,
        inputs: Inputs,
        *,
        keep_row: bool = False,
        functions: Mapping[str, Function] | None = None,
        analyse: Analyse | None = None,
    ) -> Compiled:
        """Check and rewrite the query. Raises `InvalidSql` for what a stateless transform does not support. If the rows
        are numbered, ``keep_row`` keeps the number (`plan.ROW`) in the output. ``functions`` are those that plugins
        add; they take precedence. With ``analyse``, every type that affects the meaning is determined."""
        try:
            with deep_recursion():
                if self._refused:
                    raise InvalidSql(self._refused)
                compilation = Compilation(self.text, functions or {}, analyse)
                return compile_query(self.query, inputs, compilation, keep_row=keep_row)
        except RecursionError:
            raise InvalidSql([too_deep(self.sql)]) from None

    @cached_property
    def _refused(self) -> list[SqlProblem]:
        return rules.check(self.query, self.text)

    # ── parts that often mean something else than their author wants ────────────────────────────────────────

    def find_stars(self, message: str, remedy: str) -> Iterator[SqlProblem]:
        """Yield each ``*`` of the outermost select lists."""
        for select in _outer_selects(self.query):
            for item in select.expressions:
                if item.is_star:
                    place = self.text.span(item) if has_place(item) else self._star(select)
                    yield self.text.problem(place, message, remedy)

    def _star(self, select: exp.Select) -> TextSpan | None:
        """Return the first ``*`` after the SELECT: the parser stores no place for it."""
        begin = self.text.clause(select, TokenType.SELECT)
        for token in self.text.tokens:
            if token.token_type is TokenType.STAR and (begin is None or token.start >= begin.start):
                return TextSpan(token.start, token.end + 1)
        return begin

    def find_random_calls(self, message: str, remedy: str) -> Iterator[SqlProblem]:
        """Yield each call of a function that is random; ``message`` follows its name."""
        for call in self.query.find_all(exp.Anonymous):
            if call.name.lower() in _RANDOM:
                yield self.text.problem(call, f"{call.name.lower()}{message}", remedy)

    def find_comparisons_with_null(self) -> Iterator[SqlProblem]:
        """Yield ``x = NULL``, which is never true."""
        for comparison in self.query.find_all(exp.EQ, exp.NEQ):
            if any(isinstance(side, exp.Null) for side in (comparison.this, comparison.expression)):
                operator, instead = ("=", "IS NULL") if isinstance(comparison, exp.EQ) else ("<>", "IS NOT NULL")
                yield self.text.problem(comparison, f"a comparison {operator} NULL is never true", f"write {instead}")


def _outer_selects(query: exp.Expr) -> Iterator[exp.Select]:
    match query:
        case exp.Union():
            yield from _outer_selects(query.this)
            yield from _outer_selects(query.expression)
        case exp.Subquery():
            yield from _outer_selects(query.this)
        case exp.Select():
            yield query
