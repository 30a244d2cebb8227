"""A process with a warm Spark session that runs jobs, ours and hand-written; requests come on stdin, results go to
stdout.

``python -m benchmarks.worker KIND [SPARK_PACKAGE …]``, where KIND says how Spark is started: ``ours`` by streamling,
``plain`` by PySpark with our Spark settings, ``default`` by PySpark with its defaults.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import data
from benchmarks.changes import ChangePipelines, ChangesByHand
from benchmarks.plugins import DropSink, PrecededFiles, RateSource
from benchmarks.spent import run_to_its_end
from benchmarks.warehouse import TablePipelines, TablesByHand
from streamling.engine.state.memory import MemoryState
from streamling.pipeline.config import AppConfig, load_config
from streamling.pipeline.model import NodeKind
from streamling.plugins.loader import Plugins
from streamling.plugins.registry import Registry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RATE_COLUMNS = ("value", "value * 2 AS twice", "date_trunc('HOUR', timestamp) AS hour")
RATE_CONDITION = "value % 10 <> 0"

_FILE_PIPELINE = """
sources:
  orders: {{type: file, path: '{folder}', format: {format}, mode: {{type: bounded}}, primary_key: order_id}}
transforms:
  chosen: {{type: sql, primary_key: order_id, sql: "SELECT {columns} FROM orders WHERE {condition}"}}
sinks:
  nowhere: {{type: {sink}, from: chosen}}
"""
_SCRIPT_PIPELINE = """
sources:
  orders: {{type: file, path: '{folder}', format: {format}, mode: {{type: bounded}}, primary_key: order_id}}
transforms:
  changed: {{type: script, from: orders, language: js, primary_key: order_id, script: "{script}"}}
sinks:
  nowhere: {{type: blackhole, from: changed}}
"""
_SCRIPT = "function process(row) { row.customer = row.customer.toUpperCase(); return row; }"
_TABLE_PIPELINE = """
sources:
  orders: {{type: bench.files, path: '{folder}', format: {format}, mode: {{type: bounded}}, primary_key: order_id}}
transforms:
  known: {{type: dynamic_table, backend_type: InMemory, backend_entity_name: known}}
  chosen: {{type: sql, primary_key: order_id, sql: "SELECT {columns} FROM orders WHERE {condition}"}}
sinks:
  nowhere: {{type: blackhole, from: chosen}}
"""
_RATE_PIPELINE = """
sources:
  ticks: {{type: bench.rate, rows: {rows}, batches: {batches}, primary_key: value}}
transforms:
  chosen: {{type: sql, primary_key: value, sql: "SELECT {columns} FROM ticks WHERE {condition}"}}
sinks:
  nowhere: {{type: {sink}, from: chosen}}
"""
_TRIGGER_PIPELINE = """
sources:
  ticks: {{type: bench.rate, rows: {rows}, batches: {batches}, primary_key: value}}
transforms: {{}}
sinks:
  nowhere: {{type: bench.drop, from: ticks}}
