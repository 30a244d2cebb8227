"""The commands that tests start: their settings, and a pipeline as a process that tests stop, kill and restart."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.harness.pipelines import eventually

#: A fifth less CPU time: the optimizing compiler never pays off in processes that live for seconds.
QUICK_JVM = {"STREAMLING__SPARK__CONF__spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}

#: section of a pipeline file → name of a node → its fields
Nodes = dict[str, dict[str, Any]]


class Command:
    """``streamling run`` in a folder of its own, which gets its log and, as ``printed``, its standard output."""

    def __init__(self, folder: Path, env: Mapping[str, str], *options: str) -> None:
        self._folder = folder
        self._options = options
        self._env = {**os.environ, **QUICK_JVM, **env}
        self._process: subprocess.Popen[bytes] | None = None

    def write(self, nodes: Nodes) -> None:
        (self._folder / "pipeline.yaml").write_text(json.dumps(nodes))

    def start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "streamling", "run", "pipeline.yaml", *self._options]
        with (self._folder / "printed").open("ab") as output, (self._folder / "log.txt").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self._folder, env=self._env, stdout=output, stderr=log)
        return self._process

    def log(self) -> str:
        return (self._folder / "log.txt").read_text()

    def eventually(self, condition: Callable[[], bool], seconds: float = 120) -> None:
        """Wait for what the running pipeline does."""
        assert self._process is not None
        eventually(condition, seconds, lambda: self.log()[-6000:], self._process)

    def drain(self, seconds: float = 40) -> None:
        assert self._process is not None
        self._process.terminate()
        self.wait(seconds)

    def wait(self, seconds: float) -> None:
        """For a successful end."""
        assert self._process is not None
        assert self._process.wait(seconds) == 0, self.log()[-6000:]

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """With -9, while it runs."""
        assert self._process is not None
        assert self._process.poll() is None, self.log()[-6000:]
        self.end()

    def end(self) -> None:
        """Leave nothing behind, whatever happened."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
