"""What fails on an executor is reported as if it had failed on this machine: the node, the cause, what to do."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.cluster import failing
from tests.cluster.matrix import write_files
from tests.harness.endpoint import Reply, endpoint
from tests.harness.script import run_python
from tests.paths import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.slow]

#: cases that are the same everywhere; the others are about executors
EVERYWHERE = [name for name in failing.CASES if name != "exit"]


def failures_on_cluster(folder: Path, master: str, dsn: str, port: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.cluster.failing"]
    conf = {"spark.archives": f"{folder / 'env.tar.gz'}#env"}
    order = {"master": master, "folder": str(folder), "dsn": dsn, "port": port, "conf": conf}
    text = json.dumps({**order, "pythons": pythons(folder)})
    done = subprocess.run([*command, text], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return without_row_numbers(json.loads(done.stdout.splitlines()[-1]))


def without_row_numbers(errors: dict[str, Any]) -> dict[str, Any]:
    """How the rows were divided into batches is not compared."""
    return dict(json.loads(re.sub(r"row \d+ of the batch", "…", json.dumps(errors))))


def pythons(folder: Path) -> dict[str, str]:
    """Programs that workers might have as Python."""
    older, bare = folder / "older", folder / "bare"
    (older / "streamling").mkdir(parents=True)
    (older / "streamling" / "__init__.py").write_text('__version__ = "0.0.1"\n')
    bare.mkdir()
    for package in ("pyspark", "py4j"):
        found = importlib.util.find_spec(package)
        assert found is not None
        assert found.origin is not None
        (bare / package).symlink_to(Path(found.origin).parent)
    scripts = {
        "same": f'exec {sys.executable} "$@"',
        "older": f'PYTHONPATH={older}:$PYTHONPATH exec {sys.executable} "$@"',
        "bare": f'PYTHONPATH={bare} exec {sys._base_executable} "$@"',  # type: ignore[attr-defined]
    }
    for name, script in scripts.items():
        (folder / f"{name}.sh").write_text(f"#!/bin/sh\n{script}\n")
        (folder / f"{name}.sh").chmod(0o755)
    with tarfile.open(folder / "env.tar.gz", "w:gz") as archive:
        archive.add(folder / "same.sh", "bin/python")
    paths = {name: str(folder / f"{name}.sh") for name in scripts}
    return {**paths, "absent": "/no/such/python", "shipped": "./env/bin/python"}


@pytest.fixture(scope="module")
def both(tmp_path_factory, cluster, postgres, spark) -> tuple[dict[str, Any], dict[str, Any]]:
    folder = tmp_path_factory.mktemp("failing")
    write_files(folder)
    with psycopg.connect(postgres.dsn) as connection:
        connection.execute("CREATE SCHEMA failing")
        columns = "id BIGINT PRIMARY KEY CHECK (id <> 77), item TEXT, price DOUBLE PRECISION, quantity BIGINT"
        connection.execute(f"CREATE TABLE failing.limited ({columns})".encode())
    with endpoint(lambda request: Reply(400)) as server, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        here = failing.failures(spark, "local[2]", postgres.dsn, server.port, EVERYWHERE)
        return without_row_numbers(here), failures_on_cluster(folder, cluster.master, postgres.dsn, server.port)


@pytest.mark.parametrize("case", EVERYWHERE)
def test_a_failure_on_an_executor_reads_as_a_local_one(both, case):
    here, there = both
    assert "'node'" in here[case]["message"]
    assert there[case] == here[case]


def test_a_lost_executor_is_named_with_its_worker(both):
    lost = both[1]["exit"]
    assert re.search(r"worker 127\.0\.0\.1 \(executor \d+\): the executor was lost", lost["message"])
    assert "spark.executor.memory" in lost["remedy"]
    assert lost["causes"] == []


@pytest.mark.parametrize("python", ["same", "shipped"])
def test_workers_with_the_same_packages_are_accepted(both, python):
    assert both[1][python] is None


@pytest.mark.parametrize(
    ("python", "message"),
    [
        ("older", r"worker \S+ cannot run the pipeline: its Python \(\S+\) has streamling 0\.0\.1, the driver has \S+"),
        ("bare", r"worker \S+ cannot run the pipeline: its Python \(\S+\) has no streamling, .*pyarrow.*"),
        ("absent", r"worker 127\.0\.0\.1 \(executor \d+\): there is no Python at '/no/such/python'"),
    ],
)
def test_a_worker_that_cannot_run_python_operators_is_named_at_the_start(both, python, message):
    refused = both[1][python]
    assert re.fullmatch(message, refused["message"])
    assert "spark.pyspark.python" in refused["remedy"]
    assert refused["causes"] == []


def test_a_cluster_without_room_is_reported_while_the_pipeline_waits(cluster, tmp_path):
    code = f"""
import os
from streamling.pipeline.config.core import default_cache_dir
from streamling.spark.jvm.session import SparkDriver
from streamling.spark.jvm.workers import WorkerCheck
conf = {{"spark.executor.memory": "64g"}}
runtime = SparkDriver.start(master={cluster.master!r}, conf=conf, cache_dir=default_cache_dir(os.environ), quick=True)
session = runtime.session()
import logging, threading, time
logging.basicConfig(level="WARNING")
check = WorkerCheck(session, needs_python=True, warn_after=1)
began = time.monotonic()
check.wait(lambda: time.monotonic() - began > 5)
runtime.stop()
"""
    said = run_python(code, cwd=tmp_path).err
    assert "no executor has started after 1 s" in said
    assert "spark.executor.memory = 64g" in said
