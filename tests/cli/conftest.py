"""The command line, called in this process or as a real command."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from pathlib import Path

import pytest

from streamling.cli.main import main
from tests.harness.commands import QUICK_JVM

PIPELINE = """\
sources:
  orders:
    type: file
    path: orders
    format: csv
    mode: {type: bounded}
    primary_key: id
transforms:
  large:
    type: sql
    primary_key: id
    sql: SELECT id, item, price * 2 AS price FROM orders WHERE price > 1
sinks:
  screen: {type: print, from: large}
"""
BROKEN = PIPELINE.replace("from: large", "from: lage")


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


class Project:
    """A folder with a pipeline, and the command line called in it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str] | None = None) -> None:
        self.folder = folder
        self._capsys = capsys
        (folder / "orders").mkdir()
        self.write("orders/a.csv", "id,item,price\n1,tea,1.5\n2,jam,0.5\n3,rice,2.5\n")
        self.write("pipeline.yaml", PIPELINE)

    def at(self, folder: Path) -> Project:
        """The same in a copy of the folder."""
        moved = copy(self)
        moved.folder = folder
        return moved

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def call(self, *args: str) -> Result:
        """In this process: for everything that starts no JVM."""
        assert self._capsys is not None
        self._capsys.readouterr()
        code = main(args)
        out, err = self._capsys.readouterr()
        return Result(int(code), out, err)

    def command(self, *args: str, **env: str) -> Result:
        """As a separate process."""
        done = subprocess.run(
            command_line(*args), cwd=self.folder, env={**command_environment(), **env},
            capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        return Result(done.returncode, done.stdout, done.stderr)


def command_line(*args: str) -> list[str]:
    return [sys.executable, "-m", "streamling", *args]


def command_environment() -> dict[str, str]:
    """For a command that runs a pipeline."""
    return {**clean_environment(), **QUICK_JVM}


def clean_environment() -> dict[str, str]:
    """The environment without variables that would configure a pipeline or a terminal; it runs the code under test."""
    ours = ("STREAMLING", "OTEL_", "RUST_LOG", "NO_COLOR", "COLUMNS", "PYTHON")
    return {name: value for name, value in os.environ.items() if name == "PYTHONPATH" or not name.startswith(ours)}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Project]:
    """A project as the working directory; logging is restored afterwards."""
    for name in set(os.environ) - set(clean_environment()):
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    logger = logging.getLogger("streamling")
    before = logger.handlers, logger.level, logger.propagate
    yield Project(tmp_path, capsys)
    logger.handlers, logger.level, logger.propagate = before
