"""`run`: starts a pipeline from a file."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from streamling.cli.errors import ExitCode
from streamling.cli.options import config_option, debug_option, env_file_option, pipeline_argument
from streamling.cli.signals import Shutdown, shutdown_by_signals
from streamling.errors import StreamlingError
from streamling.observe.terminal.streams import stdout_for_data

if TYPE_CHECKING:
    from streamling.engine.run.run import PipelineRun
    from streamling.pipeline.config import AppConfig
    from streamling.serve.admin.routes import Preview
    from streamling.serve.admin.server import AdminServer
    from streamling.spark.jvm.session import SparkDriver
    from streamling.spark.jvm.timings import Timings

log = logging.getLogger(__name__)

#: after this time a pipeline no longer waits for its first rows
_ARCHIVE_AFTER_SECONDS = 30
#: time from a signal to the end of the process before the configuration has been read
_BUDGET_SECONDS = 25.0


def _require_folder(ctx: click.Context, param: click.Parameter, path: Path | None) -> Path | None:
    if path is not None and not path.absolute().parent.is_dir():
        raise click.BadParameter(f"the folder '{path.parent}' does not exist", ctx, param)
    return path


@click.command()
@pipeline_argument
@config_option
@env_file_option
@click.option(
    "--metrics-file",
    metavar="PATH",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=_require_folder,
    help="Write metrics to this file in the Prometheus text format, every 5 seconds and at the end.",
)
@click.option("--dry-run", is_flag=True, help="Build all plans without running them.")
@click.option(
    "--validate", "as_json", is_flag=True, help=("Dry run that prints the result as JSON; exits with 0 or 1.")
)
@click.option("--timings", "show_timings", is_flag=True, help=("Print how long each step of the start took."))
@debug_option
def run(
    pipeline_file: str | None,
    config_name: str | None,
    metrics_file: Path | None,
    dry_run: bool,
    as_json: bool,
    show_timings: bool,
    debug: bool,
) -> int:
    """Run PIPELINE_FILE until its sources end, a signal arrives, or a node fails.

    Without PIPELINE_FILE, run the file named by `pipeline_definition_location` (./pipeline.yaml). Settings come from
    built-in defaults, then config.yaml, then STREAMLING__… variables. Progress is stored in the state backend
    (./state.db): a restart continues from the last checkpoint.

    SIGTERM, SIGHUP and SIGINT (Ctrl-C) finish the work in progress, store the position and exit with 0; a second signal
    exits immediately. Ctrl-C during the start exits with 130. Rows of print sinks go to stdout, logs to stderr.

    \b
    Examples:
      streamling run pipeline.yaml
      streamling pipeline.yaml --validate
      streamling run pipeline.yaml | jq .total
      STREAMLING__JOB_MODE=true streamling run backfill.yaml --config production
      streamling run pipeline.yaml --metrics-file pipeline.prom
      OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://localhost:4318/v1/metrics streamling run pipeline.yaml

    \b
    Logs:
      STREAMLING__LOG_LEVEL=debug   error, warn, info, debug or trace (also RUST_LOG)
      STREAMLING__LOG_FORMAT=json   one JSON object per line instead of text

    \b
    Exit codes:
      0   finished or drained; with --validate: valid
      1   failed while running; with --validate: not valid
      2   wrong usage
      78  invalid pipeline or configuration
      130 interrupted (Ctrl-C) before anything ran
    """
    from streamling.spark.jvm.timings import Timings

    timings = Timings()
    timings.mark("command line read")
    if as_json:
        from streamling.cli.validate import print_json_result

        return print_json_result(pipeline_file, config_name, debug)
    with (
        _reported(timings, show_timings),
        stdout_for_data() as release_stdout,
        shutdown_by_signals(_BUDGET_SECONDS) as shutdown,
    ):
        process = _Process(shutdown, release_stdout, timings)
        return _run(process, pipeline_file, config_name, metrics_file, dry_run=dry_run, debug=debug)


@dataclass(frozen=True)
class _Process:
    """The parts of the process that a run uses exclusively."""

    shutdown: Shutdown
    release_stdout: Callable[[], None]
    timings: Timings


def _run(
    process: _Process,
    pipeline_file: str | None,
    config_name: str | None,
    metrics_file: Path | None,
    *,
    dry_run: bool,
    debug: bool,
) -> int:
    from streamling.engine.launch.spark import OwnSpark
    from streamling.observe.telemetry.logging import configure_logging
    from streamling.observe.telemetry.reporting import is_reported, reporting_metrics
    from streamling.pipeline.config import load_config

    shutdown, timings = process.shutdown, process.timings
    with timings.phase("read the configuration"):
        config = load_config(config_name or "config", cwd=Path.cwd(), env=os.environ)
        configure_logging(config.log_format, "debug" if debug else config.log_level)
    shutdown.budget = config.shutdown_budget_secs
    with OwnSpark(config, debug=debug, timings=timings, on_start=shutdown.kill_at_exit) as spark:
        # everything below happens while the JVM starts
        spark.start_early(pipeline_file or config.pipeline_definition_location)
        with timings.phase("read the pipeline"):
            from streamling.engine.launch.launcher import Launcher
            from streamling.observe.traces import reporting_traces
            from streamling.serve.admin.server import admin_server

            launcher, pipeline = Launcher.of(config).read(pipeline_file)
        if not launcher.writes_to_stdout(pipeline):
            process.release_stdout()  # a plugin may print
        config = launcher.config
        launcher = replace(launcher, count_in_spark=is_reported(config, metrics_file))
        with launcher.prepared(
            pipeline, spark.session, in_memory=dry_run, timings=timings, check_workers=not dry_run
        ) as run:
            if dry_run:
                log.info("%s: every plan can be built", pipeline.file)
                return ExitCode.OK
            shutdown.drain(run)
            driver = spark.started()
            with (
                reporting_metrics(run.metrics, config, metrics_file, os.environ),
                reporting_traces(run.observer.epochs, config, os.environ),
                admin_server(
                    run, driver.session(), config, partial(_previews, config, config_name, pipeline.file)
                ) as admin,
            ):
                _flow(run, driver, timings, config, admin)
    return ExitCode.OK


def _previews(config: AppConfig, config_name: str | None, file: str) -> Preview:
    """Return what starts a preview of ``file``, for the console."""
    from streamling.serve.previews import FilePreviews

    return partial(FilePreviews(config, config_name).open_file, file)


def _flow(run: PipelineRun, driver: SparkDriver, timings: Timings, config: AppConfig, admin: AdminServer) -> None:
    """Run until the end."""
    from streamling.cli.watch import show_progress

    def on_first_rows() -> None:
        timings.mark("first rows at a sink")
        admin.first_rows()

    run.on_first_rows(on_first_rows)
    with show_progress(run), driver.translate_failures(), _prepare_next_start(driver):
        run.start()
        log.info("%s is running (%s)", run.pipeline.file, config.application_id)
        _wait(run, tolerant=config.preview_tolerant_mode)
    written = run.summary()
    reason = f": {run.stop_reason}" if run.stop_reason else ""
    log.info("finished%s%s", reason, f"; rows: {written}" if written else "")


def _wait(run: PipelineRun, *, tolerant: bool) -> None:
    """Wait for the end. With ``tolerant``, also wait for a signal: until then, the admin API shows the rows and the
    failure of the run."""
    try:
        run.wait()
    except StreamlingError as error:
        if tolerant:
            log.error("%s (preview_tolerant_mode: the process waits for a signal)", error)
            run.wait_for_stop()
        raise
    if tolerant:
        run.wait_for_stop()


@contextmanager
def _prepare_next_start(driver: SparkDriver) -> Iterator[None]:
    """Prepare the next run: a separate process with low priority builds the archive, when this run has ended or has
    been running for a while."""

    def build() -> None:
        if driver.archive_missing():
            driver.build_archive_in_background()

    timer = threading.Timer(_ARCHIVE_AFTER_SECONDS, build)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
    build()


@contextmanager
def _reported(timings: Timings, show: bool) -> Iterator[None]:
    try:
        yield
    finally:
        if show:
            timings.mark("end")
            print(timings.table(), file=sys.stderr)
