"""Formats errors for people: one block with what failed, why, and what to do. Traces only with --debug."""

from __future__ import annotations

import os
import re
import sys
import traceback
from enum import IntEnum

from streamling.errors import InvalidPipeline, Problem, StreamlingError
from streamling.observe.terminal.printable import printable, printable_lines


class ExitCode(IntEnum):
    OK = 0
    FAILED = 1
    USAGE = 2
    CONFIG = 78  # EX_CONFIG of sysexits.h
    INTERRUPTED = 130


def exit_code(error: BaseException) -> int:
    """Return 78 for errors in the user's files, 1 for failures while running."""
    return ExitCode.CONFIG if isinstance(error, InvalidPipeline) else ExitCode.FAILED


def render(error: BaseException, *, debug: bool) -> str:
    """Return the text to print for ``error``."""
    if isinstance(error, InvalidPipeline):
        lines = _problems(error)
    elif isinstance(error, StreamlingError):
        lines = [f"{_red('error:')} {_indented(str(error))}", *_causes(error)]
        if error.remedy:
            lines.append(f"  {_bold('help:')} {printable(error.remedy)}")
    else:
        lines = [f"{_red('error:')} an internal error: {type(error).__name__}: {printable(str(error))}"]
        if not debug:
            lines.append(f"  {_bold('help:')} run again with --debug and report the trace")
    if debug:
        _show_all_causes(error)
        lines.append(_indented("\n" + "".join(traceback.format_exception(error)).rstrip())[1:])
    return "\n".join(lines)


def _show_all_causes(error: BaseException | None) -> None:
    """Make a trace show causes that the block leaves out."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        error.__suppress_context__ = error.__cause__ is not None
        error = error.__cause__ or error.__context__


def _problems(error: InvalidPipeline) -> list[str]:
    lines = [line for problem in error.problems for line in _problem(problem, _red("error:"))]
    if len(error.problems) > 1:
        lines.append(f"{len(error.problems)} problems found")
    return lines


def render_warning(warning: Problem) -> str:
    """Return the text to print for a warning about a valid file."""
    return "\n".join(_problem(warning, _yellow("warning:")))


def _problem(problem: Problem, verdict: str) -> list[str]:
    location = _bold(printable(f"{problem.location}: ") if problem.location else "")
    lines = [f"{verdict} {location}{printable(problem.message)}"]
    lines += [f"  {printable(line)}" for line in problem.excerpt.split("\n")] if problem.excerpt else []
    if problem.remedy:
        lines.append(f"  {_bold('help:')} {printable(problem.remedy)}")
    return lines


def _causes(error: StreamlingError) -> list[str]:
    lines = (line for cause in error.causes() for line in cause.splitlines()[:3] if line.strip())
    return [f"  caused by: {printable(line)}" for line in lines]


def _indented(text: str) -> str:
    """Indent all lines but the first, so that text from outside cannot imitate one of our lines."""
    return re.sub(r"\n(?!  )", "\n  ", printable_lines(text))


def _red(text: str) -> str:
    return f"\x1b[1;31m{text}\x1b[0m" if _colour() else text


def _yellow(text: str) -> str:
    return f"\x1b[1;33m{text}\x1b[0m" if _colour() else text


def _bold(text: str) -> str:
    return f"\x1b[1m{text}\x1b[0m" if text and _colour() else text


def _colour() -> bool:
    return sys.stderr.isatty() and "NO_COLOR" not in os.environ
