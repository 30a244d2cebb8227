"""`validate`, and `run --validate`: from a file to a verdict."""

from __future__ import annotations

import click

from streamling.cli.canvas import echo_json
from streamling.cli.errors import ExitCode
from streamling.cli.options import config_option, debug_option, env_file_option, pipeline_argument
from streamling.errors import InvalidPipeline, StreamlingError
from streamling.printable import printable
from streamling.streams import stdout_for_data


@click.command()
@pipeline_argument
@config_option
@env_file_option
@click.option("--static", is_flag=True, help="Only what needs no JVM: the file, names, columns, SQL rules.")
@click.option("--json", "as_json", is_flag=True, help="The verdict as JSON on stdout, as `--validate` gives it.")
@debug_option
def validate(pipeline_file: str | None, config_name: str | None, static: bool, as_json: bool, debug: bool) -> int:
    """Check PIPELINE_FILE without running it. Exit code 0 when it is valid, 78 when it is not.

    Static mistakes are told at once; when there are none, Spark's own analysis has the last word. Sources are asked
    for their columns; nothing is written anywhere.

    \b
    Examples:
      streamling validate pipeline.yaml
      streamling validate pipeline.yaml --static     # no JVM: under a second
      streamling validate pipeline.yaml --json | jq .errors

    \b
    Exit codes:
      0   valid
      1   the check itself failed; with --json also: not valid
      2   wrong usage
      78  not valid
    """
    if as_json:
        return verdict_as_json(pipeline_file, config_name, debug, static=static)
    from streamling.telemetry.logging import configure_logging

    configure_logging("text", "debug" if debug else "warn")
    with stdout_for_data():
        checked = _check(pipeline_file, config_name, static=static, debug=debug)
    click.echo(printable(f"{checked} is valid"))
    return ExitCode.OK


def verdict_as_json(pipeline_file: str | None, config_name: str | None, debug: bool, *, static: bool = False) -> int:
    """The original's verdict: pretty JSON with `success`, `is_valid`, `errors`, `warnings`; exit 0 or 1."""
    from streamling.telemetry.logging import captured_warnings, configure_logging

    configure_logging("text", "debug" if debug else "warn")
    errors: list[str] = []
    success = True
    with stdout_for_data(), captured_warnings() as warnings:
        try:
            _check(pipeline_file, config_name, static=static, debug=debug)
        except InvalidPipeline as error:
            errors = [str(problem) for problem in error.problems]
        except StreamlingError as error:
            errors, success = [": ".join([str(error), *error.causes()])], not error.internal
        except (Exception, SystemExit) as error:
            errors, success = [f"{type(error).__name__}: {error}"], False
    verdict = {"success": success, "is_valid": not errors, "errors": errors, "warnings": warnings}
    echo_json(verdict)
    return ExitCode.OK if not errors else ExitCode.FAILED


def _check(pipeline_file: str | None, config_name: str | None, *, static: bool, debug: bool) -> str:
    """Check everything; the file's name, or an exception."""
    from streamling.app import App

    app = App.load(config_name).without_waiting()
    pipeline = app.pipeline(pipeline_file)
    with app.state(pipeline, dry_run=True) as state:
        run = app.run(pipeline, state)
        app.check_without_spark(run)
        if not static and run.needs_spark:
            from streamling.engine.session import SparkRuntime

            runtime = SparkRuntime.start(
                master="local[1]",
                conf=app.config.spark.conf,
                variables=app.config.spark.environment,
                cache_dir=app.config.cache_dir,
                connectors=run.connectors,
                quick=True,
                debug=debug,
            )
            try:
                run.analyse(runtime.session())
            finally:
                runtime.stop()
    return pipeline.file
