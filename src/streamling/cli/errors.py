"""Errors as a person reads them: one block with what failed, why, and what to do. A trace only with --debug."""

from __future__ import annotations

import os
import sys
import traceback
from enum import IntEnum

from streamling.errors import InvalidPipeline, StreamlingError


class ExitCode(IntEnum):
    OK = 0
    FAILED = 1
    USAGE = 2
    CONFIG = 78  # EX_CONFIG of sysexits.h
    INTERRUPTED = 130


def exit_code(error: BaseException) -> int:
    """78 for what the user wrote, 1 for what happened while running."""
    return ExitCode.CONFIG if isinstance(error, InvalidPipeline) else ExitCode.FAILED


def render(error: BaseException, *, debug: bool) -> str:
    """The block that is printed for ``error``."""
    if isinstance(error, InvalidPipeline):
        lines = _problems(error)
    elif isinstance(error, StreamlingError):
        lines = [f"{_red('error:')} {error}", *_causes(error)]
        if error.remedy:
            lines.append(f"  {_bold('help:')} {error.remedy}")
    else:
        lines = [f"{_red('error:')} an internal error: {type(error).__name__}: {error}"]
        if not debug:
            lines.append(f"  {_bold('help:')} run again with --debug and report the trace")
    if debug:
        lines.append("".join(traceback.format_exception(error)).rstrip())
    return "\n".join(lines)


def _problems(error: InvalidPipeline) -> list[str]:
    lines = []
    for problem in error.problems:
        place = _bold(f"{problem.place}: " if problem.place else "")
        lines.append(f"{_red('error:')} {place}{problem.message}")
        lines += [f"  {line}" for line in problem.excerpt.splitlines()]
        if problem.remedy:
            lines.append(f"  {_bold('help:')} {problem.remedy}")
    if len(error.problems) > 1:
        lines.append(f"{len(error.problems)} problems found")
    return lines


def _causes(error: StreamlingError) -> list[str]:
    return [f"  caused by: {line}" for cause in error.causes() for line in cause.splitlines()[:3] if line.strip()]


def _red(text: str) -> str:
    return f"\x1b[1;31m{text}\x1b[0m" if _colour() else text


def _bold(text: str) -> str:
    return f"\x1b[1m{text}\x1b[0m" if text and _colour() else text


def _colour() -> bool:
    return sys.stderr.isatty() and "NO_COLOR" not in os.environ
