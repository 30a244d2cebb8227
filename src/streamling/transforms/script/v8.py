"""V8 through `mini-racer`: several times faster, but without the additional isolation of WebAssembly. Selected in the
configuration, never by the pipeline file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from streamling.errors import StreamlingError
from streamling.transforms.script.engine import Cause, Limits, ScriptFailed, Value

_ERROR = re.compile(r"^<anonymous>:(?P<line>\d+): (?:Uncaught )?(?P<name>\w+): (?P<message>.*)$", re.MULTILINE)
#: Allocates the buffer for the input, which is then filled through a view; and passes it on with the text.
_EXCHANGE = """(() => {
  const Room = ArrayBuffer;
  let data;
  const give = (f, text) => { const given = data; data = undefined; return f(given, text); };
  return [(size) => (data = new Room(size)), give];
})()"""
#: V8's heap limit does not include exchanged data, and V8 needs some memory itself
_OVERHEAD_BYTES = 16 << 20


class V8:
    """Creates isolates."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        try:
            import py_mini_racer
        except ImportError as error:
            raise StreamlingError.user(
                "wasm_script.engine is v8, but V8 is not installed", remedy="pip install 'streamling[v8]'"
            ) from error
        self.racer = py_mini_racer

    def sandbox(self) -> V8Sandbox:
        return V8Sandbox(self)


class V8Sandbox:
    """One isolate, discarded with everything in it."""

    def __init__(self, engine: V8) -> None:
        self._racer: Any = engine.racer
        self._isolate: Any = engine.racer.MiniRacer()
        self._isolate.set_hard_memory_limit(engine.limits.memory_bytes + _OVERHEAD_BYTES)
        if self._isolate.eval("new Date(2000, 0).getTimezoneOffset() || new Date(2000, 6).getTimezoneOffset()"):
            raise StreamlingError.user(
                "V8 uses the time zone of this process, but scripts must see UTC", remedy="set TZ=UTC"
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
            result = self._exchange(function, text.decode(), timeout_sec=_positive(seconds))
            if self._isolate.was_hard_memory_limit_reached():
                raise ScriptFailed(Cause.MEMORY, "out of memory")  # the script caught the error itself
            return bytes(result[0]), result[1]

    def save(self) -> None:
        """Do nothing: isolates cannot be restored."""

    def restore(self) -> bool:
        return False

    def close(self) -> None:
        self._isolate.close()

    def _await_termination(self) -> None:
        """Wait until the terminated call returns: if closed before that, mini-racer would log an error."""
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
            if self._isolate.was_hard_memory_limit_reached():  # then an arbitrary error is thrown
                raise ScriptFailed(Cause.MEMORY, "out of memory") from None
            raise _thrown(str(error)) from None


def _positive(seconds: float) -> float:
    """Return a limit above 0, which mini-racer treats as no limit."""
    return max(seconds, 0.001)


def _thrown(text: str) -> ScriptFailed:
    """Parse V8's text: position, name, message, the line, a caret, and the stack."""
    found = _ERROR.search(text)
    if found is None:
        return ScriptFailed(Cause.THROWN, text.strip())
    name, message = found["name"], found["message"]
    if (name, message) == ("RangeError", "Maximum call stack size exceeded"):
        return ScriptFailed(Cause.STACK, message)
    frames = [line for line in text.splitlines() if line.strip().startswith("at ")]
    stack = "\n".join(frames) or f"at <anonymous>:{found['line']}"
    return ScriptFailed(Cause.THROWN, message, name=name, stack=stack)
