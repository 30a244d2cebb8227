"""A call on another thread."""

from __future__ import annotations

import threading
from collections.abc import Callable


class BackgroundCall:
    """Runs one call at a time beside the caller. The error of a call is raised by the next method."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    def start(self, call: Callable[[], None]) -> None:
        """Wait for the previous call, then start this one."""
        self.wait()
        # a daemon, unlike the threads of a pool: a server that does not answer must not keep the process from ending
        self._thread = threading.Thread(target=self._run, args=(call,), name=self._name, daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait until the call has ended."""
        if self._thread is not None:
            self._thread.join()
        self._thread = None
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _run(self, call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException as error:
            self._failure = error
