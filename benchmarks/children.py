"""The measured processes: `streamling` itself, scripts in plain PySpark, and workers with a warm Spark session."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamling.errors import StreamlingError

STREAMLING = (sys.executable, "-m", "streamling")
TWINS = Path(__file__).parent / "twins"

#: maximum wait for the end of a process that was asked to stop
_STOP_SECONDS = 30.0


@dataclass(frozen=True)
class FinishedProcess:
    """One process from start to end; in seconds since its start."""

    first_line: float
    ended: float
    output: str
    errors: str
    code: int


def twin(name: str, *arguments: object) -> list[str]:
    """Return the command of a script in plain PySpark."""
    return [sys.executable, str(TWINS / f"{name}.py"), *map(str, arguments)]


def measure(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str], codes: tuple[int, ...] = (0,)
) -> FinishedProcess:
    """Run a process to its end; raises `StreamlingError` with its last output if it fails."""
    with (cwd / "stderr").open("w+") as errors:
        began = time.monotonic()
        with subprocess.Popen(
            command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process:
            assert process.stdout is not None
            first = process.stdout.readline()
            first_line = time.monotonic() - began
            rest = process.stdout.read()
            process.wait()
            ended = time.monotonic() - began
        errors.seek(0)
        words = errors.read()
    if process.returncode not in codes or not first:
        raise _failed(command, words)
    return FinishedProcess(first_line, ended, first + rest, words, process.returncode)


@contextmanager
def running(command: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> Iterator[RunningProcess]:
    """A process that runs until the block ends."""
    with (
        (cwd / "stderr").open("w+") as errors,
        subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield RunningProcess(process, cwd / "stderr")
        finally:
            _stop(process)


class RunningProcess:
    """A process that communicates line by line."""

    def __init__(self, process: subprocess.Popen[str], errors: Path) -> None:
        self._process = process
        self._errors = errors

    @property
    def pid(self) -> int:
        return self._process.pid

    def send_line(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def line(self) -> str:
        """Return the next line of its output; raises `StreamlingError` with its last output if it has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._failure()
        return line

    def check(self) -> None:
        """Raise `StreamlingError` with its last output if it has ended."""
        if self._process.poll() is not None:
            raise self._failure()

    def _failure(self) -> StreamlingError:
        assert isinstance(self._process.args, list)
        return _failed(self._process.args, self._errors.read_text())


def _stop(process: subprocess.Popen[str]) -> None:
    """Ask first: a killed process leaves a JVM and a folder behind."""
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)


class Worker:
    """A process with a warm Spark session that runs jobs one after another; see `benchmarks.worker`."""

    def __init__(self, process: RunningProcess) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    def check(self) -> None:
        """Raise `StreamlingError` with its last output if it has ended."""
        self._process.check()

    def do(self, **job: Any) -> Any:
        """Run the job and return its result."""
        self._process.send_line(json.dumps(job))
        return json.loads(self._process.line())


@contextmanager
def worker(kind: str, *spark_packages: str, cwd: Path, env: Mapping[str, str]) -> Iterator[Worker]:
    """A worker; ``kind`` says how its Spark is started, ``spark_packages`` what it loads."""
    folder = cwd / kind
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "benchmarks.worker", kind, *spark_packages]
    with running(command, cwd=folder, env=env) as process:
        yield Worker(process)


def _failed(command: Sequence[str], words: str) -> StreamlingError:
    name = " ".join(Path(word).name if word.startswith("/") else word for word in command)
    last = [line.strip() for line in words.splitlines() if line.strip()][-3:]
    return StreamlingError(f"the measured process failed: {name}", cause=RuntimeError("\n".join(last)))
