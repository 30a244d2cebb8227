"""All scenarios, one after the other."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from streamling.bench import usage
from streamling.bench.figures import Figure, Results
from streamling.bench.handler import Handler
from streamling.bench.idle import Idle
from streamling.bench.machine import machine, pyspark_java
from streamling.bench.script import Script
from streamling.bench.sizes import Sizes
from streamling.bench.startup import StartUp
from streamling.bench.tables import DynamicTables
from streamling.bench.throughput import Throughput
from streamling.bench.trigger import Trigger
from streamling.bench.validate import Validate
from streamling.bench.workbench import Scenario, Tell, Workbench
from streamling.engine.archive import Archive, build_archive

SCENARIOS: Mapping[str, type[Scenario]] = {
    scenario.title: scenario
    for scenario in (StartUp, Validate, Trigger, Idle, Throughput, Handler, DynamicTables, Script)
}

_NO_PYSPARK = "Plain PySpark cannot start here: it needs a Java on the PATH or in JAVA_HOME."
_NO_PROC = "Idle figures are left out: they are read from /proc, which only Linux has."


def measure_all(
    names: Sequence[str], *, sizes: Sizes, cache_dir: Path, environ: Mapping[str, str], tell: Tell
) -> Results:
    """Measure the scenarios ``names``; takes minutes."""
    surroundings = machine(environ)
    has_pyspark = pyspark_java(environ) is not None
    notes = [] if has_pyspark else [_NO_PYSPARK]
    if Idle.title in names and not usage.available():
        names = [name for name in names if name != Idle.title]
        notes.append(_NO_PROC)
    folder = Path(tempfile.mkdtemp(prefix="streamling-bench-"))
    bench = Workbench(
        folder,
        cache_dir,
        _environment(environ, cache_dir),
        sizes,
        tell,
        total=1 + sum(SCENARIOS[name].steps(sizes, has_pyspark) for name in names),
        has_pyspark=has_pyspark,
    )
    figures: list[Figure] = []
    try:
        _prepare_archive(bench)
        for name in names:
            figures += SCENARIOS[name](bench).figures()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Results(datetime.now(UTC).date().isoformat(), surroundings, sizes, figures, bench.phases, notes)


def _environment(environ: Mapping[str, str], cache_dir: Path) -> dict[str, str]:
    """The user's, without what would change a pipeline or show up in its output. Bytecode is kept, as an installed
    package has it: otherwise a start would measure the compiler of Python."""
    left_out = ("STREAMLING__", "SPARK_", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in environ.items() if not name.startswith(left_out)}
    return {**kept, "STREAMLING__CACHE_DIR": str(cache_dir)}


def _prepare_archive(bench: Workbench) -> None:
    """A start without archive is a figure of its own; all others need one."""
    bench.step("start-up archive")
    if not Archive.for_settings(cache_dir=bench.cache_dir).exists():
        build_archive(cache_dir=bench.cache_dir, progress=lambda doing, done: bench.tell(doing, 0.0))
