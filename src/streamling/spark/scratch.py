"""A folder for temporary files of one Spark run, removed at its end or, after a crash, by the next start."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

_PREFIX = "streamling-spark-"
_LOCK = "in-use"


class Scratch:
    """A private folder under the system's temporary one.

    A lock file marks it as in use. The lock ends with the processes that hold it, however they end, and unlike a
    process id it is valid in every container that shares the temporary folder. The JVM inherits it too: if we were
    killed while it starts and the folder was removed, it could not write its port, and would listen forever.
    """

    def __init__(self, parent: Path | None = None) -> None:
        # Short: a unix socket inside must fit in 104 characters.
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        unlocked = self.path / "lock"
        self.lock = os.open(unlocked, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        unlocked.rename(self.path / _LOCK)  # visible to `sweep` only once it is locked

    def remove(self) -> None:
        """Delete the folder and everything in it; idempotent."""
        if self.lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self.lock)
            self.lock = -1


def sweep(parent: Path | None = None) -> list[Path]:
    """Remove the folders of runs that were killed; return the removed ones."""
    swept = []
    for folder in (parent or Path(tempfile.gettempdir())).glob(f"{_PREFIX}*"):
        try:
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
        except OSError:  # not ours, another user's, or being created
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
            swept.append(folder)
        except BlockingIOError:
            pass
        finally:
            os.close(lock)
    return swept
