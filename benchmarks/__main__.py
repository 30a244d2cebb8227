"""`python -m benchmarks`: measures this machine in comparison with hand-written PySpark."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from streamling.cli.canvas import canvas_of_stdout
from streamling.cli.errors import ExitCode
from streamling.cli.main import run_command
from streamling.cli.options import config_option, debug_option
from streamling.cli.progress import progress_of_steps

if TYPE_CHECKING:
    from benchmarks.figures import Results

_NAMES = (
    *("start-up", "validate", "test", "trigger", "idle", "throughput", "handler", "tables", "script", "plugins"),
    *(
        "cluster",
        "telemetry",
        "latency",
        "rate",
        "kafka",
        "postgres",
        "clickhouse",
        "kafka start-up",
        "memory",
        "fleet",
        "shared",
    ),
    "versions",
)
_COLOURS = {"met": "green", "missed": "red"}


@click.command()
@click.option("--only", "names", metavar="NAME", type=click.Choice(_NAMES), multiple=True, help=", ".join(_NAMES) + ".")
@click.option("--quick", is_flag=True, help="A smoke run with small sizes; its results mean little.")
@click.option(
    "--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write all samples to this file."
)
@click.option(
    "--renew",
    "earlier",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Take the results of the other scenarios from this file, written by --json of an earlier run.",
)
@click.option(
    "--write",
    "page",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a page to this file, with its chart beside it.",
)
@click.option(
    "--baseline",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A checkout of another version, with its environment in .venv: compare with it (scenario 'versions').",
)
@config_option
@debug_option
def bench(
    names: tuple[str, ...],
    quick: bool,
    json_file: Path | None,
    earlier: Path | None,
    page: Path | None,
    baseline: Path | None,
    config_name: str | None,
    debug: bool,
) -> int:
    """Measure start-up, validation, trigger floor, idle cost, throughput, latency and memory, compared with the same
    jobs written by hand in plain PySpark. Scenarios with Kafka, Postgres and ClickHouse start local services
    (`streamling dev`). Takes about half an hour; run nothing else on the machine meanwhile.

    \b
    Examples:
      python -m benchmarks
      python -m benchmarks --only start-up --only idle
      python -m benchmarks --only kafka --only postgres --only "kafka start-up" --only memory
      python -m benchmarks --write docs/benchmarks.md --json figures.json
      python -m benchmarks --only memory --renew figures.json --write docs/benchmarks.md
      python -m benchmarks --only versions --baseline ../other-checkout

    \b
    Exit codes:
      0   measured, whatever the results
      1   a measured process failed
      2   wrong usage
      78  the configuration is wrong
    """
    from benchmarks.report import as_json, from_json, write_page
    from benchmarks.runner import measure_all
    from benchmarks.sizes import FULL, QUICK
    from streamling.pipeline.config import load_config

    if baseline is None and "versions" in names:
        raise click.UsageError("the scenario 'versions' needs --baseline")
    # measured processes must not outlive this one
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    cache_dir = load_config(config_name or "config", cwd=Path.cwd(), env=os.environ).cache_dir
    with progress_of_steps() as report_step:
        results = measure_all(
            names or [name for name in _NAMES if baseline or name != "versions"],
            sizes=QUICK if quick else FULL,
            cache_dir=cache_dir,
            environ=os.environ,
            report_step=report_step,
            baseline=baseline,
        )
    if earlier:
        results = from_json(earlier.read_text(encoding="utf-8")).renewed(results)
    _show(results)
    if json_file:
        json_file.write_text(as_json(results), encoding="utf-8")
    if page:
        write_page(results, page)
    return ExitCode.OK


def _show(results: Results) -> None:
    from benchmarks.report import HEADINGS, rows

    canvas = canvas_of_stdout()
    lines = canvas.table(HEADINGS, rows(results))
    click.echo(next(lines), color=True)
    for figure, line in zip(results.figures, lines, strict=True):
        click.echo(canvas.style(line, fg=_COLOURS.get(figure.verdict.value)), color=True)
    for note in results.notes:
        click.echo(note)


if __name__ == "__main__":
    sys.exit(run_command(bench, sys.argv[1:], "python -m benchmarks"))
