"""Selects cases by an expression over their names: ``refund and not (slow or large)``."""

from __future__ import annotations

import re
from collections.abc import Callable

from streamling.errors import StreamlingError

Matches = Callable[[str], bool]

_TOKEN = re.compile(r"\s*(?:(\(|\))|\"([^\"]*)\"|([^\s()\"]+))")
_OPERATORS = ("and", "or", "not")


def parse_selection(expression: str) -> Matches:
    """Return a function for whether a name matches: each word is a part of the name, in any case. Raise a user error if
    the text is invalid."""
    tokens = _tokens(expression)
    parser = _Parser(tokens)
    matches = parser.any_of()
    if parser.rest:
        raise _invalid(expression, f"'{parser.rest[0][1]}' is unexpected")
    return matches


def _tokens(expression: str) -> list[tuple[str, str]]:
    """Return kind and text of each token: ``op`` for operators and parentheses, ``word`` for the rest."""
    tokens, place = [], 0
    while expression[place:].strip():
        found = _TOKEN.match(expression, place)
        if found is None:
            raise _invalid(expression, "a quotation mark is not closed")
        bracket, quoted, word = found.groups()
        is_operator = bracket or (word or "").lower() in _OPERATORS
        tokens.append(("op", bracket or word.lower()) if is_operator else ("word", quoted if word is None else word))
        place = found.end()
    return tokens


class _Parser:
    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self.rest = tokens

    def any_of(self) -> Matches:
        parts = [self._all_of()]
        while self._take("or"):
            parts.append(self._all_of())
        return lambda name: any(part(name) for part in parts)

    def _all_of(self) -> Matches:
        parts = [self._one()]
        while self._take("and"):
            parts.append(self._one())
        return lambda name: all(part(name) for part in parts)

    def _one(self) -> Matches:
        if self._take("not"):
            inner = self._one()
            return lambda name: not inner(name)
        if self._take("("):
            inside = self.any_of()
            if not self._take(")"):
                raise _invalid("", "a parenthesis is not closed")
            return inside
        if not self.rest or self.rest[0][0] != "word":
            raise _invalid("", "a word is missing")
        word = self.rest.pop(0)[1].lower()
        return lambda name: word in name.lower()

    def _take(self, operator: str) -> bool:
        if self.rest[:1] != [("op", operator)]:
            return False
        self.rest.pop(0)
        return True


def _invalid(expression: str, why: str) -> StreamlingError:
    shown = f" '{expression}'" if expression else ""
    return StreamlingError.user(
        f"the expression{shown} of -k is invalid: {why}",
        remedy='write words with and, or, not: -k "refund and not slow"',
    )
