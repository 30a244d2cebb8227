"""A real Spark, in processes of their own: one for most tests, as each start of a JVM takes seconds."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.harness.script import is_running, run_python, start_python, wait_until_ended

pytestmark = pytest.mark.spark

#: variables of the user that must neither change our Spark nor be changed
HOSTILE = {
    "SPARK_HOME": "/nowhere",
    "SPARK_CONF_DIR": "/nowhere",
    "SPARK_REMOTE": "sc://nowhere",
    "SPARK_CONNECT_MODE_ENABLED": "1",
    "PYSPARK_SUBMIT_ARGS": "--master yarn nonsense",
    "PYSPARK_PYTHON": "/nowhere/python",
    "PYSPARK_PIN_THREAD": "false",
}

START = """
import json, os, signal, sys, time
from pathlib import Path
from streamling.errors import StreamlingError
from streamling.spark.jvm.session import SparkDriver
from streamling.spark.jvm.timings import Timings

def start(**wanted):
    return SparkDriver.start(**{"master": "local[2]", "quick": True, "cache_dir": Path(CACHE), **wanted})
"""

OBSERVATIONS = """
from streamling.spark.arrow_map import map_in_arrow

found = {}

def failure(runtime):
    try:
        runtime.session()
    except StreamlingError as error:
        return [str(error), error.remedy]

def listening(pid):
    inodes = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    addresses = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in inodes:
                addresses.add(words[1].split(":")[0])
    return sorted(addresses)

timings = Timings()
runtime = start(timings=timings)
session = runtime.session()
found["phases"] = [phase.name for phase in timings.phases()]
moment = session.sql("SELECT CAST('2024-01-01 00:00:00' AS timestamp) AS t").toArrow()
found["time zone"] = moment.schema.field("t").type.tz
for name, sql in (("division", 'SELECT 1 / 0 AS "x y"'), ("wrong SQL", "SELECT nothing")):
    try:
        session.sql(sql).toArrow()
    except Exception as error:
        found[name] = error.getCondition()
session.range(10).createOrReplaceTempView("ten")
session.createDataFrame(session.sql("SELECT * FROM ten").toArrow()).write.format("noop").mode("append").save()
found["cores"] = session.sparkContext.defaultParallelism
second = start()
found["second start"] = failure(second)
second.stop()
found["rows after the second start"] = session.range(3).count()
pid = runtime._jvm.process.pid
found["listening"] = listening(pid)
runtime.stop()
runtime.stop()
found["after stop"] = [runtime.alive(), runtime.failure(), Path(f"/proc/{pid}").exists()]

unready = start()
unready.stop()
found["stopped before it was ready"] = failure(unready)
unknown = start(conf={"spark.driver.extraJavaOptions": "-XX:+NoSuchThing"})
found["unknown option"] = failure(unknown)
unknown.stop()
rejected = start(master="local[nonsense]")
found["rejected setting"] = failure(rejected)
rejected.stop()

runtime = start(conf={"spark.sql.session.timeZone": "Asia/Tokyo"})
session = runtime.session()
found["configured time zone"] = session.conf.get("spark.sql.session.timeZone")
found["rows of a Python worker"] = map_in_arrow(
    session.range(3).toDF("a.b"), lambda batches: batches, "`a.b` bigint"
).toArrow().num_rows
found["alive"] = [runtime.alive(), runtime.failure()]
os.kill(runtime._jvm.process.pid, signal.SIGKILL)
while runtime.alive():
    time.sleep(0.01)
found["failure"] = str(runtime.failure())
try:
    session.range(1).count()
except Exception:
    pass
runtime.stop()
found["environment"] = dict(os.environ)

forgotten = start()
forgotten.session().range(1).count()
found["forgotten"] = forgotten._jvm.process.pid
found["modules"] = [name for name in ("pandas", "numpy") if name in sys.modules]
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Observed:
    """What one process saw of several Sparks, one after the other."""

    found: dict[str, Any]
    stderr: str
    #: the working directory and the folder for temporary files, afterwards
    left_behind: list[Path]


