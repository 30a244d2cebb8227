"""Locations of parts of the syntax tree in the text, and the problems that a compilation reports there.

sqlglot stores offsets only for names, numbers, strings and calls. Everything else is derived from those: an expression
extends from its first to its last known part, a clause starts at the keyword before its first part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from streamling.sql.problems import SqlProblem, TextSpan, problem_at

if TYPE_CHECKING:
    import pyarrow as pa

    from streamling.sql.library.declaration import Function
    from streamling.sql.plan import Plan

    #: the type of the last of some items (Spark SQL) in a projection of a plan; None if Spark rejects it
    Analyse = Callable[[Plan, Iterable[str]], pa.DataType | None]


@dataclass(frozen=True)
class SourceText:
    """A SQL text with the locations of its parts."""

    sql: str
    tokens: Sequence[Token]

    def span(self, node: exp.Expr) -> TextSpan | None:
        """Return the text from the first to the last part of ``node`` with a known location; that of the parent if
        there is none."""
        return _own_span(node) or (self.span(node.parent) if node.parent else None)

    def clause(self, node: exp.Expr, *keywords: TokenType) -> TextSpan | None:
        """Return the nearest keyword before the first known part of ``node``; that part if there is none."""
        inside = self.span(node)
        if inside is None:
            return None
        before = [t for t in self.tokens if t.start <= inside.start and t.token_type in keywords]
        return TextSpan(before[-1].start, before[-1].end + 1) if before else inside

    def item(self, node: exp.Expr) -> str:
        """Return the user's text for ``node`` of a select list, from comma to comma, on one line."""
        span = _own_span(node)
        if span is None:
            return node.sql(comments=False).lower()
        before = [token for token in self.tokens if token.start < span.start]
        behind = [token for token in self.tokens if token.start >= span.start]
        start = _reach(reversed(before), _CLOSING, _OPENING, span.start, lambda token: token.start)
        end = _reach(behind, _OPENING, _CLOSING, span.end, lambda token: token.end + 1)
        return " ".join(self.sql[start:end].split())

    def whole(self, node: exp.Expr) -> TextSpan | None:
        """Return the user's text for ``node``, extended to balanced brackets; None if no part has a location."""
        span = _own_span(node)
        if span is None:
            return None
        if isinstance(node, exp.Cast):
            span = self._cast(span)
        elif isinstance(node, exp.Case):
            span = self._case(span)
        return TextSpan(span.start, self._closed(span))

    def _cast(self, value: TextSpan) -> TextSpan:
        """Return the value of a cast with the preceding ``CAST(`` or the following ``::type``."""
        before = [token for token in self.tokens if token.end < value.start][-2:]
        if len(before) == 2 and before[0].text.upper() in ("CAST", "TRY_CAST"):
            return TextSpan(before[0].start, value.end)
        end = self._closed(value)
        behind = [token for token in self.tokens if token.start >= end][:2]
        if len(behind) == 2 and behind[0].token_type is TokenType.DCOLON:
            return TextSpan(value.start, behind[1].end + 1)
        return value

    def _case(self, inside: TextSpan) -> TextSpan:
        """Return the text from ``CASE`` to its ``END``, which have no location in the tree."""
        start = next(
            (t.start for t in reversed(self.tokens) if t.token_type is TokenType.CASE and t.start < inside.start), None
        )
        if start is None:
            return inside
        depth = 0
        for token in self.tokens:
            if token.start >= start:
                depth += (token.token_type is TokenType.CASE) - (token.token_type is TokenType.END)
                if depth == 0:
                    return TextSpan(start, token.end + 1)
        return inside

    def _closed(self, span: TextSpan) -> int:
        """Return ``span`` extended to close the brackets that are opened in it, or right after a call's name."""
        inside = [t for t in self.tokens if t.start >= span.start]
        depth, end = 0, span.end
        for token in inside:
            if token.start >= span.end and depth == 0 and token.token_type is not TokenType.L_PAREN:
                break
            depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
            if depth < 0:
                break
            end = max(end, token.end + 1)
        return end

    def problem(self, place: exp.Expr | TextSpan | None, message: str, remedy: str | None = None) -> SqlProblem:
        span = self.whole(place) or self.span(place) if isinstance(place, exp.Expr) else place
        return problem_at(self.sql, span, message, remedy)


@dataclass
class Compilation:
    """What all parts of a compilation share: the text, the functions that plugins add, and the problems so far.
    ``analyse`` asks Spark for types that only it knows, if there is a session."""

    text: SourceText
    functions: Mapping[str, Function]
    analyse: Analyse | None = None
    problems: list[SqlProblem] = field(default_factory=list)

    def report(self, place: exp.Expr, message: str, remedy: str | None = None) -> None:
        self.problems.append(self.text.problem(place, message, remedy))


def place_of(node: exp.Expr) -> dict[str, int]:
    """Return the location of ``node`` as ``meta``: for what replaces ``node`` without its parts."""
    span = _own_span(node)
    return {} if span is None else {"start": span.start, "end": span.end - 1}


def has_place(node: exp.Expr) -> bool:
    return _own_span(node) is not None


def _reach(
    tokens: Iterable[Token],
    deeper: tuple[TokenType, ...],
    back: tuple[TokenType, ...],
    edge: int,
    place: Callable[[Token], int],
) -> int:
    """Return the extent of an item of a select list in one direction: to a comma or clause outside all brackets."""
    depth, previous = 0, None
    for token in tokens:
        kind = token.token_type
        ends = kind in _ENDS and not (kind is TokenType.FROM and previous is TokenType.DISTINCT)
        if depth == 0 and (ends or kind in back):
            break
        depth += (kind in deeper) - (kind in back)
        edge, previous = place(token), kind
    return edge


def _own_span(node: exp.Expr) -> TextSpan | None:
    places = [part.meta for part in node.walk() if "start" in part.meta]
    if not places:
        return None
    return TextSpan(min(place["start"] for place in places), max(place["end"] for place in places) + 1)


_ENDS = (TokenType.COMMA, TokenType.SELECT, TokenType.FROM)
_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)
