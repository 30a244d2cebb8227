"""`validate`, and `run --validate`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from streamling.cli.canvas import canvas_of_stdout, echo_json
from streamling.cli.errors import ExitCode, render, render_warning
from streamling.cli.options import config_option, debug_option, env_file_option, pipeline_argument
from streamling.errors import InvalidPipeline, Problem, StreamlingError
from streamling.observe.terminal.printable import printable
from streamling.observe.terminal.streams import stdout_for_data

if TYPE_CHECKING:
    from streamling.engine.launch.check import PipelineCheck
    from streamling.engine.planning.connection_checks import ConnectionResult


@click.command()
@pipeline_argument
@config_option
@env_file_option
@click.option("--static", is_flag=True, help=("Check only what needs no JVM: the file, names, columns, SQL rules."))
@click.option(
    "--connect",
    is_flag=True,
    help=(
        "First check every connection of the file: state, brokers and topics, registry, databases, endpoints, files."
    ),
)
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON, like `--validate`.")
@debug_option
def validate(
    pipeline_file: str | None,
    config_name: str | None,
    static: bool,
    connect: bool,
    strict: bool,
    as_json: bool,
    debug: bool,
) -> int:
    """Check PIPELINE_FILE without running it. Exits with 0 if it is valid, 78 if not.

    Static errors are reported first; if there are none, Spark analyses the SQL. The columns of sources are looked up;
    nothing is written.

    With --connect, every connection is checked once and listed with its node, latency and result: brokers for their
    topics (this starts a JVM, even with --static), databases with a login, HTTP endpoints with a TCP or TLS connection,
    paths for a readable file. If one fails, the rest is not checked.

    A valid file may have warnings: a table that no SQL queries, SELECT * into a table, a random function above a sink
    with a key, and others. They do not fail the check, except with --strict.

    \b
    Examples:
      streamling validate pipeline.yaml
      streamling validate pipeline.yaml --static     # no JVM: under a second
      streamling validate pipeline.yaml --connect
      streamling validate pipeline.yaml --strict     # in CI
      streamling validate pipeline.yaml --json | jq .errors

    \b
    Exit codes:
      0   valid
      1   the check itself or a connection failed; with --json also: not valid
      2   wrong usage
      78  not valid
    """
    if as_json:
        return print_json_result(pipeline_file, config_name, debug, static=static, connect=connect, strict=strict)
    from streamling.observe.telemetry.logging import captured_warnings, configure_logging

    configure_logging("text", "debug" if debug else "warn")
    with stdout_for_data(), captured_warnings() as logged:
        check = _opened(pipeline_file, config_name, debug=debug)
    with check:
        if connect:
            with stdout_for_data():
                tried = check.connections()
            _show_connections(tried)
            if not all(one.ok for one in tried):
                return ExitCode.FAILED
        with stdout_for_data(), captured_warnings() as logged_later:
            _check(check, static=static)
    return _report(check, len(logged) + len(logged_later), strict=strict)


def _opened(pipeline_file: str | None, config_name: str | None, *, debug: bool) -> PipelineCheck:
    """Read the file; raises its errors."""
    from streamling.engine.launch.check import PipelineCheck
    from streamling.engine.launch.launcher import Launcher

    return PipelineCheck(Launcher.load(config_name).without_waiting(), pipeline_file, debug=debug)


def _check(check: PipelineCheck, *, static: bool) -> None:
    """Run all checks; raises the errors."""
    check.run.check_without_spark()
    if not static and check.run.needs_spark:
        check.run.analyse(check.session())


def _warnings(check: PipelineCheck) -> list[Problem]:
    """Return what is valid but probably not intended."""
    from streamling.pipeline.lint import lint

    return lint(check.run.pipeline)


def _report(check: PipelineCheck, logged: int, *, strict: bool) -> int:
    """Show the warnings and the verdict; ``logged`` warnings have been shown before."""
    file, warnings = check.run.pipeline.file, _warnings(check)
    for warning in warnings:
        click.echo(render_warning(warning), err=True)
    count = len(warnings) + logged
    several = "1 warning" if count == 1 else f"{count} warnings"
    if count and strict:
        click.echo(printable(f"{file} has {several}, and --strict is on"), err=True)
        return ExitCode.CONFIG
    click.echo(printable(f"{file} is valid{f', with {several}' if count else ''}"))
    return ExitCode.OK


def print_json_result(
    pipeline_file: str | None,
    config_name: str | None,
    debug: bool,
    *,
    static: bool = False,
    connect: bool = False,
    strict: bool = False,
) -> int:
    """Return the result in the format of the Rust implementation: indented JSON with `success`, `is_valid`, `errors`,
    `warnings`; exit code 0 or 1. With ``connect`` also `connections`."""
    from streamling.observe.telemetry.logging import captured_warnings, configure_logging

    configure_logging("text", "debug" if debug else "warn")
    errors: list[str] = []
    success = True
    tried: list[ConnectionResult] = []
    with stdout_for_data(), captured_warnings() as warnings:
        try:
            with _opened(pipeline_file, config_name, debug=debug) as check:
                tried = check.connections() if connect else []
                _check(check, static=static)
                warnings += map(str, _warnings(check))
        except InvalidPipeline as error:
            errors = [str(problem) for problem in error.problems]
        except StreamlingError as error:
            errors, success = [error.with_causes], not error.internal
        except (Exception, SystemExit) as error:
            errors, success = [f"{type(error).__name__}: {error}"], False
    if strict:
        errors, warnings = [*errors, *warnings], []
    verdict: dict[str, Any] = {"success": success, "is_valid": not errors, "errors": errors, "warnings": warnings}
    if connect:
        verdict["connections"] = _as_objects(tried)
    echo_json(verdict)
    return ExitCode.OK if not errors and all(one.ok for one in tried) else ExitCode.FAILED


# ── connections ─────────────────────────────────────────────────────────────────────────────────────────────────


def _show_connections(tried: Sequence[ConnectionResult]) -> None:
    """Print a table to stdout and full errors to stderr."""
    if not tried:
        click.echo("the pipeline has no connections")
        return
    rows = [(one.node, one.kind, one.latency, "ok" if one.ok else "failed", _target(one)) for one in tried]
    for line in canvas_of_stdout().table(("NODE", "CONNECTION", "LATENCY", "RESULT", "TARGET"), rows):
        click.echo(line, color=True)
    failed = [one for one in tried if not one.ok]
    for one in failed:
        error = StreamlingError.user(f"{one.node}: {one.error}", remedy=one.remedy)
        click.echo(render(error, debug=False), err=True)
    if failed:
        click.echo(f"{len(failed)} of {len(tried)} connections failed", err=True)


def _target(one: ConnectionResult) -> str:
    return f"{one.target} ({one.remark})" if one.remark else one.target


def _as_objects(tried: Sequence[ConnectionResult]) -> list[dict[str, Any]]:
    """Return the same as objects for JSON."""
    return [
        {
            "node": one.node,
            "connection": one.kind,
            "target": one.target,
            "ok": one.ok,
            "latency_ms": round(one.seconds * 1000, 1),
            "error": one.error,
            "remedy": one.remedy,
        }
        for one in tried
    ]
