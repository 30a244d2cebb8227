"""The quickstart, unchanged, on one machine and on a cluster: the same file, the same rows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.commands import QUICK_JVM
from tests.paths import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.slow, pytest.mark.soak]


def rows(state: Path, master: str) -> list[dict[str, object]]:
    env = {
        **os.environ,
        **QUICK_JVM,
        "STREAMLING__SPARK__MASTER": master,
        "STREAMLING__STATE_BACKEND__SQLITE__DATABASE_PATH": str(state),
    }
    command = [sys.executable, "-m", "streamling", "run", "examples/quickstart/pipeline.yaml"]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return sorted(map(json.loads, done.stdout.splitlines()), key=lambda row: row["order_id"])


def test_the_same_file_gives_the_same_rows_on_a_cluster(tmp_path, cluster):
    here = rows(tmp_path / "local.db", "local[*]")
    there = rows(tmp_path / "cluster.db", cluster.master)
    assert len(here) == 9
    assert here == there
