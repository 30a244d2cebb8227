"""The figures as a table, as JSON, and as a page with a chart."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from statistics import median

from pydantic import TypeAdapter

from benchmarks.chart import chart
from benchmarks.figures import Figure, Machine, Results
from streamling.jvm.timings import Phase

HEADINGS = ("scenario", "what", "ratio", "ours", "theirs", "they are", "goal", "verdict")

_PAGE = """# Benchmarks

What streamling costs beside the same job written by hand in plain PySpark, measured in one run on one machine.
Written by `make bench`; do not edit.

Read the ratios: absolute figures belong to the machine, ratios mostly do not. Each cell is a median, with the best
run in brackets.

{table}

![Ours beside PySpark, and where the time of a start goes]({chart})

## Where the time of a start goes

With the start-up archive, the run with the median time; phases overlap, because the JVM starts beside everything that
does not need it.

{phases}

## Machine

{machine}

{notes}## How it is measured

- **start-up**: process start to the first row of `examples/quickstart` on standard output, and to the end of the
  process. The twin is a script that reads the same files with an explicit schema, runs the same SQL and prints JSON.
- **validate**: the quickstart with a misspelt column, and as it is, with `--validate`, to the end of the process.
- **trigger**: a stream that always has {trigger_rows} rows; time from one batch to the next when each is taken over to
  Python as Arrow. Bare Spark is `foreachBatch` + `toArrow` on the same session.
- **idle**: processor time over {idle:g} s and resident memory of all processes of the pipeline, nothing arriving.
- **throughput**: {rows:,} rows in 8 files, or a stream of {rate_rows:,} rows per batch; filter, five columns (three
  for the stream); rows read per second on a warm JVM, up to the last checkpoint. Beside it the same plan into Spark's
  `noop` writer, once in PySpark as it starts itself with our Spark settings, once on the JVM as we start it;
  each side has a JVM of its own, so that none is compiled for what another did.
- **handler**: rows through an HTTP endpoint that answers with what it is sent, 25 requests in flight; from the start of
  the pipeline to its last checkpoint. Beside it a client that sends the same requests: bare, the bodies made before;
  and with JSON, from Arrow rows to Arrow rows.
- **tables**: files, a filter and a look-up of each row's customer in a dynamic table in memory that has it, beside the
  same without the look-up; a million rows, counted after a first file during which the table is filled.
- **script**: a function over five columns, from Arrow rows to Arrow rows, per second of processor time. Beside it the
  same function called through plain `quickjs-rs` with 5,000 rows of JSON at a time, the JSON made before.
- **plugins**: up to a million rows of these files through a transform and into a sink that a user wrote, loaded from
  a file; beside it built-in nodes that do the same: an expression in SQL, and the memory sink. All rows leave the JVM
  either way, because the sinks are written in Python.
- **cluster**: the files as CSV on `local-cluster` with two executors of one core each, beside one: the SQL of
  throughput, and a script over a tenth of the rows. Driver and executors share the machine.
- **kafka**: {records:,} Avro records of nine columns in one partition of a broker on the same machine, `dbz.op` in a
  header, a projection or a filter, blackhole. By hand: `from_avro`, the header looked up, Spark's `noop` writer, no
  check of anything. Reading alone is Kafka's own Java client in the same JVM, which throws the messages away.
  Processor time is that of the pipeline's processes, without the broker.
- **postgres**: {upserts:,} of these records upserted into an empty table, then once more into the same one; up to the
  last checkpoint, the JVM warmed by {upsert_warm_ups} such runs before. The bare loop has the rows as text in memory,
  and does `COPY` and `INSERT … ON CONFLICT` in transactions of the same size. All of it shares the machine: broker,
  pipeline, server.
- **kafka start-up**: process start to the first row in Postgres, as another client sees it, archive and connectors in
  place.
