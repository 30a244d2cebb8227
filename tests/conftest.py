"""Fixtures for everybody: one real Spark session for the whole run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streamling.config.core import default_cache_dir

#: a variable that the process has when Spark starts, and that nothing inside Spark may see
CANARY, CANARY_VALUE = "ACME_API_TOKEN", "canary-7f3a9c"

pytest_plugins = ["tests.harness.services"]


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
            # thousands of sessions and statements go through this one JVM, and its parser forgets none of them
            conf={"spark.driver.memory": "2g"},
            cache_dir=cache_dir,
            spark_packages=frozenset({"avro", "kafka"}),
        )
    yield started
    started.stop()


@pytest.fixture(scope="session")
def spark(runtime):
    """The session of the test run; tests that change its settings work on ``spark.newSession()``."""
    return runtime.session()
