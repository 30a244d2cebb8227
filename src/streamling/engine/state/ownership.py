"""Lets one process at a time use the state file of a pipeline.

Two processes would deliver every row twice, and the slower one would overwrite the newer position with its older one.
The operating system holds the lock, so it is released however the process ends.
"""

from __future__ import annotations

import fcntl
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streamling.errors import StreamlingError


@contextmanager
def lock_state(database: Path, identity: str) -> Iterator[None]:
    """Lock the entries of ``identity`` in ``database`` for this process while the block runs."""
    path = database.with_name(f"{database.name}-{re.sub(r'[^A-Za-z0-9._-]', '_', identity)}.lock")
    file = _locked(path, database, identity)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # while it is still locked: no other process can have locked it
        os.close(file)


def _locked(path: Path, database: Path, identity: str) -> int:
    while True:
        file = _opened(path)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(path, file):  # its last owner may have just removed it
                os.truncate(file, 0)
                os.write(file, _who().encode())
                return file
        except BlockingIOError:
            owner = os.pread(file, 1000, 0).decode(errors="replace") or "another process"
            os.close(file)
            raise StreamlingError.user(
                f"the state of '{identity}' in {database} is in use by {owner}",
                remedy="stop that process first; two pipelines on one state need different application_ids",
            ) from None
        except OSError:
            os.close(file)
            raise
        os.close(file)


def _opened(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        is_below_file = isinstance(error, FileExistsError | NotADirectoryError)
        reason = f"{path.parent} is not a folder" if is_below_file else f"{path}: {error.strerror}"
        raise StreamlingError.user(
            f"the state cannot be locked: {reason}",
            remedy="make the folder of state_backend.sqlite.database_path writable, or choose another one",
        ) from None


def _is_at(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False


def _who() -> str:
    words = [os.path.basename(sys.argv[0]), *sys.argv[1:]] if sys.argv else ["streamling"]
    return f"process {os.getpid()} ({' '.join(words)[:200]})"
