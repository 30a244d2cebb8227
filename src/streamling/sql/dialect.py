"""The SQL dialect of pipeline files: Spark SQL with DataFusion's syntax.

Wherever the two interpret the same text differently, DataFusion's meaning applies, because files written for the Rust
implementation run here unchanged. So ``"x"`` is a name, and ``'\\d'`` is a backslash and a d; ``E'…'`` is the string
with escapes.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, ClassVar, Final

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from streamling.errors import StreamlingError
from streamling.recursion import recursion_limit
from streamling.sql.problems import InvalidSql, SqlProblem, TextSpan, problem_at

#: Functions whose arguments are not a plain list. Every other call stays as written (`exp.Anonymous`):
#: `streamling.sql.functions` translates calls.
_SPECIAL_SYNTAX = frozenset({"CAST", "TRY_CAST", "EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "POSITION", "OVERLAY"})


def _regex_match(node: type[exp.Expr]) -> Any:
    return lambda self, this: self.expression(node(this=this, expression=self._parse_bitwise()))


class StreamlingParser(SparkParser):
    """Spark's grammar with calls left as written, regex operators, and any word as a type name."""

    STRICT_CAST = True
    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: parse for name, parse in SparkParser.FUNCTION_PARSERS.items() if name in _SPECIAL_SYNTAX
    }
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {"CASE": SparkParser.NO_PAREN_FUNCTION_PARSERS["CASE"]}
    NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {
        **SparkParser.NO_PAREN_FUNCTIONS,
        TokenType.CURRENT_TIME: exp.CurrentTime,
    }
    PLACEHOLDER_PARSERS: ClassVar[dict[Any, Any]] = {}
    TRIM_PATTERN_FIRST = False
    RANGE_PARSERS: ClassVar[dict[Any, Any]] = {
        **SparkParser.RANGE_PARSERS,
        TokenType.TILDE: _regex_match(exp.RegexpLike),
        TokenType.IRLIKE: _regex_match(exp.RegexpILike),
    }

    def _parse_interval(
        self, require_interval: bool = True, parse_function_unit: bool = True
    ) -> exp.Add | exp.Interval | None:
        """Leave a text or number behind it to the caller: for sqlglot, ``INTERVAL '1 day' + '2024-05-06'::date`` is a
        sum of two intervals."""
        start = self._index
        if not self._match(TokenType.INTERVAL) and require_interval:
            return None
        is_text = self._match(TokenType.STRING, advance=False)
        this = self._parse_primary() if is_text else self._parse_unary()
        if this is None or isinstance(this, exp.Column):  # a column of this name
            self._retreat(start)
            return None
        return self._parse_interval_span(this, parse_function_unit)

    def _parse_interval_span(self, this: exp.Expr, parse_function_unit: bool = True) -> exp.Interval:
        """Keep the whole text of an interval; sqlglot keeps only its first number and unit. `sql.intervals` parses
        it."""
        unit: exp.Expr | None = None
        token = self._curr
        if token and (token.token_type is TokenType.VAR or token.text.upper() in self.dialect.VALID_INTERVAL_UNITS):
            open_end = not this.is_string or this.name[-1:].isdigit()
            unit = self._parse_var(any_token=True, upper=True) if open_end else None
        if unit is not None and self._match_text_seq("TO"):
            last = self._parse_var(any_token=True, upper=True)
            unit = self.expression(exp.IntervalSpan(this=unit, expression=last))
        return self.expression(exp.Interval(this=this, unit=unit))


class Streamling(Spark):
    """Read-only dialect: parses text that is then printed as Spark SQL."""

    SUPPORTS_USER_DEFINED_TYPES = True

    class Tokenizer(Spark.Tokenizer):
        QUOTES: ClassVar[list[Any]] = ["'"]
        IDENTIFIERS: ClassVar[list[Any]] = ['"', "`"]
        STRING_ESCAPES: ClassVar[list[str]] = ["'"]
        RAW_STRINGS: ClassVar[list[Any]] = [("r'", "'"), ("R'", "'")]
        BYTE_STRINGS: ClassVar[list[Any]] = [("e'", "'"), ("E'", "'")]
        BYTE_STRING_ESCAPES: ClassVar[list[str]] = ["'", "\\"]
        KEYWORDS: ClassVar[dict[str, Any]] = {
            **Spark.Tokenizer.KEYWORDS,
            "~*": TokenType.IRLIKE,
            "INT8": TokenType.BIGINT,
            "TIMESTAMP": TokenType.TIMESTAMP,
        }

    Parser = StreamlingParser


