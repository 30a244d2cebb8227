"""Runs a piece of Python in a process of its own: PySpark allows one Spark per process, and the run has its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

from tests.harness.pipelines import eventually
from tests.paths import ROOT

SOURCES = ROOT / "src"


@dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str


def is_running(pid: int) -> bool:
    """False also for a process that has ended and that nobody has waited for."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def wait_until_ended(pid: int) -> None:
    """Even a killed process takes a moment: the kernel releases its memory first."""
    eventually(lambda: not is_running(pid), 60, f"process {pid} is still running")


def start_python(code: str, *, cwd: Path, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """Start ``code``; warnings are errors in it, as in the tests."""
    paths = os.pathsep.join((str(SOURCES), str(ROOT)))
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": paths, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_python(code: str, *, cwd: Path, env: dict[str, str] | None = None) -> Outcome:
    with start_python(code, cwd=cwd, env=env) as process:
        out, err = process.communicate(timeout=240)
    return Outcome(process.returncode, out, err)
