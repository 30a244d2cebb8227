"""Scheduler pools on the session of the tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from streamling.serve.launchers import POOL
from streamling.serve.warm_spark import WarmSpark
from tests.harness.pipelines import eventually

pytestmark = pytest.mark.spark


@pytest.fixture
def warm(runtime) -> WarmSpark:
    return WarmSpark(lambda: runtime)


def _pool_of_task(number: int) -> str | None:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return context.getLocalProperty("spark.scheduler.pool")


def test_jobs_run_in_the_pool_of_their_session(spark):
    def pools(session) -> set[str | None]:
        pool = session.udf.register("pool_of_task", _pool_of_task, "string")
        return {row[0] for row in session.range(2).select(pool("id")).collect()}

    session = spark.newSession()
    session.conf.set(POOL, "default/orders")
    assert pools(session) == {"default/orders"}
    assert pools(spark.newSession()) == {None}  # nothing stays on the thread


def test_a_pool_has_a_weight_and_can_be_replaced_and_removed(warm):
    session = warm.session()

    def weight(name: str) -> int | None:
        pool = session.sparkContext._jsc.sc().taskScheduler().rootPool().getSchedulableByName(name)
        return None if pool is None else pool.weight()

    warm.add_pool(session, "default/orders", 4)
    assert weight("default/orders") == 4
    warm.add_pool(session, "default/orders", 16)
    assert weight("default/orders") == 16
    warm.remove_pool(session, "default/orders")
    assert weight("default/orders") is None
    warm.remove_pool(session, "default/orders")


class Busy:
    """A pipeline with one job of many tasks, each of which occupies a core."""

    def __init__(self, warm: WarmSpark, name: str, weight: int) -> None:
        self._session = warm.session().newSession()
        self._session.conf.set(POOL, name)
        self._name = name
        warm.add_pool(self._session, name, weight)

    def run(self, tasks: int) -> None:
        self._session.sparkContext.setJobGroup(self._name, self._name)
        rows = self._session.range(0, tasks * 4000, 1, tasks)
        rows.selectExpr("sum(length(sha2(CAST(id AS STRING), 512)))").collect()

    def completed(self) -> int:
        """Tasks of its jobs that have ended."""
        tracker = self._session.sparkContext.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self._name)]
        stages: list[Any] = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        return sum(stage.numCompletedTasks for stage in stages if stage is not None)


@pytest.fixture
def busy(warm) -> Iterator[Callable[[str, int], Busy]]:
    made: list[str] = []

    def make(name: str, weight: int) -> Busy:
        made.append(name)
        return Busy(warm, name, weight)

    yield make
    for name in made:
        warm.remove_pool(warm.session(), name)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def test_busy_pipelines_share_the_cores_by_weight(busy, threads):
    """As many pipelines as cores: Spark's own scheduler would give each of them one."""
    light, heavy = busy("shares/a", 1), busy("shares/b", 8)
    first: Future[None] = threads.submit(heavy.run, 150)
    eventually(lambda: heavy.completed() > 0, 120)
    second = threads.submit(light.run, 150)
    first.result()
    assert light.completed() < 75  # about 20; with equal shares about 150
    second.result()


def test_pipelines_with_equal_weights_get_equal_shares_whatever_their_names(busy, threads):
    pipelines = [busy(f"equal/{name}", 4) for name in "abc"]
    jobs = [threads.submit(pipeline.run, 100) for pipeline in pipelines]
    eventually(lambda: any(job.done() for job in jobs), 120)
    assert min(pipeline.completed() for pipeline in pipelines) > 50
    for job in jobs:
        job.result()


def test_a_small_pipeline_that_was_idle_does_not_wait_for_a_large_one(busy, threads):
    small, large = busy("waits/z", 1), busy("waits/a", 16)
    job = threads.submit(large.run, 300)
    eventually(lambda: large.completed() > 30, 120)
    before = large.completed()
    small.run(4)
    assert large.completed() - before < 100
    assert not job.done()
    job.result()


def test_a_session_that_works_is_kept(warm, spark):
    assert warm.session() is spark
    assert warm.is_up()
    assert warm.jvm().death() is None
