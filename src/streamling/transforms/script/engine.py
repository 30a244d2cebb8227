"""The interface of JavaScript engines, and their failures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol


class Cause(Enum):
    """Why a script failed."""

    THROWN = "thrown"
    TIME = "time"
    MEMORY = "memory"
    STACK = "stack"
    #: the sandbox itself failed
    BROKEN = "broken"


class ScriptFailed(Exception):
    """A script failed."""

    def __init__(self, cause: Cause, message: str, *, name: str = "", stack: str = "") -> None:
        super().__init__(message)
        self.cause = cause
        self.message = message
        #: name of the error that was thrown, such as TypeError
        self.name = name
        self.stack = stack


@dataclass(frozen=True)
class Limits:
    """What one sandbox may use."""

    memory_bytes: int
    #: time limit for one batch
    seconds: float


#: a value inside a sandbox
Value = Any


class Sandbox(Protocol):
    """An isolated environment for a script: nothing it does affects another one, or the host. Not thread-safe. After a
    failure other than `Cause.THROWN` it may be unusable."""

    def evaluate(self, source: str, seconds: float) -> Value:
        """Run ``source`` as a script and return the value of its last statement."""

    def apply(self, function: Value, arguments: Sequence[Value | str], seconds: float) -> Value:
        """Call ``function`` and return its result, which must be a function."""

    def exchange(self, function: Value, data: bytes, text: bytes, seconds: float) -> tuple[bytes, str]:
        """Call ``function`` with an ArrayBuffer and a text (UTF-8); it returns an array of the same two."""

    def save(self) -> None:
        """Remember the present state for `restore`."""

    def restore(self) -> bool:
        """Return to the state of `save`, including the state of random numbers. False if that is not possible: then
        the sandbox can only be closed."""

    def close(self) -> None: ...


class ScriptEngine(Protocol):
    """Creates sandboxes, which share only compiled code."""

    def sandbox(self) -> Sandbox: ...
