"""The memory of the machine, of this process and of its JVM."""

from __future__ import annotations

import os
import resource
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MEGABYTE = 2**20


def total_memory_mb() -> int | None:
    """Return the memory of the machine, or of the container if that is less; None if the system does not report it."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
        total = min(total, int(limit)) if limit.isdigit() else total
    except OSError:
        pass
    return total // _MEGABYTE


def python_megabytes() -> float | None:
    """Return the memory of this process; where the system does not report it, its peak."""
    current = _resident(os.getpid())
    if current is not None:
        return current
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (_MEGABYTE if sys.platform == "darwin" else 1024), 1)


def jvm_megabytes(session: SparkSession) -> float | None:
    """Return the memory of the JVM; None if the system does not report it."""
    return _resident(_jvm_process(session))


@cache
def _jvm_process(session: SparkSession) -> int:
    jvm: Any = session._jvm
    return int(jvm.java.lang.ProcessHandle.current().pid())


def _resident(process: int) -> float | None:
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return round(pages * os.sysconf("SC_PAGE_SIZE") / _MEGABYTE, 1)
