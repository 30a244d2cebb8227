"""Fixtures for everybody: one real Spark session for the whole run."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamling.pipeline.config.core import default_cache_dir

#: a variable that the process has when Spark starts, and that nothing inside Spark may see
CANARY, CANARY_VALUE = "ACME_API_TOKEN", "canary-7f3a9c"

pytest_plugins = ["tests.harness.services"]


def pytest_configure() -> None:
    """Give the processes that tests start the default actions for signals, also below ``nohup`` and in the background
    of a script, where SIGHUP or SIGINT is ignored: children inherit an ignored signal, but not a handler."""
    ignored = {number for number in (signal.SIGHUP, signal.SIGINT) if signal.getsignal(number) is signal.SIG_IGN}
    if "PYTEST_XDIST_WORKER" in os.environ:
        ignored.add(signal.SIGHUP)  # a worker ends with the main process, which may be below `nohup`
    for number in ignored:
        signal.signal(number, _ignore)


def _ignore(number: int, frame: object) -> None:
    """Ignores a signal, as SIG_IGN does, but not in the processes that this one starts."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests come first, so that no worker of pytest-xdist is left with them at the end."""
    items.sort(key=lambda item: [item.get_closest_marker(mark) is None for mark in ("slow", "services", "spark")])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """The tests of a file run in one worker, which sets up their fixtures once, and so do all that share the Spark
    cluster."""
    from xdist.scheduler import LoadFileScheduling

    class SharedFixtures(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = str(super()._split_scope(nodeid))
            return "tests/cluster" if file.startswith("tests/cluster/") else file

    return SharedFixtures(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """What hostile tests print must be valid UTF-8 to travel from a worker of pytest-xdist to the main process."""
    report = yield
    report.sections = [(name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections]
    return report


@pytest.fixture(autouse=True)
def _forget_secrets() -> Iterator[None]:
    """What one test registers as a secret, such as `orders`, is not masked in the output of the next one."""
    from streamling.redaction import process_redactor

    known = dict(vars(process_redactor))
    yield
    vars(process_redactor).update(known)


@pytest.fixture(scope="session")
def cache_dir() -> Path:
    """The user's cache folder: archives and connectors of earlier runs are used again."""
    return default_cache_dir(os.environ)


@pytest.fixture(scope="session")
def runtime(cache_dir: Path) -> Iterator[object]:
    from streamling.spark.jvm.session import SparkDriver

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CANARY, CANARY_VALUE)
        # functions of the tests run in workers, which do not look into the working directory
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
        started = SparkDriver.start(
            master="local[2]",
            conf={
                "spark.scheduler.mode": "FAIR",  # as `streamling serve` sets it
                # thousands of sessions and statements go through this one JVM, and its parser forgets none of them
                "spark.driver.memory": "2g",
                # A fifth less CPU time: the optimizing compiler never pays off on small inputs. Without it, Java
                # reserves too little for the code of this run.
                "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m "
                "-XX:MetaspaceSize=512m",
            },
            cache_dir=cache_dir,
            spark_packages=frozenset({"avro", "kafka"}),
        )
    yield started
    started.stop()


@pytest.fixture(scope="session")
def spark(runtime):
    """The session of the test run; tests that change its settings work on ``spark.newSession()``."""
    return runtime.session()
