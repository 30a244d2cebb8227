"""Idle: the resources of a pipeline without new rows."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.children import STREAMLING, RunningProcess, running, twin
from benchmarks.figures import Figure, Goal, Unit
from benchmarks.sizes import Sizes
from benchmarks.usage import usage
from benchmarks.workbench import Scenario

_CPU_GOAL = Goal(bound=3.0)
_MEMORY_GOAL = Goal(bound=650.0)
_BOUNDED, _CONTINUOUS = "mode: {type: bounded}", "mode: {type: continuous}"
_LINES_PIPELINE = """
sources:
  lines: {{type: bench.lines, port: {port}, primary_key: value}}
transforms: {{}}
sinks:
  screen: {{type: print, from: lines}}
"""


@dataclass(frozen=True)
class _Idle:
    """Per cent of a core, and megabytes: in total, and of the Python process alone."""

    cpu: float
    memory: float
    python: float


class Idle(Scenario):
    """Two idle pipelines: one that polls for files, and a stream that Spark paces."""

    title = "idle"
    needs_proc = True

    @staticmethod
    def steps(sizes: Sizes, has_pyspark: bool) -> int:
        return 4 if has_pyspark else 2

    def figures(self) -> list[Figure]:
        files = [self._files("ours")] + ([self._files("by hand")] if self._bench.has_pyspark else [])
        lines = [self._lines("ours")] + ([self._lines("by hand")] if self._bench.has_pyspark else [])
        return [
            self._figure("quickstart, waiting for files", Unit.CORE, [one.cpu for one in files], _CPU_GOAL),
            self._figure("stream, waiting for rows", Unit.CORE, [one.cpu for one in lines], _CPU_GOAL),
            self._figure("quickstart, JVM + Python", Unit.MEGABYTES, [one.memory for one in files], _MEMORY_GOAL),
            self._figure("quickstart, of it Python", Unit.MEGABYTES, [one.python for one in files], None),
            self._figure("stream, JVM + Python", Unit.MEGABYTES, [one.memory for one in lines], _MEMORY_GOAL),
        ]

    def _files(self, side: str) -> _Idle:
        self._bench.step(f"idle: quickstart, {side}")
        place = self._bench.place("idle")
        file = self._bench.quickstart(place, (_BOUNDED, _CONTINUOUS))
        ours = side == "ours"
        command = [*STREAMLING, "run", file] if ours else twin("quickstart", "examples/quickstart/orders", "forever")
        with running(command, cwd=place, env=self._bench.env) as process:
            process.line()
            return self._watch(process)

    def _lines(self, side: str) -> _Idle:
        self._bench.step(f"idle: stream, {side}")
        place = self._bench.place("idle")
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            with (
                running(self._lines_command(side, place, port), cwd=place, env=self._lines_env()) as process,
                _one_line(server),
            ):
                process.line()
                return self._watch(process)

    def _lines_command(self, side: str, place: Path, port: int) -> Sequence[str]:
        if side != "ours":
            return twin("socket_stream", port)
        (place / "pipeline.yaml").write_text(_LINES_PIPELINE.format(port=port), encoding="utf-8")
        return [*STREAMLING, "run", "pipeline.yaml"]

    def _lines_env(self) -> dict[str, str]:
        return {**self._bench.env, "STREAMLING__PLUGIN__PATH": str(Path(__file__).with_name("plugins.py"))}

    def _watch(self, process: RunningProcess) -> _Idle:
        sizes = self._bench.sizes
        time.sleep(sizes.settle_seconds)
        before, began = usage(process.pid), time.monotonic()
        time.sleep(sizes.idle_seconds)
        after, seconds = usage(process.pid), time.monotonic() - began
        return _Idle((after.cpu_seconds - before.cpu_seconds) / seconds * 100, after.memory_mb, after.own_mb)

    def _figure(self, name: str, unit: Unit, values: list[float], goal: Goal | None) -> Figure:
        return Figure(self.title, name, unit, values[:1], values[1:], goal=goal)


@contextmanager
def _one_line(server: socket.socket) -> Iterator[None]:
    """Send a single line to each client, and keep the connection open while the block runs."""
    server.settimeout(120)
    connection, _ = server.accept()
    with connection:
        connection.sendall(b"hello\n")
        yield
