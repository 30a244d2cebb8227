"""Records the engine's calls of an operator, and lets a test fail or block any of them."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from streamling.plugins.operators import Operator
from streamling.plugins.sinks import Sink

#: every method the engine may call when rows are about to flow
METHODS = (
    "open",
    "restore",
    "read",
    "process",
    "marker",
    "write",
    "write_arrow",
    "write_frame",
    "flush",
    "commit",
    "finalized",
    "close",
)

T = TypeVar("T", bound=type[Operator[Any]])


@dataclass
class Call:
    """One call by the engine, with its ``result``."""

    operator: Operator[Any]
    method: str
    arguments: tuple[Any, ...]
    thread: int
    result: Any = None
    failed: bool = False


class Fault(RuntimeError):
    """A failure injected by a test."""


@dataclass
class _Planned:
    """A fault that is raised at the last of this many calls."""

    calls: int
    error: Exception


class CallLog:
    """Calls of all instances of the operator under test, in order."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        #: calls made while another thread was inside the same instance
        self.overlaps: list[Call] = []
        self._inside: dict[int, int] = {}
        self._lock = threading.Lock()
        self._faults: dict[str, _Planned] = {}
        self._gates: dict[str, threading.Event] = {}

    def of(self, *methods: str) -> list[Call]:
        """Return successful calls of these methods."""
        with self._lock:
            return [call for call in self.calls if call.method in methods and not call.failed]

    def count(self, *methods: str) -> int:
        return len(self.of(*methods))

    def instances(self) -> list[list[Call]]:
        """Return the calls of each instance separately."""
        with self._lock:
            by_instance: dict[int, list[Call]] = {}
            for call in self.calls:
                by_instance.setdefault(id(call.operator), []).append(call)
        return list(by_instance.values())

    def fail(self, *methods: str, call: int = 1, error: Exception | None = None) -> None:
        """Make the nth call of any of ``methods`` from now on raise ``error`` (by default a `Fault`)."""
        planned = _Planned(call, error or Fault(f"{' or '.join(methods)} failed on purpose"))
        self._faults.update(dict.fromkeys(methods, planned))

    def hold(self, method: str) -> threading.Event:
        """Block calls of ``method`` until the returned event is set."""
        gate = self._gates[method] = threading.Event()
        return gate

    # ── from recorded operators ──────────────────────────────────────────────────────────────────────────────

    def run(self, operator: Operator[Any], method: str, arguments: tuple[Any, ...], action: Callable[[], Any]) -> Any:
        """Run ``action`` and record it; calls that an operator makes on itself are not recorded."""
        thread = threading.get_ident()
        if self._inside.get(id(operator)) == thread:
            return action()
        call = self._enter(Call(operator, method, arguments, thread))
        try:
            self._apply_faults(method)
            call.result = action()
        except BaseException:
            call.failed = True
            raise
        finally:
            with self._lock:
                self._inside.pop(id(operator), None)
        return call.result

    def _enter(self, call: Call) -> Call:
        with self._lock:
            if id(call.operator) in self._inside:
                self.overlaps.append(call)
            self._inside[id(call.operator)] = call.thread
            self.calls.append(call)
        return call

    def _apply_faults(self, method: str) -> None:
        gate = self._gates.get(method)
        if gate is not None:
            gate.wait()
        planned = self._faults.get(method)
        if planned is not None:
            planned.calls -= 1
            if planned.calls == 0:
                raise planned.error


def record_calls(operator: T, call_log: CallLog) -> T:
    """Return ``operator`` with every call of the engine recorded in ``call_log``."""
    # the default marker of a sink calls flush, which is recorded
    flushes = getattr(operator, "marker", None) is Sink.marker
    methods = [name for name in METHODS if hasattr(operator, name) and not (name == "marker" and flushes)]
    overrides = {name: _recorded(getattr(operator, name), name, call_log) for name in methods}
    made: Any = type(operator.__name__, (operator,), {**overrides, "__module__": operator.__module__})
    kind: T = made
    return kind


def _recorded(original: Callable[..., Any], name: str, call_log: CallLog) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(self: Operator[Any], *arguments: Any) -> Any:
        return call_log.run(self, name, arguments, lambda: original(self, *arguments))

    return call