def _dialect() -> Streamling:
    try:
        dialect = Streamling()
        dialect.parser()
        return dialect
    except TypeError as error:  # classes compiled by mypyc cannot be derived from
        raise StreamlingError(
            "the compiled form of sqlglot (package sqlglotc) is installed, and its parser cannot be extended",
            remedy="pip uninstall sqlglotc && pip install --force-reinstall --no-deps sqlglot",
            cause=error,
        ) from error


_DIALECT = _dialect()
_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END)
_WANTED = "write SELECT … FROM <node>"


def parse(sql: str) -> tuple[exp.Query, list[Token]]:
    """Return the single query in ``sql``, and its tokens with their offsets; raises `InvalidSql` if there is not
    exactly one that can be parsed."""
    try:
        tokens = _checked_tokens(sql)
        with deep_recursion():
            queries = [query for query in _DIALECT.parser().parse(tokens, sql) if query is not None]
    except (ParseError, TokenError) as error:
        raise InvalidSql([_unreadable(sql, error)]) from None
    except RecursionError:
        raise InvalidSql([too_deep(sql)]) from None
    except (AssertionError, AttributeError, LookupError, TypeError, ValueError):  # sqlglot fails on some text
        raise InvalidSql([problem_at(sql, None, "the SQL cannot be parsed")]) from None
    if len(queries) > 1:
        message, remedy = "there is more than one statement", "keep one SELECT; use one sql transform for each"
        end = next(token for token in tokens if token.token_type is TokenType.SEMICOLON)
        raise InvalidSql([problem_at(sql, TextSpan(end.start, end.end + 1), message, remedy)])
    return queries[0], tokens  # type: ignore[return-value]  # SELECT, WITH and ( start nothing else


def too_deep(sql: str, span: TextSpan | None = None) -> SqlProblem:
    message = f"the SQL is nested too deeply: more than {MAX_DEPTH} levels of parentheses, calls or CASE"
    return problem_at(sql, span, message, ("compute parts of it in a subquery, or in an earlier sql transform"))


def _check_depth(sql: str, tokens: list[Token]) -> None:
    depth = 0
    for token in tokens:
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if depth > MAX_DEPTH:
            raise InvalidSql([too_deep(sql, TextSpan(token.start, token.end + 1))])


def _checked_tokens(sql: str) -> list[Token]:
    """Let only queries pass: the parser would accept statements that it does not know with a log line."""
    try:
        sql.encode()
    except UnicodeEncodeError as error:
        message = f"the SQL is not valid text: it contains an unpaired surrogate (U+{ord(sql[error.start]):04X})"
        raise InvalidSql([problem_at(sql, None, message, "remove it")]) from None
    tokens = _DIALECT.tokenize(sql)
    _check_depth(sql, tokens)
    if not tokens:
        raise InvalidSql([problem_at(sql, None, "the SQL is empty", _WANTED)])
    first = tokens[0]
    if first.token_type not in (TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN):
        message = f"a sql transform is one SELECT statement, but this one starts with {first.text.upper()}"
        raise InvalidSql([problem_at(sql, TextSpan(first.start, first.end + 1), message, _WANTED)])
    return tokens


def _unreadable(sql: str, error: ParseError | TokenError) -> SqlProblem:
    details = getattr(error, "errors", None)
    if not details:
        return problem_at(sql, None, "a quote or comment is never closed", "close it")
    detail = details[0]
    word = (detail.get("highlight") or "").strip("\n")
    end = _offset(sql, detail["line"], detail["col"])
    span = TextSpan(end - len(word), max(end, end - len(word) + 1))
    if sql.startswith("${", span.start):
        message = "variables such as ${NAME} are not replaced in SQL"
        return problem_at(sql, span, message, "write the value itself")
    # the parser formats a token with Python's repr
    description = str(detail["description"]).partition(" but got <Token")[0].rstrip(".")
    if description.startswith("Required keyword"):
        return problem_at(sql, span, f"something is missing after '{word}'")
    if description.startswith("Invalid expression"):
        return problem_at(sql, span, f"the SQL cannot be parsed: '{word}' is not expected here")
    expected = description[:1].lower() + description[1:]
    return problem_at(sql, span, f"the SQL cannot be parsed at '{word}': {expected}")


def _offset(sql: str, line: int, column: int) -> int:
    return sum(len(text) + 1 for text in sql.split("\n")[: line - 1]) + column


#: nested parentheses, calls and CASE
MAX_DEPTH: Final = 100
#: the parser makes about 25 calls per level; calls from Python to Python do not use the thread's stack
_CALLS: Final = 20_000


def deep_recursion() -> AbstractContextManager[None]:
    """Allow as many nested calls as the deepest SQL needs."""
    return recursion_limit(_CALLS)
