"""`preview`: runs a pipeline without its sinks and shows rows of every node."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from streamling.cli.canvas import canvas_of_stdout
from streamling.cli.errors import ExitCode
from streamling.cli.options import config_option, debug_option, env_file_option, pipeline_argument
from streamling.cli.signals import shutdown_by_signals

if TYPE_CHECKING:
    import pyarrow as pa

    from streamling.engine.run.run import PipelineRun

_BUDGET_SECONDS: Final = 25.0
_POLL_SECONDS: Final = 0.1
#: Without any rows: a Kafka source needs seconds to join its group, and a pipeline may be new to the JVM.
_FIRST_ROWS_SECONDS: Final = 30.0
_WIDEST_CELL: Final = 40


@click.command()
@pipeline_argument
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.1),
    default=10.0,
    show_default=True,
    help="Stop so long after the first rows.",
)
@click.option("--rows", type=click.IntRange(1, 1000), default=10, show_default=True, help="Rows to show per node.")
@click.option("--node", "nodes", multiple=True, metavar="NAME", help="Show only this node; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per row instead of tables.")
@config_option
@env_file_option
@debug_option
def preview(
    pipeline_file: str | None,
    seconds: float,
    rows: int,
    nodes: tuple[str, ...],
    as_json: bool,
    config_name: str | None,
    debug: bool,
) -> int:
    """Run PIPELINE_FILE without its sinks and show rows of every source and transform.

    Sinks discard their rows. The state of the pipeline is neither read nor written, no offsets are committed, and
    dynamic tables in Postgres are only read: a running instance of the same pipeline is not affected. Sources start
    where a new pipeline would. Handlers and scripts run as usual.

    The preview ends when every node has shown its rows, when all sources have ended, or --seconds after the first rows;
    then it says which nodes have fewer. If no rows arrive at all, it ends after 30 s, or after --seconds if that is
    longer.

    \b
    Examples:
      streamling preview pipeline.yaml
      streamling preview pipeline.yaml --rows 3 --node large_orders
      streamling preview pipeline.yaml --json | jq .data

    \b
    Exit codes:
      0   done
      1   failed while running
      2   wrong usage
      78  invalid pipeline or configuration
    """
    from streamling.engine.launch.launcher import Launcher
    from streamling.engine.launch.spark import OwnSpark
    from streamling.observe.telemetry.logging import configure_logging
    from streamling.pipeline.config import load_config

    with shutdown_by_signals(_BUDGET_SECONDS) as shutdown, ExitStack() as resources:
        config = load_config(config_name or "config", cwd=Path.cwd(), env=os.environ)
        level = config.log_level if "log_level" in config.model_fields_set else "warn"
        configure_logging(config.log_format, "debug" if debug else level)
        launcher, pipeline = Launcher.of(config).for_preview(rows).read(pipeline_file)
        spark = resources.enter_context(OwnSpark(config, debug=debug, on_start=shutdown.kill_at_exit))
        run = resources.enter_context(launcher.prepared(pipeline, spark.session))
        shutdown.drain(run)
        unknown = sorted(set(nodes) - {node.name for node in run.pipeline})
        if unknown:
            raise click.UsageError(f"there is no node '{unknown[0]}' in {run.pipeline.file}")
        shown = nodes or tuple(node.name for node in run.pipeline if node.name in run.observer.live_rows)
        try:
            too_slow = _run(run, shown, rows, seconds)
        finally:
            (_print_json if as_json else _print_tables)(run, shown, rows)
        if too_slow:
            click.echo(too_slow, err=True)
    return ExitCode.OK


def _run(run: PipelineRun, nodes: Sequence[str], rows: int, seconds: float) -> str:
    """Run until there are enough rows, or the time is up; returns what is missing then."""
    longest = max(seconds, _FIRST_ROWS_SECONDS)
    deadlines = [time.monotonic() + longest]
    run.on_first_rows(lambda: deadlines.append(time.monotonic() + seconds))
    run.start()
    while not (complete := _is_complete(run, nodes, rows)) and time.monotonic() < deadlines[-1]:
        time.sleep(_POLL_SECONDS)
    missing = [] if complete else [f"{name} has {_count(run, name)}" for name in nodes if _count(run, name) < rows]
    run.stop("the preview is over", True)
    run.wait()
    if not missing:
        return ""
    if len(deadlines) == 1:
        return f"the time is up: no rows have arrived within {longest:g} s; a larger --seconds waits longer"
    listed = ", ".join(missing)
    return f"the time is up: {listed} of {rows} rows {seconds:g} s after the first; a larger --seconds waits longer"


def _is_complete(run: PipelineRun, nodes: Sequence[str], rows: int) -> bool:
    if run.failure is not None or run.stop_reason is not None:
        return True
    has_ended = all(run.has_source_ended(node.name) for node in run.pipeline.sources)
    return (has_ended and _is_idle(run)) or all(_count(run, node) >= rows for node in nodes)


def _is_idle(run: PipelineRun) -> bool:
    """Return whether no rows wait between nodes: a checkpoint after the end of the sources is complete."""
    return run.checkpoint(_POLL_SECONDS)


def _count(run: PipelineRun, node: str) -> int:
    return sum(batch.num_rows for batch in run.observer.live_rows.stored(node))


# ── output ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _shown_rows(run: PipelineRun, node: str, rows: int) -> list[pa.RecordBatch]:
    """Return the first rows, in order."""
    left, found = rows, []
    for batch in reversed(run.observer.live_rows.stored(node)):
        found.append(batch.slice(0, left))
        left -= found[-1].num_rows
    return [batch for batch in found if batch.num_rows]


def _print_json(run: PipelineRun, nodes: Sequence[str], rows: int) -> None:
    from streamling.observe.terminal.printable import printable
    from streamling.redaction import redact
    from streamling.types.json import json_rows

    for node in nodes:
        for batch in _shown_rows(run, node, rows):
            for text in json_rows(batch):
                print(printable(f'{{"topology_node_key": {json.dumps(node)}, "data": {redact(text)}}}'))


def _print_tables(run: PipelineRun, nodes: Sequence[str], rows: int) -> None:
    canvas = canvas_of_stdout()
    for name in nodes:
        node, batches = run.pipeline[name], _shown_rows(run, name, rows)
        count = sum(batch.num_rows for batch in batches)
        click.echo(f"{name} ({node.type} {node.kind}): {count or 'no'} row{'s' if count != 1 else ''}")
        if batches:
            cells = [row for batch in batches for row in _cells(batch)]
            for line in canvas.table(batches[0].schema.names, cells):
                click.echo(line, color=True)
        click.echo()


def _cells(batch: pa.RecordBatch) -> list[tuple[str, ...]]:
    from streamling.observe.terminal.printable import printable
    from streamling.redaction import redact
    from streamling.types.json import json_texts

    columns = [
        [_cut(printable(redact(text or "null"))) for text in json_texts(batch.column(number), field)]
        for number, field in enumerate(batch.schema)
    ]
    return list(zip(*columns, strict=True))


def _cut(text: str) -> str:
    return text if len(text) <= _WIDEST_CELL else f"{text[: _WIDEST_CELL - 1]}…"
