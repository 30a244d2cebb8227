"""Log lines on stderr: text for people (coloured on a terminal), JSON for machines."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime

from streamling.observe.terminal.printable import printable, printable_json, printable_lines

_LEVELS = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "off": logging.CRITICAL,
}
_COLOURS = {"DEBUG": "\x1b[2m", "INFO": "\x1b[32m", "WARNING": "\x1b[33m", "ERROR": "\x1b[31m"}
_NAMES = {"WARNING": "WARN", "CRITICAL": "ERROR"}

#: The pipeline that the current thread works for; only a process with several pipelines sets it.
current_pipeline: ContextVar[str] = ContextVar("current_pipeline", default="")


@dataclass(frozen=True)
class RunScope:
    """The run that the current thread works for."""

    pipeline: str
    #: the last epoch that was started; None before the first
    epoch: Callable[[], int | None]


current_run: ContextVar[RunScope | None] = ContextVar("current_run", default=None)


def pipeline_of_thread() -> str:
    """Return the pipeline that the current thread works for; empty if for none."""
    run = current_run.get()
    return current_pipeline.get() or ("" if run is None else run.pipeline)


def configure_logging(log_format: str, level: str) -> None:
    """Send everything under `streamling` to stderr; called once by the command line, never by the library."""
    logger = logging.getLogger("streamling")
    logger.setLevel(_level(level))
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if log_format == "json" else _TextFormatter(_coloured()))
    logger.handlers = [handler]
    logger.propagate = False


def logs_are_json() -> bool:
    """Return whether stderr has one JSON object per line."""
    return any(isinstance(h.formatter, _JsonFormatter) for h in logging.getLogger("streamling").handlers)


def formatted_as_json(level: int, message: str) -> str | None:
    """Return ``message`` as a JSON log line, without taking the log's lock; None for a text log."""
    for handler in logging.getLogger("streamling").handlers:
        if isinstance(handler.formatter, _JsonFormatter):
            return handler.format(logging.LogRecord("streamling", level, "", 0, message, None, None))
    return None


def _level(text: str) -> int:
    """Return the level in ``text``, which may use the syntax of RUST_LOG (`info,streamling=debug`): the level for
    `streamling` wins."""
    level = logging.INFO
    for part in text.lower().split(","):
        target, _, name = part.strip().rpartition("=")
        if name in _LEVELS and (not target or target.startswith("streamling")):
            level = _LEVELS[name]
    return level


def _coloured() -> bool:
    return sys.stderr.isatty() and "NO_COLOR" not in os.environ


class _TextFormatter(logging.Formatter):
    def __init__(self, coloured: bool) -> None:
        super().__init__()
        self._coloured = coloured

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
        level = f"{_NAMES.get(record.levelname, record.levelname):5}"
        if self._coloured:
            level = f"{_COLOURS.get(record.levelname, '')}{level}\x1b[0m"
        node = record.name.removeprefix("streamling.node.")
        message = printable(f"{node}: {record.getMessage()}" if node != record.name else record.getMessage())
        if pipeline := current_pipeline.get():
            message = f"[{pipeline}] {message}"
        trace = self._trace(record)
        return f"{time} {level} {message}{trace}"

    def _trace(self, record: logging.LogRecord) -> str:
        """Indent a trace: text that an error quotes must not look like a log line."""
        if not record.exc_info:
            return ""
        lines = printable_lines(self.formatException(record.exc_info)).split("\n")
        return "".join(f"\n  {line}" for line in lines)


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, str | int] = {
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": _NAMES.get(record.levelname, record.levelname),
            "target": record.name,
            "message": record.getMessage(),
        }
        if pipeline := pipeline_of_thread():
            line["pipeline"] = pipeline
        if record.name.startswith("streamling.node."):
            line["node"] = record.name.removeprefix("streamling.node.")
        if (run := current_run.get()) is not None and (epoch := run.epoch()) is not None:
            line["epoch"] = epoch
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return printable_json(json.dumps(line, ensure_ascii=False))


@contextmanager
def captured_warnings() -> Iterator[list[str]]:
    """Collect warnings that are logged during the block, and still show them."""
    messages: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno == logging.WARNING:
                messages.append(record.getMessage())

    logger = logging.getLogger("streamling")
    collector = Collector()
    logger.addHandler(collector)
    try:
        yield messages
    finally:
        logger.removeHandler(collector)
