"""Exports the metrics of a run: where, how often, and what happens on failure.

An exporter can neither stop a pipeline nor delay its end: each has its own thread, failures are warnings, and the last
export has two seconds.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Final

from streamling.errors import StreamlingError
from streamling.observe.telemetry.config import TelemetryConfig
from streamling.observe.telemetry.metrics import MetricStore
from streamling.pipeline.config import AppConfig

log = logging.getLogger(__name__)

#: exports everything measured so far, within this many seconds
Export = Callable[[float], None]

_FILE_SECONDS: Final = 5.0
_LONGEST: Final = 10.0
_LAST: Final = 2.0
_REMINDER: Final = 600.0


def is_reported(config: AppConfig, file: Path | None) -> bool:
    """Return whether the metrics of a run are exported."""
    return file is not None or config.part(TelemetryConfig).open_telemetry_metrics.pushes


@contextmanager
def reporting_metrics(
    metrics: MetricStore, config: AppConfig, file: Path | None, env: Mapping[str, str]
) -> Iterator[None]:
    """Export ``metrics`` while the block runs and once at its end, as ``config`` says and to ``file``."""
    with ExitStack() as reporters:
        if file is not None:
            write = MetricsFile(file, metrics, {"service_instance_id": config.application_id})
            reporters.enter_context(Reporter(f"write metrics to {file}", _FILE_SECONDS, lambda: nullcontext(write)))
        settings = config.part(TelemetryConfig).open_telemetry_metrics
        if settings.pushes:
            from streamling.observe.telemetry.otlp import create_push
            from streamling.observe.telemetry.otlp_endpoint import Collector

            endpoint = Collector.of(settings.ingestion_endpoint, env)
            push = partial(create_push, metrics, config, endpoint)
            reporters.enter_context(Reporter(f"push metrics to {endpoint.shown}", settings.batch_interval_secs, push))
        yield


class Reporter:
    """Exports every ``interval`` seconds while the block runs and once at its end. ``doing`` is for the log; ``opened``
    is called on the export thread, because packages that it imports must not delay the start."""

    def __init__(self, doing: str, interval: float, opened: Callable[[], AbstractContextManager[Export]]) -> None:
        self._interval = interval
        self._opened = opened
        self._failure_log = FailureLog(doing)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(_LAST + 0.5)
        if self._thread.is_alive():  # does not delay the end of the process
            self._failure_log.failed("the last export took too long", time.monotonic())

    def _run(self) -> None:
        try:
            with self._opened() as report:
                while not self._ended.wait(self._interval):
                    self._try(report, _LONGEST)
                self._try(report, _LAST)
        except StreamlingError as error:
            log.warning("%s (%s)", error, error.remedy)

    def _try(self, report: Export, seconds: float) -> None:
        try:
            report(seconds)
        except StreamlingError as error:
            self._failure_log.failed(str(error), time.monotonic())
        except Exception as error:
            self._failure_log.failed(f"{type(error).__name__}: {error}", time.monotonic())
        else:
            self._failure_log.recovered()


class FailureLog:
    """Logs failures when they start, at a limited rate after that, and when they are over."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self._times = 0
        self._last_logged = 0.0

    def failed(self, why: str, now: float) -> None:
        self._times += 1
        if self._times == 1:
            log.warning("cannot %s: %s (the pipeline is not affected)", self._doing, why)
        elif now - self._last_logged >= _REMINDER:
            log.warning("still cannot %s after %d attempts: %s", self._doing, self._times, why)
        else:
            return
        self._last_logged = now

    def recovered(self) -> None:
        if self._times:
            log.info("can %s again; failed attempts: %d", self._doing, self._times)
        self._times = 0


# ── the file for the textfile collector of Prometheus' node exporter ─────────────────────────────────────────────


class MetricsFile:
    """Writes the file when called. ``tags`` distinguish the series from those of other pipelines in the same folder."""

    def __init__(self, path: Path, metrics: MetricStore, tags: Mapping[str, str]) -> None:
        self._path = path
        self._metrics = metrics
        self._tags = tags

    def __call__(self, seconds: float) -> None:
        from streamling.observe.telemetry.prometheus import exposition

        # readers see the old or the new text, never a part; they read only *.prom
        partial = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            partial.write_text(exposition(self._metrics.snapshot(), self._tags), encoding="utf-8")
            partial.replace(self._path)
        except OSError as error:
            raise StreamlingError(error.strerror or str(error)) from error
        finally:
            partial.unlink(missing_ok=True)
