"""The command that runs a pipeline, as a process that tests stop, kill and start again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.harness.commands import QUICK_JVM

#: section of a pipeline file → name of a node → its fields
Nodes = dict[str, dict[str, Any]]


class Command:
    """``streamling run`` in a folder of its own."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self._folder = folder
        self._env = {**os.environ, **QUICK_JVM, **env}
        self._process: subprocess.Popen[bytes] | None = None

    def write(self, nodes: Nodes) -> None:
        (self._folder / "pipeline.yaml").write_text(json.dumps(nodes))

    def start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "streamling", "run", "pipeline.yaml"]
        with (self._folder / "log.txt").open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=self._folder, env=self._env, stdout=subprocess.DEVNULL, stderr=log
            )
        return self._process

    def log(self) -> str:
        return (self._folder / "log.txt").read_text()

    def eventually(self, condition: Callable[[], bool], seconds: float = 120) -> None:
        """Wait for what the running pipeline does."""
        assert self._process is not None
        deadline = time.monotonic() + seconds
        while not condition():
            assert self._process.poll() is None, self.log()[-3000:]
            assert time.monotonic() < deadline, self.log()[-3000:]
            time.sleep(0.3)

    def drain(self) -> None:
        assert self._process is not None
        self._process.terminate()
        self.wait(40)

    def wait(self, seconds: float) -> None:
        """For a successful end."""
        assert self._process is not None
        assert self._process.wait(seconds) == 0, self.log()[-3000:]

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """With -9, while it runs."""
        assert self._process is not None
        assert self._process.poll() is None, self.log()[-3000:]
        self.end()

    def end(self) -> None:
        """Leave nothing behind, whatever happened."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
