"""`test`: runs the tests of pipelines."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from streamling.cli.canvas import Canvas, canvas_of_stdout
from streamling.cli.errors import ExitCode, render
from streamling.cli.file_errors import file_errors
from streamling.cli.options import debug_option

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from streamling.dev.pipeline_tests.load import LoadedCase
    from streamling.dev.pipeline_tests.run_case import CaseResult

_COLOURS = {"-": "red", "+": "green", "~": "yellow"}


@click.command()
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option(
    "-k", "selection", metavar="EXPR", help="Run only cases whose file and name match, such as 'refund and not slow'."
)
@click.option("--update", is_flag=True, help="Write the rows that were found into the test files as the expectation.")
@click.option(
    "--junit", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Write the results as JUnit XML."
)
@click.option("--fail-fast", is_flag=True, help="Stop after the first case that fails.")
@click.option("--list", "list_only", is_flag=True, help="List the cases without running them.")
@debug_option
def test(
    paths: tuple[Path, ...],
    selection: str | None,
    update: bool,
    junit: Path | None,
    fail_fast: bool,
    list_only: bool,
    debug: bool,
) -> int:
    """Run the tests of pipelines: files that end in .test.yaml, in each PATH and the folders below it (default: here).

    A test file names a pipeline and has cases: input rows per source, and the rows that are expected from its nodes.
    The pipeline runs as usual, except that sources deliver these rows, sinks collect what they receive, and handlers
    and webhooks call an endpoint that answers as the test file says. Nothing else is contacted.

    A row that differs is shown with its columns: - expected, + found, ~ differs.

    --update replaces the expected rows of the cases that ran with the rows that were found. The rest of the file stays
    as it is, including comments.

    \b
    Examples:
      streamling test
      streamling test orders/ -k "refund and not slow"
      streamling test pipeline.test.yaml --update
      streamling test --junit results.xml --fail-fast

    \b
    Exit codes:
      0   all cases passed
      1   a case failed
      2   wrong usage, or there is no case to run
      78  a test file, a pipeline or a configuration is wrong
    """
    from streamling.dev.pipeline_tests.load import find_files, load_files
    from streamling.observe.telemetry.logging import configure_logging

    configure_logging("text", "debug" if debug else "error")
    matches = _selection(selection)
    files = load_files(find_files(paths or (Path("."),)))
    cases = [case for file in files for case in file.cases() if matches(case.id)]
    if not cases:
        raise click.UsageError(_nothing_found(paths, selection if files else None))
    if list_only:
        click.echo("\n".join(case.id for case in cases))
        return ExitCode.OK
    results = _run(cases, fail_fast=fail_fast, debug=debug, update=update)
    if junit is not None:
        from streamling.dev.pipeline_tests.junit import write_junit

        with file_errors(junit.parent, "choose a writable file"):
            write_junit(results, junit)
    _print_summary(results, len(cases))
    return _exit_code(results)


def _selection(expression: str | None) -> Callable[[str], bool]:
    from streamling.dev.pipeline_tests.select import parse_selection
    from streamling.errors import StreamlingError

    try:
        return parse_selection(expression) if expression else lambda name: True
    except StreamlingError as error:
        raise click.UsageError(f"{error}; {error.remedy}") from None


def _nothing_found(paths: Sequence[Path], selection: str | None) -> str:
    if selection is not None:
        return f"no case matches '{selection}'; --list shows the names of all cases"
    where = ", ".join(map(str, paths)) or "this folder"
    return f"there is no test file in {where}; create one next to a pipeline, such as pipeline.test.yaml"


def _run(cases: Sequence[LoadedCase], *, fail_fast: bool, debug: bool, update: bool) -> list[CaseResult]:
    from streamling.dev.pipeline_tests.run_case import run_cases
    from streamling.dev.pipeline_tests.update import record

    results, canvas = [], canvas_of_stdout()
    with _spark(debug) as session:
        for result in run_cases(cases, session, fail_fast=fail_fast):
            is_updated = update and record(result)
            results.append(result)
            click.echo("\n".join(_lines(result, canvas, is_updated, debug)), color=True)
    return results


@contextmanager
def _spark(debug: bool) -> Iterator[Callable[[], SparkSession]]:
    """Start the JVM while the first pipelines are read."""
    from streamling.engine.launch.spark import OwnSpark
    from streamling.pipeline.config import load_config

    config = load_config(cwd=Path.cwd(), env=os.environ)
    conf = {**config.spark.conf, "spark.sql.shuffle.partitions": "1"}
    with OwnSpark(config, master="local[*]", conf=conf, quick=True, debug=debug) as spark:
        yield spark.started().session


def _lines(result: CaseResult, canvas: Canvas, is_updated: bool, debug: bool) -> Iterator[str]:
    passed = canvas.style("updated", fg="yellow") if is_updated else canvas.style("passed", fg="green")
    verdict = passed if result.passed else canvas.style("FAILED", fg="red", bold=True)
    yield f"{verdict} {canvas.style(result.case.id)} ({result.seconds:.2f} s)"
    if result.passed:
        return
    location = result.case.location
    yield canvas.style(f"  {location.file}:{location.line}:{location.column}", dim=True)
    if result.error is not None:
        yield from (f"  {line}" for line in render(result.error, debug=debug).splitlines())
    for difference in result.differences:
        yield f"  {canvas.style(difference.subject, bold=True)}"
        for line in difference.lines:
            colour = _COLOURS.get(line[:1])
            yield f"    {canvas.style(line, fg=colour) if colour else canvas.style(line)}"


def _print_summary(results: Sequence[CaseResult], selected: int) -> None:
    failed = sum(not result.passed for result in results)
    parts = [f"{len(results) - failed} passed"]
    parts += [f"{failed} failed"] if failed else []
    parts += [f"{selected - len(results)} not run"] if selected > len(results) else []
    click.echo(", ".join(parts))


def _exit_code(results: Sequence[CaseResult]) -> int:
    if any(result.is_invalid for result in results):
        return ExitCode.CONFIG
    return ExitCode.OK if all(result.passed for result in results) else ExitCode.FAILED
