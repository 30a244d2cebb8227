"""What each pipeline costs: its tasks, and its threads."""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from streamling.observe.telemetry.logging import current_pipeline
from streamling.tasks import running_tasks
from streamling.threads import ContextThread

#: seconds for which a measurement is used again: a list asks for all pipelines at once
_FRESH_SECONDS = 1.0


@dataclass
class ThreadCosts:
    threads: int = 0
    #: None where the operating system does not say
    cpu_seconds: float | None = None

    def add(self, threads: int, cpu_seconds: float | None) -> None:
        self.threads += threads
        if cpu_seconds is not None:
            self.cpu_seconds = (self.cpu_seconds or 0.0) + cpu_seconds


class ThreadMeter:
    """The costs of all pipelines of the process. Called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._measured: Mapping[str, ThreadCosts] = {}
        self._measured_at = float("-inf")

    def costs(self, pipeline: str) -> ThreadCosts:
        """Return how many threads work for ``pipeline``, and the CPU time that it has used. Spark jobs are not
        included."""
        with self._lock:
            if time.monotonic() - self._measured_at > _FRESH_SECONDS:
                self._measured, self._measured_at = _measure(), time.monotonic()
            return self._measured.get(pipeline, ThreadCosts())


def _measure() -> Mapping[str, ThreadCosts]:
    found: dict[str, ThreadCosts] = defaultdict(ThreadCosts)
    for thread in threading.enumerate():
        if isinstance(thread, ContextThread) and (pipeline := thread.context.get(current_pipeline)):
            found[pipeline].add(1, _cpu_seconds(thread.native_id))
    for task in running_tasks():
        if pipeline := task.context.get(current_pipeline):
            found[pipeline].add(int(task.has_thread), task.cpu_seconds)
    return found


def _cpu_seconds(native_id: int | None) -> float | None:
    with suppress(OSError, ValueError, IndexError):
        # the name, in parentheses, may contain spaces
        fields = Path(f"/proc/self/task/{native_id}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return None
