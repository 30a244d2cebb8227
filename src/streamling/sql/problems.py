"""Errors in a SQL text: message, location, and the line with a caret below it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from streamling.errors import StreamlingError


@dataclass(frozen=True)
class TextSpan:
    """A range of the SQL text, as character offsets; ``end`` is exclusive."""

    start: int
    end: int


@dataclass(frozen=True)
class SqlProblem:
    """One error. Line and column are 1-based and relative to the SQL text; 0 = the text as a whole."""

    message: str
    line: int = 0
    column: int = 0
    remedy: str | None = None
    #: the line of the SQL and, below it, carets under the location
    excerpt: str = field(default="", compare=False)

    def __str__(self) -> str:
        place = f"line {self.line}, column {self.column}: " if self.line else ""
        remedy = f" ({self.remedy})" if self.remedy else ""
        return f"{place}{self.message}{remedy}"

    @property
    def block(self) -> str:
        """The message and the excerpt, for people."""
        return f"{self}\n{self.excerpt}" if self.excerpt else str(self)


class InvalidSql(StreamlingError):
    """SQL that is not valid in a transform, with all its problems."""

    def __init__(self, problems: Iterable[SqlProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problem.block for problem in self.problems), internal=False)


def problem_at(sql: str, span: TextSpan | None, message: str, remedy: str | None = None) -> SqlProblem:
    """Return a problem with its line, column and excerpt, computed from its position in ``sql``."""
    if span is None:
        return SqlProblem(message, remedy=remedy)
    line_start = sql.rfind("\n", 0, span.start) + 1
    line_end = sql.find("\n", span.start)
    line_end = len(sql) if line_end < 0 else line_end
    line = sql.count("\n", 0, span.start) + 1
    column = span.start - line_start + 1
    text = sql[line_start:line_end].rstrip()
    carets = max(1, min(span.end, line_start + len(text)) - span.start)
    # tabs before the caret stay tabs, so that it is below its character on every terminal
    indent = "".join("\t" if char == "\t" else " " for char in text[: column - 1])
    return SqlProblem(message, line, column, remedy, f"  {text}\n  {indent}{'^' * carets}")
