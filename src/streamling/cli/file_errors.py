"""Turns errors of files and folders into user errors."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streamling.errors import StreamlingError

_REASONS = {
    errno.EACCES: "no permission",
    errno.EPERM: "no permission",
    errno.EROFS: "the file system is read-only",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.ENOTDIR: "part of the path is a file",
    errno.EEXIST: "a file with that name exists",
    errno.EISDIR: "it is a folder",
    errno.ENAMETOOLONG: "the name is too long",
}


@contextmanager
def file_errors(folder: Path, remedy: str) -> Iterator[None]:
    """Turn an `OSError` inside the block into a user error with the path, the reason and the ``remedy``. ``folder`` is
    used when the system reports no path."""
    try:
        yield
    except OSError as error:
        path = error.filename if isinstance(error.filename, str | Path) else folder
        reason = _REASONS.get(error.errno or 0) or error.strerror or str(error)
        raise StreamlingError.user(f"'{path}' cannot be used: {reason}", remedy=remedy) from None
