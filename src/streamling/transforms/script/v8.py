"""V8 by way of `mini-racer`: several times faster, without the second wall of WebAssembly. Chosen by who runs the
pipeline, never by the pipeline file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from streamling.errors import StreamlingError
from streamling.transforms.script.engine import Cause, Limits, ScriptFailed, Value

_ERROR = re.compile(r"^<anonymous>:(?P<line>\d+): (?:Uncaught )?(?P<name>\w+): (?P<message>.*)$", re.MULTILINE)
#: Makes the room for what comes in, which is then filled through a view; and hands it over with the text.
_EXCHANGE = """(() => {
  const Room = ArrayBuffer;
  let data;
  const give = (f, text) => { const given = data; data = undefined; return f(given, text); };
  return [(size) => (data = new Room(size)), give];
})()"""
#: V8's heap does not count what crosses, and needs some for itself
_OVERHEAD_BYTES = 16 << 20


class V8:
    """Makes isolates."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        try:
            import py_mini_racer
        except ImportError as error:
            raise StreamlingError.user(
                "wasm_script.engine is v8, and V8 is not installed", remedy="pip install 'streamling[v8]'"
            ) from error
        self.racer = py_mini_racer

    def sandbox(self) -> V8Sandbox:
        return V8Sandbox(self)


class V8Sandbox:
    """One isolate, thrown away with everything in it."""

    def __init__(self, engine: V8) -> None:
        self._racer: Any = engine.racer
        self._isolate: Any = engine.racer.MiniRacer()
        self._isolate.set_hard_memory_limit(engine.limits.memory_bytes + _OVERHEAD_BYTES)
        if self._isolate.eval("new Date(2000, 0).getTimezoneOffset() || new Date(2000, 6).getTimezoneOffset()"):
            raise StreamlingError.user(
                "V8 takes the time zone of this process, and scripts have to see UTC", remedy="set TZ=UTC"
            )
        self._room, self._exchange = self._isolate.eval(_EXCHANGE)

    def evaluate(self, source: str, seconds: float) -> Value:
        with self._translate_errors():
            return self._isolate.eval(source, timeout_sec=_positive(seconds))

    def apply(self, function: Value, arguments: Sequence[Value | str], seconds: float) -> Value:
        with self._translate_errors():
            return function(*arguments, timeout_sec=_positive(seconds))

    def exchange(self, function: Value, data: bytes, text: bytes, seconds: float) -> tuple[bytes, str]:
        with self._translate_errors():
            view = self._room(len(data))
            if data:
                view[:] = data
            answer = self._exchange(function, text.decode(), timeout_sec=_positive(seconds))
            if self._isolate.was_hard_memory_limit_reached():
                raise ScriptFailed(Cause.MEMORY, "out of memory")  # the script caught it as an error of its own
            return bytes(answer[0]), answer[1]

    def close(self) -> None:
        self._isolate.close()

    def _await_termination(self) -> None:
        """Let the call that was ended come back: closed before that, mini-racer would complain into the air."""
        with suppress(self._racer.JSTimeoutException, self._racer.JSEvalException):
            self._isolate.eval("0", timeout_sec=1)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        racer = self._racer
        try:
            yield
        except racer.JSTimeoutException:
            self._await_termination()
            raise ScriptFailed(Cause.TIME, "interrupted") from None
        except racer.JSOOMException:
            raise ScriptFailed(Cause.MEMORY, "out of memory") from None
        except racer.JSEvalException as error:
            if self._isolate.was_hard_memory_limit_reached():  # what is thrown then is whatever was at hand
                raise ScriptFailed(Cause.MEMORY, "out of memory") from None
            raise _thrown(str(error)) from None


def _positive(seconds: float) -> float:
    """mini-racer takes 0 for no limit."""
    return max(seconds, 0.001)


def _thrown(told: str) -> ScriptFailed:
    """Out of V8's text: place, name, message, the line, a caret, and the stack."""
    found = _ERROR.search(told)
    if found is None:
        return ScriptFailed(Cause.THROWN, told.strip())
    name, message = found["name"], found["message"]
    if (name, message) == ("RangeError", "Maximum call stack size exceeded"):
        return ScriptFailed(Cause.STACK, message)
    frames = [line for line in told.splitlines() if line.strip().startswith("at ")]
    stack = "\n".join(frames) or f"at <anonymous>:{found['line']}"
    return ScriptFailed(Cause.THROWN, message, name=name, stack=stack)
