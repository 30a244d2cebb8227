"""Hears from the JVM what streams have for Python (`Signals.java`), on one thread for all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import Enum
from typing import Any, Final
from weakref import WeakKeyDictionary

from streamling.spark.java import java_class

#: milliseconds of one call into the JVM
_PATIENCE: Final = 10_000


class Kind(Enum):
    """What a stream does after a report."""

    REPORT = "it goes on"
    STOPPED = "it has stopped"
    FAILED = "it has stopped because of its source"


#: takes what a stream does, and its report; must not block
Listener = Callable[[Kind, bytes], None]


class Signals:
    """The streams of one JVM, by the number of their `BatchLoop`."""

    def __init__(self, jvm: Any) -> None:
        self._java: Any = java_class(jvm, "streamling.kafka.Signals")
        self._lock = threading.Lock()
        self._listeners: dict[int, Listener] = {}
        self._has_thread = False

    def listen(self, number: int, listener: Listener) -> None:
        """Call ``listener`` for everything that the loop reports, and when the JVM ends."""
        with self._lock:
            self._listeners[number] = listener
            if not self._has_thread:
                self._has_thread = True
                threading.Thread(target=self._run, name="kafka signals", daemon=True).start()

    def ignore(self, number: int) -> bool:
        """Call its listener no more; False if it has none."""
        with self._lock:
            return self._listeners.pop(number, None) is not None

    def _run(self) -> None:
        from py4j.protocol import Py4JError

        try:
            while self._is_needed():
                self._pass_on(self._java.take(_PATIENCE))
        except (Py4JError, OSError):
            with self._lock:
                self._has_thread, listeners = False, list(self._listeners.values())
            for listener in listeners:
                listener(Kind.FAILED, b"")

    def _pass_on(self, data: bytes) -> None:
        line, _, reports = data.partition(b"\n")
        start = 0
        for signal in line.decode().split(",") if line else ():
            number, kind, size = signal.split(" ")
            end = start + int(size)
            if (listener := self._listeners.get(int(number))) is not None:
                listener(Kind[kind], reports[start:end])
            start = end

    def _is_needed(self) -> bool:
        with self._lock:
            self._has_thread = bool(self._listeners)
            return self._has_thread


_by_jvm: WeakKeyDictionary[Any, Signals] = WeakKeyDictionary()
_lock: Final = threading.Lock()


def signals_of(jvm: Any) -> Signals:
    with _lock:
        if jvm not in _by_jvm:
            _by_jvm[jvm] = Signals(jvm)
        return _by_jvm[jvm]
