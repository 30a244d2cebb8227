"""All scenarios, one after the other."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from streamling.bench import services, usage
from streamling.bench.cluster import Cluster
from streamling.bench.coldstart import ColdStart
from streamling.bench.figures import Figure, Results
from streamling.bench.handler import Handler
from streamling.bench.idle import Idle
from streamling.bench.kafka import Kafka
from streamling.bench.machine import machine, pyspark_java
from streamling.bench.memory import Memory
from streamling.bench.postgres import Postgres
from streamling.bench.script import Script
from streamling.bench.sizes import Sizes
from streamling.bench.startup import StartUp
from streamling.bench.tables import DynamicTables
from streamling.bench.throughput import Throughput
from streamling.bench.trigger import Trigger
from streamling.bench.user_nodes import UserNodes
from streamling.bench.validate import Validate
from streamling.bench.workbench import Scenario, Tell, Workbench
from streamling.engine.archive import Archive, build_archive
from streamling.engine.connectors import fetch_connectors
from streamling.engine.java import find_java

SCENARIOS: Mapping[str, type[Scenario]] = {
    scenario.title: scenario
    for scenario in (
        *(StartUp, Validate, Trigger, Idle, Throughput, Handler, DynamicTables, Script, UserNodes, Cluster),
        *(Kafka, Postgres, ColdStart, Memory),
    )
}

_NO_PYSPARK = "Plain PySpark cannot start here: it needs a Java on the PATH or in JAVA_HOME."
_NO_PROC = "Figures of idle pipelines and of memory are left out: they are read from /proc, which only Linux has."
_NO_SERVICES = "Figures with Kafka are left out: they need local services, pip install 'streamling[dev]'."
_NO_AIOHTTP = "Figures beside aiohttp are left out: they need it, pip install 'streamling[bench]'."


def measure_all(
    names: Sequence[str], *, sizes: Sizes, cache_dir: Path, environ: Mapping[str, str], tell: Tell
) -> Results:
    """Measure the scenarios ``names``; takes minutes."""
    surroundings = machine(environ)
    has_pyspark = pyspark_java(environ) is not None
    notes = [] if has_pyspark else [_NO_PYSPARK]
    if not usage.available():
        names = _without(names, lambda scenario: scenario.needs_proc, _NO_PROC, notes)
    if not services.installed():
        names = _without(names, lambda scenario: scenario.needs_services, _NO_SERVICES, notes)
    if find_spec("aiohttp") is None:
        names = _without(names, lambda scenario: scenario.needs_aiohttp, _NO_AIOHTTP, notes)
    folder = Path(tempfile.mkdtemp(prefix="streamling-bench-"))
    figures: list[Figure] = []
    try:
        with services.services(cache_dir) as local:
            bench = Workbench(
                folder,
                cache_dir,
                _environment(environ, cache_dir),
                sizes,
                tell,
                local,
                total=1 + sum(SCENARIOS[name].steps(sizes, has_pyspark) for name in names),
                has_pyspark=has_pyspark,
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
    """The scenarios that can be measured; ``note`` says why others cannot."""
    kept = [name for name in names if not left_out(SCENARIOS[name])]
    if len(kept) < len(names):
        notes.append(note)
    return kept


def _environment(environ: Mapping[str, str], cache_dir: Path) -> dict[str, str]:
    """The user's, without what would change a pipeline or show up in its output. Bytecode is kept, as an installed
    package has it: otherwise a start would measure the compiler of Python."""
    left_out = ("STREAMLING__", "SPARK_", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in environ.items() if not name.startswith(left_out)}
    return {**kept, "STREAMLING__CACHE_DIR": str(cache_dir)}


def _prepare(bench: Workbench, names: Sequence[str]) -> None:
    """A start without archive is a figure of its own; all others need one, and some the connectors."""
    bench.step("start-up archive")
    if any(SCENARIOS[name].needs_services for name in names):
        fetch_connectors(bench.cache_dir, frozenset(services.CONNECTORS), java=find_java(os.environ))
    if not Archive.for_settings(cache_dir=bench.cache_dir).exists():
        build_archive(cache_dir=bench.cache_dir, progress=lambda doing, done: bench.tell(doing, 0.0))
