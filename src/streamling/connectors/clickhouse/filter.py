"""Checks the filter of a source, which becomes part of the queries."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from streamling.errors import StreamlingError


@dataclass(frozen=True)
class QueryFilter:
    """A condition in ClickHouse SQL that cannot end its parentheses."""

    text: str

    @classmethod
    def parse(cls, text: str) -> QueryFilter:
        """Check that ``text`` is one expression as far as brackets, quotes and comments are concerned. The server
        checks the rest."""
        from sqlglot.errors import TokenError
        from sqlglot.tokenizer_core import TokenType

        try:
            tokens = _tokens(text)
        except TokenError as error:
            raise _invalid("a quote or a comment is not closed") from error
        pairs = {
            TokenType.L_PAREN: TokenType.R_PAREN,
            TokenType.L_BRACKET: TokenType.R_BRACKET,
            TokenType.L_BRACE: TokenType.R_BRACE,
        }
        opened = []
        for token in tokens:
            if token.token_type == TokenType.SEMICOLON:
                raise _invalid("it contains a semicolon")
            if token.token_type in pairs:
                opened.append(pairs[token.token_type])
            elif token.token_type in pairs.values() and (not opened or opened.pop() != token.token_type):
                raise _invalid(f"'{token.text}' closes nothing")
        if opened or not tokens:
            raise _invalid("a bracket is not closed" if opened else "it is empty")
        return cls(text)

    @property
    def sql(self) -> str:
        """The condition in parentheses, on lines of its own: a comment at its end must not hide what follows."""
        return f"(\n{self.text}\n)"

    def uses_only(self, columns: Collection[str]) -> bool:
        """Return whether the condition certainly depends on nothing but these columns: it compares them with
        constants."""
        from sqlglot import exp, parse_one
        from sqlglot.errors import SqlglotError

        try:
            nodes = list(parse_one(self.text, dialect="clickhouse").walk())
        except SqlglotError:
            return False
        comparisons = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between, exp.In, exp.Is)
        parts = (exp.And, exp.Or, exp.Not, exp.Paren, exp.Tuple, exp.Literal, exp.Null, exp.Boolean, exp.Neg)
        if not all(isinstance(node, (*comparisons, *parts, exp.Column, exp.Identifier)) for node in nodes):
            return False
        return all(node.name in columns for node in nodes if isinstance(node, exp.Column))


def _tokens(text: str) -> list[Any]:
    from sqlglot.dialects.clickhouse import ClickHouse

    # a line comment that swallows the closing parenthesis would go unnoticed without a second line
    return ClickHouse().tokenize(f"{text}\n")


def _invalid(reason: str) -> StreamlingError:
    return StreamlingError.user(
        f"the filter is not a condition: {reason}", remedy="write it as after WHERE in ClickHouse"
    ).about("filter")
