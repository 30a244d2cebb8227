"""SIGTERM, SIGHUP and SIGINT: a running pipeline is drained, a starting one is cancelled, and both end within
``shutdown_budget_secs``.

Python runs signal handlers on the main thread between two bytecodes. A main thread that waits inside a database driver
would never get there. Therefore a signal wakes a separate thread, which watches the clock and ends the process when the
budget is used up.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn, Protocol

from streamling.cli.errors import ExitCode
from streamling.observe.telemetry.logging import formatted_as_json

if TYPE_CHECKING:
    from streamling.spark.jvm.session import SparkDriver

_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
#: GNU timeout signals its child and then the whole group. A person who presses Ctrl-C twice means it.
_SAME_REQUEST_SECONDS = 1.0
#: Reserved for the exit of the process itself: the budget covers the time until the process has exited.
_RESERVE_SECONDS = 0.5
#: for the last message: whoever reads standard error may have stopped reading
_MESSAGE_SECONDS = 0.2


class Drainable(Protocol):
    """What a signal drains: a run, or a server with many."""

    def stop(self, reason: str) -> None:
        """Request a clean stop; must not block."""

    def unfinished(self) -> list[str]:
        """Return what the stop still waits for."""


class Shutdown:
    """What a signal currently does."""

    def __init__(self, budget: float) -> None:
        #: maximum time from the signal to the end of the process
        self.budget = budget
        #: called before a forced exit; must not block
        self.clean_up: Callable[[], None] = lambda: None
        self._run: Drainable | None = None
        #: time of the first signal, and which one it was
        self._requested: tuple[float, int] | None = None
        self._lock = threading.Lock()

    def drain(self, run: Drainable) -> None:
        """Drain ``run`` on a signal from now on."""
        with self._lock:
            self._run = run

    def kill_at_exit(self, driver: SparkDriver) -> None:
        """From now on, a forced exit kills the JVM."""
        self.clean_up = driver.kill

    def on_signal(self, number: int) -> None:
        """Handle a signal, immediately and on a separate thread."""
        name, now = signal.Signals(number).name, time.monotonic()
        with self._lock:
            if self._is_repeated(number, now):
                return
            if self._requested is not None:
                self._leave(f"{name} again: exiting immediately; rows since the last checkpoint will be replayed")
            self._requested = now, number
            if self._run is None:
                code = ExitCode.INTERRUPTED if number == signal.SIGINT else ExitCode.OK
                self._leave(f"{name} while starting: nothing was read", code)
            run = self._run
        threading.Thread(target=self._watch, args=(name, run), name="shutdown", daemon=True).start()
        run.stop(name)

    def may_be_repeated(self, number: int) -> bool:
        """Return whether this is the signal that started the shutdown, which a program may send twice."""
        return self._requested is not None and number == self._requested[1] != signal.SIGINT

    def _is_repeated(self, number: int, now: float) -> bool:
        """Return whether this is the same signal as a moment ago, sent twice by a program."""
        if self._requested is None or number == signal.SIGINT:
            return False
        first, before = self._requested
        return number == before and now - first < _SAME_REQUEST_SECONDS

    def _watch(self, name: str, run: Drainable) -> None:
        time.sleep(max(0.1, self.budget - _RESERVE_SECONDS))
        try:
            busy = ", ".join(run.unfinished()) or "closing connections"
        except RuntimeError:  # changed while being read
            busy = "still busy"
        self._leave(
            f"{name}: not finished within shutdown_budget_secs ({self.budget:g} s): {busy}; "
            "rows since the last checkpoint will be replayed"
        )

    def _leave(self, message: str, code: ExitCode = ExitCode.FAILED) -> NoReturn:
        try:
            # not through the log, whose lock may be held, and not on this thread, which must continue
            writing = threading.Thread(target=_print_and_exit, args=(message, code), daemon=True)
            writing.start()
            self.clean_up()
            writing.join(_MESSAGE_SECONDS)
        finally:
            os._exit(code)


def _print_and_exit(message: str, code: ExitCode) -> None:
    is_failure = code == ExitCode.FAILED
    if (line := formatted_as_json(logging.ERROR if is_failure else logging.INFO, message)) is None:
        line = f"error: {message}" if is_failure else message
    print(line, file=sys.stderr, flush=True)


@contextmanager
def shutdown_by_signals(budget: float) -> Iterator[Shutdown]:
    """Handle signals while the block runs. Only for the main thread of a process."""
    shutdown = Shutdown(budget)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    watcher = threading.Thread(target=_read, args=(reading, shutdown), name="signals", daemon=True)
    watcher.start()
    # `nohup` starts a process with SIGHUP ignored: it keeps running when its terminal closes
    ignored = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else set()
    before = {number: signal.signal(number, lambda *_: None) for number in _SIGNALS if number not in ignored}
    wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield shutdown
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in before.items():
            # the second of two SIGTERMs must not kill a process that is already drained
            signal.signal(number, signal.SIG_IGN if shutdown.may_be_repeated(number) else handler)
        os.close(writing)  # ends the watcher
        watcher.join()
        os.close(reading)


def _read(reading: int, shutdown: Shutdown) -> None:
    while numbers := os.read(reading, 16):
        for number in numbers:
            if number in _SIGNALS:
                shutdown.on_signal(number)
