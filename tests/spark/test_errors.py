"""Real failures of a real Spark: each is reported with its reason, Spark's name for it, and what to do."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamling.cli.errors import render
from streamling.engine.dataflow.rows import Rows
from streamling.errors import StreamlingError
from streamling.pipeline.model import Node, NodeKind
from streamling.pipeline.options import FreeFormOptions
from streamling.redaction import add_secrets
from streamling.spark.arrow_map import map_in_arrow
from streamling.spark.errors import spark_error, spark_failure

SINK = Node("out", NodeKind.SINK, FreeFormOptions.model_validate({"type": "shop"}))
LINES_OF_A_TRACE = ("Traceback", "\tat ", "Py4JJavaError", "awaitResult", "calling o")


def reported(error: BaseException) -> str:
    """Return what a user sees."""
    shown = render(error, debug=False)
    assert not any(line in shown for line in LINES_OF_A_TRACE), shown
    return shown


def fails(spark: Any, action: Callable[[], object]) -> str:
    with pytest.raises(StreamlingError) as caught:
        Rows(spark).run(action, SINK, "writing")
    return reported(caught.value)


def test_no_part_of_a_secret_is_shown_in_a_truncated_message() -> None:
    add_secrets(["s3cret of spark"])
    shown = str(spark_failure(RuntimeError("x" * 495 + "s3cret of spark")))
    assert "s3c" not in shown


# ── in workers ───────────────────────────────────────────────────────────────────────────────────────────────


def _dies(batches):
    for batch in batches:
        os._exit(3)
        yield batch


def _raises(batches):
    for batch in batches:
        raise ValueError("no such thing\non two lines")
        yield batch


def _exits(batches):
    for batch in batches:
        sys.exit(4)
        yield batch


def _out_of_memory(batches):
    for batch in batches:
        raise MemoryError
        yield batch


def _full(batches):
    for batch in batches:
        raise OSError(28, "No space left on device")
        yield batch


@pytest.mark.spark
@pytest.mark.parametrize(
    ("function", "parts"),
    [
        (_dies, ["a Python worker of Spark ended unexpectedly", "Python worker exited unexpectedly (crashed)"]),
        (_raises, ["a Python function failed: ValueError: no such thing", "(PYTHON_EXCEPTION)"]),
        (_exits, ["a Python function failed: SystemExit: 4", "(PYTHON_EXCEPTION)"]),
        (_out_of_memory, ["Spark ran out of memory", "MemoryError", "help: raise spark.driver.memory"]),
        (_full, ["the disk is full", "No space left on device", "help: free space"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_failures_in_python_workers(spark: Any, function: Any, parts: list[str]) -> None:
    shown = fails(spark, lambda: map_in_arrow(spark.range(2), function, "id long").toArrow())
    assert shown.startswith("error: shop sink 'out': writing: Spark could not run the plan: ")
    assert "help: " in shown
    assert [part for part in parts if part not in shown] == [], shown


# ── in the JVM ───────────────────────────────────────────────────────────────────────────────────────────────


def _sql(text: str) -> Callable[[Any, Path], object]:
    return lambda spark, folder: spark.sql(text).toArrow()


def _corrupt(spark: Any, folder: Path) -> object:
    (folder / "bad.parquet").write_bytes(b"PAR1" + b"x" * 20 + b"PAR1")
    return spark.read.schema("a int").parquet(str(folder / "bad.parquet")).toArrow()


def _cancelled(spark: Any, folder: Path) -> object:
    tracker = spark.sparkContext.statusTracker()
    ended = threading.Event()

    def cancel() -> None:
        while not ended.wait(0.1):
            if tracker.getActiveJobsIds():
                spark.sparkContext.cancelAllJobs()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    try:
        return spark.range(0, 10**11, 1, 2).selectExpr("sum(hash(id))").toArrow()
    finally:
        ended.set()
        canceller.join()


def _missing_class(spark: Any, folder: Path) -> object:
    return spark.read.format("com.acme.Nothing").load()


def _missing_jar(spark: Any, folder: Path) -> object:
    return spark._jvm.org.apache.spark.util.Utils.classForName("com.acme.Nothing", True, False)


def _not_serializable(spark: Any, folder: Path) -> object:
    stream = spark._jvm.java.io.ObjectOutputStream(spark._jvm.java.io.ByteArrayOutputStream())
    return stream.writeObject(spark._jvm.java.lang.Object())


def _heap(spark: Any, folder: Path) -> object:
    raise_it = spark._jvm.java.lang.OutOfMemoryError("Java heap space")
    return spark._jvm.java.util.concurrent.CompletableFuture.failedFuture(raise_it).get()


def _large_result(spark: Any, folder: Path) -> object:
    conf = spark._jsc.sc().conf()  # read again for every job
    usual = conf.get("spark.driver.maxResultSize", "1g")
    conf.set("spark.driver.maxResultSize", "64k")
    try:
        return spark.range(0, 1_000_000, 1, 2).toArrow()
    finally:
        conf.set("spark.driver.maxResultSize", usual)


def _nothing_said(spark: Any, folder: Path) -> object:
    return spark._jvm.java.util.Objects.requireNonNull(None)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("action", "parts"),
    [
        (_sql("SELECT 1 / (id - id) FROM range(2)"), ["Division by zero", "(DIVIDE_BY_ZERO)"]),
        (_sql("SELECT CAST(concat('x', id) AS INT) FROM range(2)"), ["The value 'x", "INT", "(CAST_INVALID_INPUT)"]),
        (_sql("SELECT id + 9223372036854775807 FROM range(2)"), ["(ARITHMETIC_OVERFLOW)"]),
        (_sql("SELECT array(1)[id + 1] FROM range(2)"), ["(INVALID_ARRAY_INDEX)"]),
        (_sql("SELECT raise_error('too bad') FROM range(2)"), ["too bad", "(USER_RAISED_EXCEPTION)"]),
        (_sql("SELECT regexp_replace('a', 'a', '$7') FROM range(2)"), ["(INVALID_REGEXP_REPLACE)", "No group 7"]),
        (_sql("SELECT array_repeat(id, 2147483647) FROM range(2)"), ["array with 2147483647 elements"]),
        (
            _sql("SELECT from_json(concat('x', id), 'a int', map('mode', 'FAILFAST')) FROM range(2)"),
            ["Malformed records", "MALFORMED_RECORD_IN_PARSING", "Unrecognized token 'x"],
        ),
        (lambda spark, folder: spark.read.parquet(str(folder / "gone")), ["Path does not exist", "(PATH_NOT_FOUND)"]),
        (_corrupt, ["bad.parquet", "FAILED_READ_FILE", "footer"]),
        (_cancelled, ["Spark's job was cancelled", "help: "]),
        (_missing_class, ["a Java class is missing", "com.acme.Nothing", "DATA_SOURCE_NOT_FOUND", "help: add its jar"]),
        (_missing_jar, ["a Java class is missing", "com.acme.Nothing", "ClassNotFoundException"]),
        (_not_serializable, ["cannot be sent to the executors", "java.lang.Object", "NotSerializableException"]),
        (_heap, ["Spark ran out of memory", "Java heap space", "OutOfMemoryError", "help: raise spark.driver.memory"]),
        (
            _large_result,
            ["one batch are larger than spark.driver.maxResultSize", "MiB", "64.0 KiB", "help: lower batch_size"],
        ),
        (_nothing_said, ["java.lang.NullPointerException"]),
    ],
)
def test_failures_in_the_jvm(spark: Any, tmp_path: Path, action: Any, parts: list[str]) -> None:
    shown = fails(spark, lambda: action(spark, tmp_path))
    assert [part for part in parts if part not in shown] == [], shown


# ── on a cluster, as its driver gets to hear of them ─────────────────────────────────────────────────────────


LOST = (
    "Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent failure: "
    "Lost task 0.3 in stage 3.0 (TID 7) (10.0.0.7 executor 2): "
)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            LOST
            + "ExecutorLostFailure (executor 2 exited caused by one of the running tasks) Reason: Command exited with "
            "code 137",
            ["an executor was lost", "code 137", "help: check its log"],
        ),
        (
            LOST + "java.io.IOException: No space left on device\n\tat x.y.Z",
            ["the disk is full", "java.io.IOException", "help: free space"],
        ),
        (
            LOST + "java.lang.NoClassDefFoundError: org/acme/Thing",
            ["a Java class is missing", "org/acme/Thing", "help: add its jar"],
        ),
    ],
    ids=["executor lost", "disk full", "class missing"],
)
def test_failures_of_executors(text: str, parts: list[str]) -> None:
    shown = reported(spark_error(RuntimeError(text), "sql transform 'x'"))
    assert [part for part in parts if part not in shown] == [], shown


def test_a_failure_without_a_message_still_has_a_name() -> None:
    assert str(spark_failure(RuntimeError())) == "no reason given (RuntimeError)"
