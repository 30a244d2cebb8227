"""What a JavaScript engine has to offer, and how it fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol


class Cause(Enum):
    """Why a script did not come to its end."""

    THROWN = "thrown"
    TIME = "time"
    MEMORY = "memory"
    STACK = "stack"
    #: the sandbox itself broke
    BROKEN = "broken"


class ScriptFailed(Exception):
    """A script did not come to its end."""

    def __init__(self, cause: Cause, message: str, *, name: str = "", stack: str = "") -> None:
        super().__init__(message)
        self.cause = cause
        self.message = message
        #: of the error that was thrown, such as TypeError
        self.name = name
        self.stack = stack


@dataclass(frozen=True)
class Limits:
    """What one sandbox may use."""

    memory_bytes: int
    #: for one batch
    seconds: float


#: a value that lives in a sandbox
Value = Any


class Sandbox(Protocol):
    """A world of its own for a script: nothing it does reaches another one, or the host. Not for two threads at once.
    After a failure by anything but `Cause.THROWN` it may be dead."""

    def evaluate(self, source: str, seconds: float) -> Value:
        """The value of the last statement of ``source``, run as a script."""

    def apply(self, function: Value, arguments: Sequence[Value | str], seconds: float) -> Value:
        """What ``function`` returns, which has to be a function."""

    def exchange(self, function: Value, data: bytes, text: bytes, seconds: float) -> tuple[bytes, str]:
        """Call ``function`` with an ArrayBuffer and a text (UTF-8); it returns an array of the same two."""

    def close(self) -> None: ...


class Engine(Protocol):
    """Makes sandboxes. Compiled code is shared by them, nothing else is."""

    def sandbox(self) -> Sandbox: ...
