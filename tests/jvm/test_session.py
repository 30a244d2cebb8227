"""A real Spark, each in a separate process."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.harness.script import Outcome, run_python, start_python

pytestmark = pytest.mark.spark

START = """
import os, sys
from pathlib import Path
from streamling.jvm.session import SparkRuntime
from streamling.jvm.timings import Timings
from streamling.errors import StreamlingError

def start(**wanted):
    return SparkRuntime.start(**{"master": "local[2]", "quick": True, "cache_dir": Path(CACHE), **wanted})
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """The user's working directory."""
    folder = tmp_path / "here"
    folder.mkdir()
    return folder


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    return folder


def code(cache_dir: Path, body: str) -> str:
    return f"CACHE = {str(cache_dir)!r}\n{START}\n{body}"


def assert_clean(outcome: Outcome, said: str) -> None:
    assert (outcome.status, outcome.out.strip(), outcome.err) == (0, said, "")


def is_running(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def wait_for_end(pid: int) -> None:
    deadline = time.monotonic() + 60
    while is_running(pid):
        assert time.monotonic() < deadline, f"process {pid} still runs"
        time.sleep(0.05)


def test_sessions_one_after_another_leave_nothing_behind(cache_dir: Path, here: Path, scratch: Path) -> None:
    body = """
for number in (1, 2):
    runtime = start()
    session = runtime.session()
    moment = session.sql("SELECT CAST('2024-01-01 00:00:00' AS timestamp) AS t").toArrow()
    assert moment.schema.field("t").type.tz == "UTC"
    try:
        session.sql('SELECT 1 / 0 AS "x y"').toArrow()
    except Exception as error:
        assert "DIVIDE_BY_ZERO" in str(error), error
    session.range(10).createOrReplaceTempView("ten")
    session.createDataFrame(session.sql("SELECT * FROM ten").toArrow()).write.format("noop").mode("append").save()
    assert session.sparkContext.defaultParallelism == 2
    pid = runtime._jvm.process.pid
    runtime.stop()
    runtime.stop()
    assert not runtime.alive() and runtime.failure() is None
    assert not Path(f"/proc/{pid}").exists()
assert not {"pandas", "numpy"} & sys.modules.keys()
print("done")
"""
    outcome = run_python(code(cache_dir, body), cwd=here, env={"TMPDIR": str(scratch)})
    assert_clean(outcome, "done")
    assert list(here.iterdir()) == []
    assert list(scratch.iterdir()) == []


def test_the_user_s_spark_environment_is_ignored_and_kept(cache_dir: Path, here: Path) -> None:
    hostile = {
        "SPARK_HOME": "/nowhere",
        "SPARK_CONF_DIR": "/nowhere",
        "SPARK_REMOTE": "sc://nowhere",
        "SPARK_CONNECT_MODE_ENABLED": "1",
        "PYSPARK_SUBMIT_ARGS": "--master yarn nonsense",
        "PYSPARK_PYTHON": "/nowhere/python",
        "PYSPARK_PIN_THREAD": "false",
    }
    body = f"""
hostile = {hostile!r}
runtime = start(conf={{"spark.sql.session.timeZone": "Asia/Tokyo"}})
session = runtime.session()
assert session.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
from streamling.spark.arrow_map import map_in_arrow
assert map_in_arrow(session.range(3).toDF("a.b"), lambda batches: batches, "`a.b` bigint").toArrow().num_rows == 3
runtime.stop()
assert {{name: os.environ[name] for name in hostile}} == hostile
assert "PYSPARK_GATEWAY_SECRET" not in os.environ
print("done")
"""
    assert_clean(run_python(code(cache_dir, body), cwd=here, env=hostile), "done")


def test_everything_listens_on_loopback(cache_dir: Path, here: Path) -> None:
    body = """
runtime = start()
runtime.session().range(1).toArrow()
pid = runtime._jvm.process.pid
inodes = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
addresses = set()
for table in ("tcp", "tcp6"):
    for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
        words = line.split()
        if words[3] == "0A" and f"socket:[{words[9]}]" in inodes:
            addresses.add(words[1].split(":")[0])
runtime.stop()
print(addresses and addresses <= {"0100007F", "0000000000000000FFFF00000100007F"})
"""
    assert_clean(run_python(code(cache_dir, body), cwd=here), "True")


def test_a_concurrent_second_start_is_rejected_without_side_effects(cache_dir: Path, here: Path) -> None:
    body = """
first = start()
first.session()
second = start()
try:
    second.session()
except StreamlingError as error:
    print(error)
second.stop()
assert first.session().range(3).count() == 3
first.stop()
"""
    assert_clean(
        run_python(code(cache_dir, body), cwd=here),
        "Spark is already running in this process, and PySpark allows only one at a time",
    )


def test_stopping_before_the_session_is_ready_works(cache_dir: Path, here: Path, scratch: Path) -> None:
    body = """
runtime = start()
runtime.stop()
try:
    runtime.session()
except StreamlingError as error:
    print("Spark could not start" in str(error))
"""
    assert_clean(run_python(code(cache_dir, body), cwd=here, env={"TMPDIR": str(scratch)}), "True")
    assert list(scratch.iterdir()) == []


def test_the_last_output_of_the_jvm_explains_a_failed_start(cache_dir: Path, here: Path) -> None:
    body = """
runtime = start(conf={"spark.driver.extraJavaOptions": "-XX:+NoSuchThing"})
try:
    runtime.session()
except StreamlingError as error:
    print(error, "|", error.remedy)
runtime.stop()
"""
    assert_clean(
        run_python(code(cache_dir, body), cwd=here),
        "Spark could not start: Java does not know one of its options | check spark.driver.extraJavaOptions",
    )


def test_a_setting_that_spark_rejects_is_an_error_in_one_line(cache_dir: Path, here: Path) -> None:
    body = """
runtime = start(master="local[nonsense]")
try:
    runtime.session()
except StreamlingError as error:
    print(error)
runtime.stop()
again = start()
again.session()
again.stop()
"""
    outcome = run_python(code(cache_dir, body), cwd=here)
    assert outcome.err == ""
    assert "local[nonsense]" in outcome.out
    assert len(outcome.out.splitlines()) == 1


def test_a_jvm_that_dies_is_noticed(cache_dir: Path, here: Path) -> None:
    body = """
import os, signal, time
runtime = start()
session = runtime.session()
assert runtime.alive() and runtime.failure() is None
os.kill(runtime._jvm.process.pid, signal.SIGKILL)
while runtime.alive():
    time.sleep(0.01)
print(runtime.failure())
try:
    session.range(1).count()
except Exception:
    pass
runtime.stop()
"""
    assert_clean(run_python(code(cache_dir, body), cwd=here), "Spark stopped: its JVM ended with signal 9")


def test_the_jvm_ends_when_python_is_killed(cache_dir: Path, here: Path) -> None:
    body = """
import time
runtime = start()
runtime.session()
print(runtime._jvm.process.pid, flush=True)
time.sleep(600)
"""
    with start_python(code(cache_dir, body), cwd=here) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert is_running(pid)
        os.kill(process.pid, signal.SIGKILL)
        wait_for_end(pid)


def test_a_forgotten_runtime_ends_with_the_process(cache_dir: Path, here: Path, scratch: Path) -> None:
    body = """
runtime = start()
runtime.session().range(1).count()
print(runtime._jvm.process.pid)
"""
    outcome = run_python(code(cache_dir, body), cwd=here, env={"TMPDIR": str(scratch)})
    assert (outcome.status, outcome.err) == (0, "")
    assert not is_running(int(outcome.out))
    assert list(scratch.iterdir()) == []


def test_the_phases_of_a_start_are_timed(cache_dir: Path, here: Path) -> None:
    body = """
timings = Timings()
runtime = start(timings=timings)
runtime.session()
runtime.stop()
print(", ".join(phase.name for phase in timings.phases()))
"""
    assert_clean(
        run_python(code(cache_dir, body), cwd=here),
        "JVM launched, import PySpark, wait for the JVM, build the session, session ready",
    )


def test_wrong_sql_prints_nothing_by_itself(cache_dir: Path, here: Path) -> None:
    body = """
runtime = start()
try:
    runtime.session().sql("SELECT nothing")
except Exception as error:
    print(error.getCondition())
runtime.stop()
"""
    assert_clean(run_python(code(cache_dir, body), cwd=here), "UNRESOLVED_COLUMN.WITHOUT_SUGGESTION")
