"""Scheduler pools on the session of the tests."""

from __future__ import annotations

import pytest

from streamling.serve.warm_spark import POOL, WarmSpark

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


def test_a_session_that_works_is_kept(warm, spark):
    assert warm.session() is spark
    assert warm.is_up()
    assert warm.failure() is None