@pytest.fixture(scope="module")
def observed(cache_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Observed:
    here, scratch = (tmp_path_factory.mktemp(name) for name in ("here", "scratch"))
    outcome = run_python(code(cache_dir, OBSERVATIONS), cwd=here, env={**HOSTILE, "TMPDIR": str(scratch)})
    assert outcome.status == 0, outcome.err
    return Observed(json.loads(outcome.out), outcome.err, [*here.iterdir(), *scratch.iterdir()])


OUR_CLASSES = """
import pyarrow as pa
from streamling.connectors.kafka.local_plan import ArrowPlan, arrow_template
from streamling.serve.warm_spark import WarmSpark
from streamling.spark.row_counters import RowObservation, count_rows

runtime = start()
session = runtime.session()
counter = count_rows(session.range(10).toDF("id"))
counter.frame.collect()
batch = pa.RecordBatch.from_pydict({"id": [1, 2, 3]})
plan = ArrowPlan.of(arrow_template(session, batch.schema).where("id > 1"))
WarmSpark.add_pool(session, "default/orders", 4)
print(isinstance(counter, RowObservation), counter.rows(), plan.to_rows([batch]).count)
runtime.stop()
"""


def test_our_classes_exist_before_a_connector_is_downloaded(tmp_path: Path) -> None:
    outcome = run_python(code(tmp_path, OUR_CLASSES), cwd=tmp_path)
    assert (outcome.out, outcome.err) == ("False 10 2\n", "")


def code(cache_dir: Path, body: str) -> str:
    return f"CACHE = {str(cache_dir)!r}\n{START}\n{body}"


def test_sessions_one_after_another_leave_nothing_behind(observed: Observed) -> None:
    assert observed.stderr == ""
    assert observed.left_behind == []
    assert observed.found["after stop"] == [False, None, False]


def test_a_session_has_our_settings(observed: Observed) -> None:
    assert observed.found["time zone"] == "UTC"
    assert observed.found["cores"] == 2
    assert observed.found["division"] == "DIVIDE_BY_ZERO"


def test_wrong_sql_prints_nothing_by_itself(observed: Observed) -> None:
    assert observed.found["wrong SQL"] == "UNRESOLVED_COLUMN.WITHOUT_SUGGESTION"
    assert observed.stderr == ""


def test_pandas_and_numpy_are_not_imported(observed: Observed) -> None:
    assert observed.found["modules"] == []


def test_the_phases_of_a_start_are_timed(observed: Observed) -> None:
    phases = ["JVM launched", "import PySpark", "wait for the JVM", "build the session", "session ready"]
    assert observed.found["phases"] == phases


def test_everything_listens_on_loopback(observed: Observed) -> None:
    loopback = {"0100007F", "0000000000000000FFFF00000100007F"}
    assert observed.found["listening"]
    assert set(observed.found["listening"]) <= loopback


def test_the_user_s_spark_environment_is_ignored_and_kept(observed: Observed) -> None:
    environment = observed.found["environment"]
    assert {name: environment[name] for name in HOSTILE} == HOSTILE
    assert "PYSPARK_GATEWAY_SECRET" not in environment
    assert observed.found["rows of a Python worker"] == 3


def test_settings_of_the_user_override_ours(observed: Observed) -> None:
    assert observed.found["configured time zone"] == "Asia/Tokyo"


def test_a_concurrent_second_start_is_rejected_without_side_effects(observed: Observed) -> None:
    message, _ = observed.found["second start"]
    assert message == "Spark is already running in this process, and PySpark allows only one at a time"
    assert observed.found["rows after the second start"] == 3


def test_stopping_before_the_session_is_ready_works(observed: Observed) -> None:
    message, _ = observed.found["stopped before it was ready"]
    assert "Spark could not start" in message


def test_the_last_output_of_the_jvm_explains_a_failed_start(observed: Observed) -> None:
    message = "Spark could not start: Java does not know one of its options"
    assert observed.found["unknown option"] == [message, "check spark.driver.extraJavaOptions"]


def test_a_setting_that_spark_rejects_is_an_error_in_one_line(observed: Observed) -> None:
    message, _ = observed.found["rejected setting"]
    assert "local[nonsense]" in message
    assert len(message.splitlines()) == 1


def test_a_jvm_that_dies_is_noticed(observed: Observed) -> None:
    assert observed.found["alive"] == [True, None]
    assert observed.found["failure"] == "Spark stopped: its JVM ended with signal 9"


def test_a_forgotten_runtime_ends_with_the_process(observed: Observed) -> None:
    assert not is_running(observed.found["forgotten"])


def test_the_jvm_ends_when_python_is_killed(cache_dir: Path, tmp_path: Path) -> None:
    body = """
runtime = start()
runtime.session()
print(runtime._jvm.process.pid, flush=True)
time.sleep(600)
"""
    with start_python(code(cache_dir, body), cwd=tmp_path) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert is_running(pid)
        os.kill(process.pid, signal.SIGKILL)
        wait_until_ended(pid)