- **memory**: resident memory of all processes while {memory_records:,} records pass, and while a sink takes
  {slow_seconds:g} s for each of {slow_batches} batches; the largest distance from the median after warm-up.

{repetitions} runs each after {warm_ups} to warm up, ours and theirs in turns, every second round backwards; four times
as many of plugins, as one takes a second; idle and memory figures are taken once. Hand-written counterparts:
`benchmarks/twins/`.

`make bench` measures again; `python -m benchmarks --quick` is a smoke run.
"""


def rows(results: Results) -> list[tuple[str, ...]]:
    """One row per figure, under `HEADINGS`."""
    return [_row(figure) for figure in results.figures]


def as_json(results: Results) -> str:
    """Everything, each single sample included."""
    content = asdict(results) | {"figures": [_figure_as_json(figure) for figure in results.figures]}
    return json.dumps(content, indent=2, ensure_ascii=False, default=_plain) + "\n"


def from_json(text: str) -> Results:
    """What `as_json` was made of."""
    return TypeAdapter(Results).validate_json(text)


def write_page(results: Results, path: Path) -> None:
    """The page at ``path`` and its chart next to it."""
    picture = path.with_suffix(".svg")
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.write_text(chart(results), encoding="utf-8")
    path.write_text(page(results, picture.name), encoding="utf-8")


def page(results: Results, picture: str) -> str:
    """The page as Markdown."""
    sizes = results.sizes
    return _PAGE.format(
        table=_markdown(HEADINGS, rows(results)),
        chart=picture,
        phases="\n\n".join(
            f"### {name[0].upper()}{name[1:]}\n\n{_phases(one)}" for name, one in results.phases.items()
        ),
        machine=_machine(results),
        notes="".join(f"{note}\n\n" for note in results.notes),
        trigger_rows=1000,
        idle=sizes.idle_seconds,
        rows=sizes.rows,
        rate_rows=sizes.rate_rows,
        repetitions=sizes.repetitions,
        warm_ups=sizes.warm_ups,
        upsert_warm_ups=sizes.upsert_warm_ups,
        records=sizes.records,
        upserts=sizes.upserts,
        memory_records=sizes.memory_records,
        slow_seconds=sizes.slow_seconds,
        slow_batches=sizes.slow_batches,
    )


def _row(figure: Figure) -> tuple[str, ...]:
    ratio = figure.ratio
    return (
        figure.scenario,
        figure.name,
        f"{ratio:.2f} ×" if ratio is not None else "",
        _values(figure, figure.ours),
        _values(figure, figure.other) if figure.other else "",
        figure.beside if figure.other else "",
        figure.goal.text(figure.unit) if figure.goal else "",
        figure.verdict.value,
    )


def _values(figure: Figure, values: Sequence[float]) -> str:
    middle = figure.unit.text(median(values))
    if len(values) == 1:
        return middle
    return f"{middle} ({figure.unit.digits(figure.best(values))})"


def _figure_as_json(figure: Figure) -> dict[str, object]:
    return asdict(figure) | {"ratio": figure.ratio, "verdict": figure.verdict}


def _plain(value: object) -> object:
    return value.value if isinstance(value, Enum) else str(value)


def _phases(phases: Sequence[Phase]) -> str:
    lines = [
        (f"{phase.end * 1000:.0f} ms", f"{phase.seconds * 1000:.0f} ms" if phase.end > phase.start else "", phase.name)
        for phase in sorted(phases, key=lambda phase: phase.end)
    ]
    return _markdown(("ended at", "took", "phase"), lines)


def _machine(results: Results) -> str:
    machine: Machine = results.machine
    facts = {
        "date": results.date,
        "system": machine.system,
        "processor": f"{machine.processor}, {machine.cores} cores",
        "memory": f"{machine.memory_gb:.0f} GB",
        "load before": f"{machine.load:.1f}",
        **machine.versions,
    }
    return _markdown(("", ""), list(facts.items()))


def _markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
