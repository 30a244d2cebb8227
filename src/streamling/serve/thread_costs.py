"""What the Python threads of a pipeline cost."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from streamling.telemetry.logging import current_pipeline
from streamling.threads import ContextThread


@dataclass(frozen=True)
class ThreadCosts:
    threads: int
    #: None where the operating system does not say
    cpu_seconds: float | None


def thread_costs(pipeline: str) -> ThreadCosts:
    """The running threads of ``pipeline`` and the CPU time that they have used. Spark's tasks run in the JVM and are
    not included."""
    found = [
        thread
        for thread in threading.enumerate()
        if isinstance(thread, ContextThread) and thread.context.get(current_pipeline) == pipeline
    ]
    times = [_cpu_seconds(thread.native_id) for thread in found]
    known = [seconds for seconds in times if seconds is not None]
    return ThreadCosts(len(found), sum(known) if known else None)


def _cpu_seconds(native_id: int | None) -> float | None:
    with suppress(OSError, ValueError, IndexError):
        # the name, in parentheses, may contain spaces
        fields = Path(f"/proc/self/task/{native_id}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return None
