"""Failures of a cluster's workers, recognized in Spark's text."""

from __future__ import annotations

import pytest

from streamling.spark.worker_errors import worker_failure

LOST = (
    "Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent failure: Lost task 0.3 in stage"
)
TASK = f"{LOST} 3.0 (TID 12) (10.0.0.7 executor 3): "
WORKER = "worker 10.0.0.7 (executor 3): "


@pytest.mark.parametrize(
    ("said", "message", "remedy"),
    [
        (
            "ExecutorLostFailure (executor 3 exited caused by one of the running tasks) Reason: "
            "Command exited with code 137",
            "the executor was lost: Command exited with code 137",
            "spark.executor.memory",
        ),
        (
            'java.io.IOException: Cannot run program "/opt/py/bin/python": error=2, No such file or directory',
            "there is no Python at '/opt/py/bin/python'",
            "spark.pyspark.python",
        ),
        (
            "org.apache.spark.SparkException: \nError from python worker:\n  /usr/bin/python3: Error while finding "
            "module specification for 'pyspark.daemon' (ModuleNotFoundError: No module named 'pyspark')\n",
            "its Python has no module 'pyspark'",
            "install the same version of streamling",
        ),
        (
            "java.lang.ClassNotFoundException: org.apache.spark.sql.kafka010.KafkaBatchInputPartition\n\tat java.base",
            "its Java has no class org.apache.spark.sql.kafka010.KafkaBatchInputPartition",
            "spark.jars",
        ),
        (
            "java.io.InvalidClassException: org.apache.spark.rdd.RDD; local class incompatible: stream classdesc",
            "it has another version of Spark: org.apache.spark.rdd.RDD differs",
            "same version of Spark",
        ),
        (
            "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
            "a Python worker crashed",
            "spark.executor.memory",
        ),
    ],
)
def test_what_a_worker_lacks_is_reported_with_the_worker(said, message, remedy):
    failure = worker_failure(RuntimeError(TASK + said))
    assert str(failure) == WORKER + message
    assert remedy in failure.remedy
    assert list(failure.causes()) == []


def test_what_an_operator_raised_is_not_blamed_on_its_worker():
    said = 'streamling.spark.python_errors.ExecutorError: {"causes": ["ModuleNotFoundError: No module named \'x\'"]}'
    assert worker_failure(TASK + said) is None


def test_other_failures_are_not_translated():
    assert worker_failure(TASK + "org.apache.kafka.common.errors.TimeoutException: no answer") is None


def test_failures_in_the_driver_are_not_blamed_on_a_worker():
    said = "Python worker exited unexpectedly (crashed)"
    assert worker_failure(said) is None
    local = "Lost task 0.0 in stage 1.0 (TID 1) (localhost executor driver): "
    assert worker_failure(local + said) is None
