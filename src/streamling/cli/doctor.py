"""`doctor`: checks this machine."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from streamling.cli.canvas import canvas_of_stdout, echo_json
from streamling.cli.errors import ExitCode
from streamling.cli.errors import render as render_error
from streamling.cli.options import config_option, debug_option, env_file_option, json_option, pipeline_argument
from streamling.cli.progress import ReportStep, progress_of_steps
from streamling.errors import StreamlingError

if TYPE_CHECKING:
    from streamling.engine.run.doctor import Check
    from streamling.pipeline.config import AppConfig

_COLOURS = {"✓": "green", "•": "yellow", "✗": "red"}


@click.command()
@pipeline_argument
@click.option(
    "--prepare",
    "--fix",
    is_flag=True,
    help=("First download the Spark connectors and build the start-up archive if they are missing (about a minute)."),
)
@config_option
@env_file_option
@json_option("Print a list of objects with name, status (ok, note, bad), found and remedy.")
@debug_option
def doctor(pipeline_file: str | None, prepare: bool, config_name: str | None, as_json: bool, debug: bool) -> int:
    """Check this machine and say how to fix what is missing: Python, Java, Spark, the start-up archive, Spark
    connectors, folders, memory. With PIPELINE_FILE, also check every connection of that pipeline, like `validate
    --connect`.

    \b
    ✓  ok
    •  works, but could be better
    ✗  pipelines cannot run
    →  what to do

    \b
    Examples:
      streamling doctor
      streamling doctor --prepare
      streamling doctor pipeline.yaml

    \b
    Exit codes:
      0   pipelines can run here
      1   something needed is missing, or a connection failed
      2   wrong usage
      78  the configuration is wrong
    """
    from streamling.engine.run.doctor import healthy, run_checks
    from streamling.observe.telemetry.logging import configure_logging
    from streamling.pipeline.config import load_config

    configure_logging("text", "debug" if debug else "warn")
    config = load_config(config_name or "config", cwd=Path.cwd(), env=os.environ)
    if prepare:
        _prepare(config)
    checks = run_checks(cache_dir=config.cache_dir, conf=config.spark.conf)
    if pipeline_file is not None:
        checks += _connections(config, pipeline_file, debug=debug)
    if as_json:
        echo_json([asdict(check) for check in checks])
    else:
        _show(checks)
    return ExitCode.OK if healthy(checks) else ExitCode.FAILED


def _connections(config: AppConfig, pipeline_file: str, *, debug: bool) -> list[Check]:
    from streamling.engine.launch.check import PipelineCheck
    from streamling.engine.launch.launcher import Launcher
    from streamling.engine.run.doctor import Check

    with PipelineCheck(Launcher.of(config).without_waiting(), pipeline_file, debug=debug) as check:
        tried = check.connections()
    return [
        Check(
            f"{one.node}: {one.kind}", "ok", f"{one.target}, {one.latency}" + (f", {one.remark}" if one.remark else "")
        )
        if one.ok
        else Check(f"{one.node}: {one.kind}", "bad", f"{one.error}, {one.latency}", one.remedy)
        for one in tried
    ]


def _show(checks: list[Check]) -> None:
    from streamling.engine.run.doctor import render

    canvas = canvas_of_stdout()
    for line in render(checks).splitlines():
        sign, rest = line[:1], line[1:]
        click.echo(canvas.style(sign, fg=_COLOURS[sign], bold=True) + rest if sign in _COLOURS else line, color=True)


def _prepare(config: AppConfig) -> None:
    """Prepare the cache. A failure is reported but not fatal: pipelines start more slowly, or lack some Spark
    connectors."""
    for prepare in (_fetch_spark_packages, _build_archive):  # the archive contains the connectors
        try:
            with progress_of_steps() as report_step:
                prepare(config, report_step)
        except StreamlingError as error:
            click.echo(render_error(error, debug=False), err=True)


def _build_archive(config: AppConfig, report_step: ReportStep) -> None:
    from streamling.spark.jvm.archive import Archive, build_archive

    cache_dir, conf = config.cache_dir, config.spark.conf
    if not Archive.for_settings(cache_dir=cache_dir, conf=conf).exists():
        build_archive(cache_dir=cache_dir, conf=conf, progress=report_step)


def _fetch_spark_packages(config: AppConfig, report_step: ReportStep) -> None:
    from streamling.spark.jvm.jars import damaged_jars, fetch_spark_packages, known_spark_packages
    from streamling.spark.jvm.java import find_java

    spark_packages = frozenset(known_spark_packages())
    for jar in damaged_jars(config.cache_dir, spark_packages):
        jar.unlink()
    fetch_spark_packages(config.cache_dir, spark_packages, java=find_java(os.environ), progress=report_step)
