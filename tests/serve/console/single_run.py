"""A single `streamling run`, for the tests of its console."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.harness.commands import QUICK_JVM
from tests.harness.pipelines import eventually

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
    return str(eventually(lambda: _ADDRESS.search(log.read_text()), 90, log.read_text, process)[1])
