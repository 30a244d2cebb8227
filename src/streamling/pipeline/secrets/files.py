"""Private files: readable by their owner only, replaced as a whole, changed by one process at a time."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from streamling.errors import StreamlingError


@contextmanager
def locked_file(path: Path) -> Iterator[None]:
    """Keep other processes and threads that also call this from changing ``path``. Its folder is created if it is
    missing. The lock is on a file next to it, because ``path`` itself is replaced."""
    lock = path.with_name(f".{path.name}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        number = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unusable(lock, "written", error) from None
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


def read_file(path: Path) -> str | None:
    """Return the text of ``path``; None if it does not exist."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(path, "read", error) from None


def replace_file(path: Path, text: str) -> None:
    """Write ``path`` so that a crash leaves the old or the new text, never a part of it."""
    try:
        number, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # with mode 0600
    except OSError as error:
        raise _unusable(path, "written", error) from None
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            raise _unusable(path, "written", error) from None
        raise


def _sync_folder(folder: Path) -> None:
    """Make a renamed file durable."""
    number = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _unusable(path: Path, verb: str, error: OSError) -> StreamlingError:
    return StreamlingError.user(
        f"{path} cannot be {verb}: {error.strerror or error}",
        remedy="give this user access to it, or choose another path in secret_store",
    )
