"""Fixtures for everybody: one real Spark session for the whole run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streamling.config.core import default_cache_dir
from tests.paths import TESTS

#: a variable that the process has when Spark starts, and that nothing inside Spark may see
CANARY, CANARY_VALUE = "ACME_API_TOKEN", "canary-7f3a9c"

pytest_plugins = ["tests.harness.services"]


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of a file run in one worker of pytest-xdist, and so do all that share the Spark cluster. Long ones come
    first, so that no worker is left with them at the end."""
    for item in items:
        folder, *_ = item.path.relative_to(TESTS).parts
        item.add_marker(pytest.mark.xdist_group(folder if folder == "cluster" else str(item.path)))
    items.sort(key=lambda item: [item.get_closest_marker(mark) is None for mark in ("slow", "services", "spark")])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """What hostile tests print must be valid UTF-8 to travel from a worker of pytest-xdist to the main process."""
    report = yield
    report.sections = [(name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections]
    return report


@pytest.fixture(scope="session")
def cache_dir() -> Path:
    """The user's cache folder: archives and connectors of earlier runs are used again."""
    import os

    return default_cache_dir(os.environ)


@pytest.fixture(scope="session")
def runtime(cache_dir: Path) -> Iterator[object]:
    from streamling.jvm.session import SparkRuntime

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CANARY, CANARY_VALUE)
        # functions of the tests run in workers, which do not look into the working directory
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
        started = SparkRuntime.start(
            master="local[2]",
            conf={
                # thousands of sessions and statements go through this one JVM, and its parser forgets none of them
                "spark.driver.memory": "2g",
                # a fifth less CPU time: the optimizing compiler never pays off on small inputs
                "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
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
