"""Hears from the JVM which streams have something for Python (`Signals.java`), on one thread for all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakKeyDictionary

from streamling.spark.java import java_class

#: milliseconds of one call into the JVM
_PATIENCE: Final = 10_000


class Signals:
    """The streams of one JVM that wait, by the number of their `BatchLoop`."""

    def __init__(self, jvm: Any) -> None:
        self._java: Any = java_class(jvm, "streamling.kafka.Signals")
        self._lock = threading.Lock()
        self._listeners: dict[int, Callable[[], None]] = {}
        self._has_thread = False

    def listen(self, number: int, on_ready: Callable[[], None]) -> None:
        """Call ``on_ready``, which must not block, when the loop has something for Python, and when the JVM ends."""
        with self._lock:
            self._listeners[number] = on_ready
            if not self._has_thread:
                self._has_thread = True
                threading.Thread(target=self._run, name="kafka signals", daemon=True).start()

    def ignore(self, number: int) -> None:
        with self._lock:
            self._listeners.pop(number, None)

    def _run(self) -> None:
        from py4j.protocol import Py4JError

        try:
            while self._is_needed():
                for number in self._java.take(_PATIENCE).split():
                    if (on_ready := self._listeners.get(int(number))) is not None:
                        on_ready()
        except (Py4JError, OSError):  # the JVM has ended: the next call of each stream says so
            with self._lock:
                self._has_thread, listeners = False, list(self._listeners.values())
            for on_ready in listeners:
                on_ready()

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
