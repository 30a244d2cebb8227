"""The environment of Spark's processes: what they need, and nothing that could be a secret."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from streamling.spark.arrow_map import map_in_arrow
from streamling.spark.jvm.environment import jvm_environment, needed_variables
from tests.conftest import CANARY, CANARY_VALUE

SECRETS = {
    "STREAMLING__POSTGRES_SINK__PASS": "s3cret",
    "STREAMLING__HTTP_SECRET_VALUE__PRICES": "s3cret",
    "AWS_SECRET_ACCESS_KEY": "s3cret",
    "AWS_SESSION_TOKEN": "s3cret",
    "PGPASSWORD": "s3cret",
    "GITHUB_TOKEN": "s3cret",
    "HTTPS_PROXY": "http://me:s3cret@proxy:3128",
    CANARY: "s3cret",
}


def test_no_secret_is_passed_on() -> None:
    env = jvm_environment("local[2]", {**SECRETS, "PATH": "/bin", "LC_ALL": "C.UTF-8", "TMPDIR": "/big"})
    assert "s3cret" not in str(env)
    assert (env["PATH"], env["LC_ALL"], env["TMPDIR"]) == ("/bin", "C.UTF-8", "/big")


def test_the_user_names_further_variables() -> None:
    passed = needed_variables({**SECRETS, "ACME": "1"}, ("AWS_*", "ACME"))
    assert set(passed) == {"AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "ACME"}


def test_variables_that_run_code_in_workers_are_never_passed() -> None:
    assert needed_variables({"PYTHONSTARTUP": "/x.py", "SPARK_CONF_DIR": "/x", "PYTHONINSPECT": "1"}, ("*",)) == {}


def test_an_empty_entry_of_pythonpath_would_be_the_working_directory() -> None:
    paths = jvm_environment("local", {"PYTHONPATH": f"{os.pathsep}/mine{os.pathsep}"})["PYTHONPATH"].split(os.pathsep)
    assert paths[1:] == ["/mine"]


@pytest.mark.spark
def test_a_secret_variable_is_visible_nowhere_in_spark(runtime, spark) -> None:
    jvm = Path(f"/proc/{runtime._jvm.process.pid}/environ").read_bytes()
    assert b"PYSPARK_PYTHON=" in jvm, "the file was read"
    assert CANARY_VALUE.encode() not in jvm
    assert CANARY_VALUE not in str(spark._jvm.System.getenv())
    assert CANARY_VALUE not in str(spark.sparkContext._conf.getAll())
    worker = map_in_arrow(spark.range(1), _look_around, "environment string, path string, safe boolean").toArrow()
    seen = worker.to_pylist()[0]
    assert "PYSPARK_PYTHON" in seen["environment"]
    assert CANARY not in seen["environment"]
    assert CANARY_VALUE not in seen["environment"]
    assert seen["safe"], "the working directory is not on the workers' path"
    assert "" not in seen["path"].split("|")
    assert seen["path"].split("|")[0] != os.getcwd()
    text = spark.newSession()
    text.conf.set("spark.sql.variable.substitute", "true")  # a second line of defence: there is nothing to substitute
    assert CANARY_VALUE not in str(text.sql(f"SELECT '${{env:{CANARY}}}'").toArrow())


def _look_around(batches):
    for _ in batches:
        yield pa.RecordBatch.from_pylist(
            [{"environment": str(dict(os.environ)), "path": "|".join(sys.path), "safe": bool(sys.flags.safe_path)}]
        )
