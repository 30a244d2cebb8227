"""The error type that users see: what failed, in which node, why, and what to do about it.

Every failure that reaches the top is a `StreamlingError`. It has two flags:

- ``internal``: the cause is Streamling or the environment, not the user's input. `--validate` reports it as
  ``success: false``.
- ``retriable``: the same call may succeed later (connection refused, timeout, server busy).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Self

_RETRIABLE_OS_ERRORS = (
    ConnectionRefusedError,
    ConnectionResetError,
    ConnectionAbortedError,
    BrokenPipeError,
    TimeoutError,
    InterruptedError,
)


@dataclass(frozen=True)
class NodeLabel:
    """A node as messages name it: ``postgres sink 'orders'``, with a number where it runs several times."""

    type: str
    kind: str
    name: str
    instance: int | None = None

    def __str__(self) -> str:
        return f"{self.type} {self.kind} '{self.name}{'' if self.instance is None else f'[{self.instance}]'}'"


@dataclass(frozen=True)
class OptionLocation:
    """The part of a node's options that an error is about: a field, and inside a text such as `sql` a line and a column
    (1-based; 0 = the value as a whole)."""

    field: str
    line: int = 0
    column: int = 0
    #: the part of the message that says the same and is removed if the place in the file is known
    note: str = ""


class StreamlingError(Exception):
    """A failure: a sentence for people, two flags for machines, the node it is about, and what was being done.

    ``StreamlingError("connection refused").context("listing files").of_node(NodeLabel("file", "source", "orders"))``
    reads as ``file source 'orders': listing files: connection refused``.
    """

    def __init__(
        self,
        message: str,
        *,
        internal: bool = True,
        retriable: bool = False,
        cause: BaseException | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.internal = internal
        self.retriable = retriable
        self.remedy = remedy
        #: the node that failed; set once, on the way up
        self.node: NodeLabel | None = None
        self.contexts: list[str] = []
        #: what it is about in the options of its node, and where that is: ``file:line:column``
        self.option_location: OptionLocation | None = None
        self.location = ""
        if cause is not None:
            self.__cause__ = cause

    @classmethod
    def user(cls, message: str, *, cause: BaseException | None = None, remedy: str | None = None) -> Self:
        """Return an error in the user's input; safe to show as it is."""
        return cls(message, internal=False, cause=cause, remedy=remedy)

    @classmethod
    def transient(cls, message: str, *, cause: BaseException | None = None) -> Self:
        """Return an error that may be temporary."""
        return cls(message, retriable=True, cause=cause)

    @classmethod
    def wrap(cls, error: BaseException, message: str) -> StreamlingError:
        """Return ``error`` as a `StreamlingError`: context is added to one of ours, anything else becomes the cause."""
        if isinstance(error, StreamlingError):
            return error.context(message) if message else error
        return cls(message, retriable=isinstance(error, _RETRIABLE_OS_ERRORS), cause=error)

    def context(self, doing: str) -> Self:
        """Add what was being done, outermost last; the flags do not change."""
        self.contexts.append(doing)
        return self

    def of_node(self, node: NodeLabel) -> Self:
        """Set the node that failed. The first one stays: it is closest to the cause."""
        self.node = self.node or node
        return self

    def about(self, field: str, line: int = 0, column: int = 0, note: str = "") -> Self:
        """Set the option of the node that this is about; the engine knows its place in the file."""
        self.option_location = OptionLocation(field, line, column, note)
        return self

    def mark_retriable(self) -> Self:
        """Mark the error as temporary: the same call may succeed later."""
        self.retriable = True
        return self

    def mark_user_facing(self) -> Self:
        """Mark the error as the user's to fix: the sentence is shown as it is, without an internal cause."""
        self.internal = False
        return self

    def __str__(self) -> str:
        return f"{self.location}: {self.sentence}" if self.location else self.sentence

    @property
    def sentence(self) -> str:
        """What happened, without the place in the file."""
        parts = ["" if self.node is None else str(self.node), *reversed(self.contexts), self.message]
        return ": ".join(part for part in parts if part)

    @property
    def with_causes(self) -> str:
        """What happened and why, in one line."""
        return ": ".join([str(self), *self.causes()])

    def causes(self) -> Iterator[str]:
        """Yield one line per cause, outermost first."""
        error: BaseException | None = self.__cause__
        seen: set[int] = {id(self)}  # `raise error from error` makes an error its own cause
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            if sentence := _sentence(error):
                yield sentence
            error = error.__cause__


@contextmanager
def error_context(what: str) -> Iterator[None]:
    """Raise whatever is raised inside as a `StreamlingError` with ``what`` as context, once."""
    try:
        yield
    except (Exception, SystemExit) as error:
        if isinstance(error, StreamlingError) and what in error.contexts:
            raise
        wrapped = StreamlingError.wrap(error, what)
        if wrapped is error:
            raise  # `from error` would make it its own cause
        raise wrapped from error


class Unreachable(StreamlingError):
    """An address has not responded since the start: it may be wrong, or the service has not started yet. Retried for
    `startup_timeout_sec` only."""

    def __init__(self, message: str, *, remedy: str | None = None, cause: BaseException | None = None) -> None:
        super().__init__(message, retriable=True, remedy=remedy, cause=cause)


class BadRow(StreamlingError):
    """One of the rows of a call can never be processed, and none of them has taken effect. If the node has a
    dead-letter sink, the engine finds the row, rejects it and continues with the others."""

    #: the row, for people who only see this error
    shown: str = ""

    @property
    def reason(self) -> str:
        """The text for a dead-letter sink, which also has the row."""
        return f"{self.message} ({self.remedy})" if self.remedy else self.message

    def showing(self, row: str) -> Self:
        self.shown = row
        return self

    @property
    def sentence(self) -> str:
        return super().sentence + self.shown


class InlineCodeError(StreamlingError):
    """An error inside a text of the pipeline file, such as a script, and its line."""

    def __init__(self, message: str, field: str, line: int, excerpt: str = "") -> None:
        super().__init__(message, internal=False)
        self.about(field, line)
        self.excerpt = excerpt


def exit_sentence(error: SystemExit) -> str:
    """Return the message for a `SystemExit` that a plugin raised: a plugin must not end the process."""
    return f"it called sys.exit({'' if error.code is None else repr(error.code)})"


def _sentence(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return exit_sentence(error)
    try:
        text = str(error).strip()
    except Exception:
        return ""  # an exception of PySpark has no text once its JVM has ended
    if isinstance(error, StreamlingError) or not text:
        return text or type(error).__name__
    return f"{type(error).__name__}: {text}"


@dataclass(frozen=True)
class Problem:
    """One error in a file of the user, and its place (1-based; 0 = the whole file)."""

    message: str
    file: str = ""
    line: int = 0
    column: int = 0
    remedy: str | None = None
    #: lines of the file with carets under the place
    excerpt: str = field(default="", compare=False)

    @property
    def location(self) -> str:
        """``file:line:column``, as far as known; terminals and editors turn it into a link."""
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file

    def __str__(self) -> str:
        location = f"{self.location}: " if self.location else ""
        remedy = f" ({self.remedy})" if self.remedy else ""
        excerpt = f"\n{self.excerpt}" if self.excerpt else ""
        return f"{location}{self.message}{remedy}{excerpt}"


class InvalidPipeline(StreamlingError):
    """All errors in a pipeline or configuration file. Exit code 78."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)), internal=False)
        self.problems = problems
