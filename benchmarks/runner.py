"""All scenarios, one after the other."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from benchmarks import services, usage
from benchmarks.cases import Cases
from benchmarks.clickhouse import ClickHouse
from benchmarks.cluster import Cluster
from benchmarks.coldstart import ColdStart
from benchmarks.figures import Figure, Results
from benchmarks.fleet import Fleet
from benchmarks.handler import Handler
from benchmarks.idle import Idle
from benchmarks.kafka import Kafka
from benchmarks.latency import Latency
from benchmarks.machine import machine, pyspark_java
from benchmarks.memory import Memory
from benchmarks.postgres import Postgres
from benchmarks.rate import Rate
from benchmarks.script import Script
from benchmarks.shared import Shared
from benchmarks.sizes import Sizes
from benchmarks.startup import StartUp
from benchmarks.tables import DynamicTables
from benchmarks.telemetry import Telemetry
from benchmarks.throughput import Throughput
from benchmarks.trigger import Trigger
from benchmarks.user_nodes import UserNodes
from benchmarks.validate import Validate
from benchmarks.versions import Versions
from benchmarks.workbench import ReportStep, Scenario, Workbench
from streamling.spark.jvm.archive import Archive, build_archive
from streamling.spark.jvm.jars import fetch_spark_packages
from streamling.spark.jvm.java import find_java

SCENARIOS: Mapping[str, type[Scenario]] = {
    scenario.title: scenario
    for scenario in (
        *(StartUp, Validate, Cases, Trigger, Idle, Throughput, Handler, DynamicTables, Script, UserNodes),
        *(Cluster, Telemetry, Latency, Rate, Kafka, Postgres, ClickHouse, ColdStart, Memory, Fleet, Shared, Versions),
    )
}

_NO_PYSPARK = "Plain PySpark cannot start here: it needs Java on the PATH or in JAVA_HOME."
_NO_PROC = "Idle pipelines and memory are not measured: they need /proc, which only Linux has."
_NO_SERVICES = "Scenarios with Kafka are not measured: they need local services, pip install 'streamling[dev]'."
_NO_CLICKHOUSE_CONNECT = "ClickHouse is not measured: pip install clickhouse-connect."
_NO_AIOHTTP = "Comparisons with aiohttp are not measured: pip install aiohttp."


def measure_all(
    names: Sequence[str],
    *,
    sizes: Sizes,
    cache_dir: Path,
    environ: Mapping[str, str],
    report_step: ReportStep,
    baseline: Path | None = None,
) -> Results:
    """Measure the scenarios ``names``; takes minutes. ``baseline`` is a checkout of another version."""
    surroundings = machine(environ)
    has_pyspark = pyspark_java(environ) is not None
    notes = [] if has_pyspark else [_NO_PYSPARK]
    if not usage.available():
        names = _without(names, lambda scenario: scenario.needs_proc, _NO_PROC, notes)
    if not services.installed():
        names = _without(names, lambda scenario: scenario.needs_services, _NO_SERVICES, notes)
    if find_spec("aiohttp") is None:
        names = _without(names, lambda scenario: scenario.needs_aiohttp, _NO_AIOHTTP, notes)
    if find_spec("clickhouse_connect") is None:
        names = _without(names, lambda scenario: scenario.needs_clickhouse_connect, _NO_CLICKHOUSE_CONNECT, notes)
    folder = Path(tempfile.mkdtemp(prefix="streamling-bench-"))
    figures: list[Figure] = []
    try:
        with services.services(cache_dir) as local:
            bench = Workbench(
                folder,
                cache_dir,
                _environment(environ, cache_dir),
                sizes,
                report_step,
                local,
                total=1 + sum(SCENARIOS[name].steps(sizes, has_pyspark) for name in names),
                has_pyspark=has_pyspark,
                baseline=baseline,
            )
            _prepare(bench, names)
            for name in names:
                figures += SCENARIOS[name](bench).figures()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Results(datetime.now(UTC).date().isoformat(), surroundings, sizes, figures, bench.phases, notes)


def _without(
    names: Sequence[str], left_out: Callable[[type[Scenario]], bool], note: str, notes: list[str]
) -> Sequence[str]:
    """Return the scenarios that can be measured; ``note`` says why others cannot."""
    kept = [name for name in names if not left_out(SCENARIOS[name])]
    if len(kept) < len(names):
        notes.append(note)
    return kept


def _environment(environ: Mapping[str, str], cache_dir: Path) -> dict[str, str]:
    """Return the user's environment, without variables that would change a pipeline or its output. Bytecode is kept, as
    in an installed package: otherwise a start would measure Python's compiler."""
    left_out = ("STREAMLING__", "SPARK_", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in environ.items() if not name.startswith(left_out)}
    here = str(Path(__file__).parents[1])  # workers are modules of this package
    return {**kept, "STREAMLING__CACHE_DIR": str(cache_dir), "PYTHONPATH": here}


def _prepare(bench: Workbench, names: Sequence[str]) -> None:
    """A start without archive is measured separately; all other scenarios need the archive, and some need the Spark
    packages."""
    bench.step("start-up archive")
    if any(SCENARIOS[name].needs_services for name in names):
        fetch_spark_packages(bench.cache_dir, frozenset(services.CONNECTORS), java=find_java(os.environ))
    if not Archive.for_settings(cache_dir=bench.cache_dir).exists():
        build_archive(cache_dir=bench.cache_dir, progress=lambda doing, done: bench.report_step(doing, 0.0))