"""


class Pipelines:
    """The jobs as streamling runs them."""

    def __init__(self, session: SparkSession, config: AppConfig) -> None:
        self._session = session
        self._config = config
        self._moments: list[float] = []

    def files_to_nowhere(self, folder: str, format: str) -> float:
        return self._files(folder, format, "blackhole")

    def files_to_arrow(self, folder: str, format: str) -> float:
        return self._files(folder, format, "bench.drop")

    def files_to_many_columns(self, folder: str, format: str) -> float:
        return self._files(folder, format, "blackhole", data.WIDE)

    def files_through_script(self, folder: str, format: str) -> float:
        return self._run(_SCRIPT_PIPELINE, folder=folder, format=format, script=_SCRIPT)

    def files_with_lookups(self, folder: str, format: str, entries: int, check: bool) -> float:
        """Every customer is looked up in a table of ``entries`` values that contains it; seconds after the first
        file."""
        state = MemoryState()
        # values left by an earlier run are put into the table before the first row
        state.put("dynamic_table:known", [f"customer {number}" for number in range(entries)])
        condition = data.CONDITION + (" AND dynamic_table_check('known', customer)" if check else "")
        self._run(_TABLE_PIPELINE, state=state, folder=folder, format=format, columns=data.COLUMNS, condition=condition)
        return time.monotonic() - self._moments[0]

    def rate_to_nowhere(self, rows: int, batches: int, observed: str = "") -> list[float]:
        return self._rate(rows, batches, "blackhole", observed)

    def rate_to_arrow(self, rows: int, batches: int, observed: str = "") -> list[float]:
        return self._rate(rows, batches, "bench.drop", observed)

    def _rate(self, rows: int, batches: int, sink: str, observed: str) -> list[float]:
        values: dict[str, Any] = {"rows": rows, "batches": batches, "sink": sink}
        self._run(_RATE_PIPELINE, columns=RATE_COLUMNS, condition=RATE_CONDITION, observed=observed, **values)
        return self._moments

    def trigger_to_arrow(self, rows: int, triggers: int) -> list[float]:
        self._run(_TRIGGER_PIPELINE, rows=rows, batches=triggers)
        return self._moments

    def with_plugins(self, text: str, path: str) -> float:
        """Return a pipeline that may use the plugins of the file ``path``."""
        registry = Registry.builtin()
        Plugins(registry, path).load_all()
        return run_to_its_end(
            text, session=self._session, config=self._config, registry=registry, state=MemoryState()
        ).seconds

    def _files(self, folder: str, format: str, sink: str, columns: Sequence[str] = data.COLUMNS) -> float:
        return self._run(
            _FILE_PIPELINE, folder=folder, format=format, sink=sink, columns=columns, condition=data.CONDITION
        )

    def _run(
        self,
        text: str,
        *,
        columns: Sequence[str] = (),
        state: MemoryState | None = None,
        observed: str = "",
        **values: Any,
    ) -> float:
        """Return the elapsed seconds."""
        text, registry = text.format(columns=", ".join(columns), **values), self._registry()
        cost = run_to_its_end(
            text,
            session=self._session,
            config=self._config,
            registry=registry,
            state=state or MemoryState(),
            observed=observed,
        )
        return cost.seconds

    def _registry(self) -> Registry:
        moments: list[float] = []
        self._moments = moments
        rate = type("Rate", (RateSource,), {"on_batch": staticmethod(moments.append)})
        registry = Registry.builtin()
        registry.register(NodeKind.SOURCE, "bench.rate", rate)
        files = type("Files", (PrecededFiles,), {"on_batch": staticmethod(moments.append)})
        registry.register(NodeKind.SOURCE, "bench.files", files)
        registry.register(NodeKind.SINK, "bench.drop", DropSink)
        return registry


class ByHand:
    """The same jobs in plain PySpark."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def files_to_nowhere(self, folder: str, format: str) -> float:
        from benchmarks.twins import jobs

        return self._timed(jobs.files_to_nowhere, folder, format)

    def files_to_arrow(self, folder: str, format: str) -> float:
        from benchmarks.twins import jobs

        return self._timed(jobs.files_to_arrow, folder, format)

    def files_to_many_columns(self, folder: str, format: str) -> float:
        from benchmarks.twins import jobs

        return self._timed(jobs.files_to_nowhere, folder, format, data.WIDE)

    def _timed(
        self, job: Callable[..., object], folder: str, format: str, columns: Sequence[str] = data.COLUMNS
    ) -> float:
        began = time.monotonic()
        job(self._session, folder, format, data.SCHEMA, columns, data.CONDITION)
        return time.monotonic() - began

    def rate_to_nowhere(self, rows: int, batches: int) -> list[float]:
        from benchmarks.twins import jobs

        return jobs.rate_to_nowhere(self._session, rows, batches, RATE_COLUMNS, RATE_CONDITION)

    def trigger_to_arrow(self, rows: int, triggers: int) -> list[float]:
        from benchmarks.twins import jobs

        return jobs.trigger_to_arrow(self._session, rows, triggers)


@contextmanager
def _ours(config: AppConfig, spark_packages: frozenset[str]) -> Iterator[SparkSession]:
    from streamling.spark.jvm.session import SparkDriver

    runtime = SparkDriver.start(
        master=config.spark.master, conf=config.spark.conf, cache_dir=config.cache_dir, spark_packages=spark_packages
    )
    try:
        yield runtime.session()
    finally:
        runtime.stop()


@contextmanager
def _pyspark(settings: dict[str, str]) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder
    session = builder.config(map=settings).getOrCreate()
    try:
        yield session
    finally:
        session.stop()


def main(kind: str, *spark_packages: str) -> None:
    """Run jobs until stdin ends."""
    config = load_config("config", cwd=Path.cwd(), env=os.environ)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # other output must not get between the results
    with (
        tempfile.TemporaryDirectory() as scratch,
        _session(kind, config, frozenset(spark_packages), Path(scratch)) as session,
    ):
        sides: dict[str, object] = {"ours": Pipelines(session, config), "by hand": ByHand(session)}
        if spark_packages:
            sides = {"ours": ChangePipelines(session, config), "by hand": ChangesByHand(session, config)}
            sides |= {"tables": TablePipelines(session, config), "tables by hand": TablesByHand(session, config)}
        for line in sys.stdin:
            job = json.loads(line)
            answer = getattr(sides[job.pop("side")], job.pop("job"))(**job)
            print(json.dumps(answer), file=answers, flush=True)


def _session(kind: str, config: AppConfig, spark_packages: frozenset[str], scratch: Path) -> Any:
    from streamling.spark.jvm.jars import spark_package_jars
    from streamling.spark.jvm.settings import spark_settings

    if kind == "ours":
        return _ours(config, spark_packages)
    master = config.spark.master
    settings = spark_settings(master, {}, scratch) if kind == "plain" else {"spark.master": master}
    if spark_packages:
        settings["spark.jars"] = ",".join(map(str, spark_package_jars(config.cache_dir, spark_packages)))
    return _pyspark(settings)


if __name__ == "__main__":
    main(*sys.argv[1:])
