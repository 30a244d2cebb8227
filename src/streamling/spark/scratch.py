"""A folder for what one Spark run leaves behind, removed at its end and, after a crash, by the next start."""

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

    A lock file says that it is in use. The lock goes with the processes that hold it, however they end, and unlike a
    process id it means the same to every container that shares the temporary folder. The JVM is given it too: when we
    are killed while it starts and the folder went under it, it could not write down where it listens, and would
    listen for ever.
    """

    def __init__(self, parent: Path | None = None) -> None:
        # Short: a unix socket inside must fit in 104 characters.
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        unlocked = self.path / "lock"
        self.lock = os.open(unlocked, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        unlocked.rename(self.path / _LOCK)  # seen by `sweep` only once it is locked

    def remove(self) -> None:
        """Delete the folder and everything in it; calling it again does nothing."""
        if self.lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self.lock)
            self.lock = -1


def sweep(parent: Path | None = None) -> list[Path]:
    """Remove the folders of runs that were killed. Returns what was removed."""
    swept = []
    for folder in (parent or Path(tempfile.gettempdir())).glob(f"{_PREFIX}*"):
        try:
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
        except OSError:  # not ours, of another user, or just being made
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
