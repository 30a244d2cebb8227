"""Whether the catalogue can be written, for probes of the platform."""

from __future__ import annotations

import logging
import threading
import time

from streamling.errors import StreamlingError
from streamling.plugins.state_backend import SqlDatabase

log = logging.getLogger(__name__)

#: A result holds for this long: probes need no token, and must not make the database work all the time.
_FRESH_SECONDS = 5.0
#: a write that takes longer counts as impossible
_WRITE_SECONDS = 1.0


class Writability:
    """Writes to the database at most every few seconds. May be asked from any thread."""

    def __init__(self, database: SqlDatabase) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._was_writable = True
        self._checked_at = -_FRESH_SECONDS
        self._ended = threading.Event()
        self._ended.set()

    def is_writable(self) -> bool:
        """Return whether the last write succeeded. Waits a second at most, and only one thread at a time."""
        with self._lock:
            is_due = self._ended.is_set() and time.monotonic() - self._checked_at >= _FRESH_SECONDS
            if is_due:
                self._checked_at = time.monotonic()
                self._ended.clear()
                threading.Thread(target=self._check, name="check database", daemon=True).start()
        if is_due:
            self._ended.wait(_WRITE_SECONDS)
        is_late = not self._ended.is_set() and time.monotonic() - self._checked_at >= _WRITE_SECONDS
        return self._was_writable and not is_late

    def _check(self) -> None:
        try:
            self._database.check_writable()
        except StreamlingError as error:
            if self._was_writable:
                log.warning("the server is not ready: %s", error.with_causes)
            self._was_writable = False
        else:
            self._was_writable = True
        finally:
            self._ended.set()
