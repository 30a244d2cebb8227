"""A single `streamling run`, for the tests of its console."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.harness.commands import QUICK_JVM

TOKEN = "operator-0123456789"
_PIPELINE = """
sources:
  orders: {type: file, format: csv, path: data, primary_key: id}
sinks:
  out: {type: print, from: orders}
"""
_ADDRESS = re.compile(r"admin API: (http://\S+)")


@contextmanager
def running(folder: Path, name: str, rows: str) -> Iterator[str]:
    """A run of the pipeline ``name`` over ``rows``; yields the address of its admin API."""
    (folder / "data").mkdir()
    (folder / "data" / "orders.csv").write_text(rows)
    (folder / f"{name}.yaml").write_text(_PIPELINE)
    env = {**os.environ, **QUICK_JVM, "STREAMLING__ADMIN_API_PORT": "0", "STREAMLING__ADMIN_API_TOKEN": TOKEN}
    command = [sys.executable, "-m", "streamling", "run", f"{name}.yaml"]
    log = folder / "log.txt"
    with log.open("wb") as stderr:
        process = subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=stderr)
    try:
        yield _address(process, log)
    finally:
        process.kill()
        process.wait()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + 90
    while (found := _ADDRESS.search(log.read_text())) is None:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
    return found[1]
