"""The metrics of a run in a file, for the textfile collector of Prometheus' node exporter."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from streamling.errors import StreamlingError
from streamling.observe.telemetry.metrics import MetricStore
from streamling.observe.telemetry.prometheus import exposition


class MetricsFile:
    """Writes the file when called. ``tags`` distinguish the series from those of other pipelines in the same folder."""

    def __init__(self, path: Path, metrics: MetricStore, tags: Mapping[str, str]) -> None:
        self._path = path
        self._metrics = metrics
        self._tags = tags

    def __call__(self, seconds: float) -> None:
        # readers see the old or the new text, never a part; they read only *.prom
        partial = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            partial.write_text(exposition(self._metrics.snapshot(), self._tags), encoding="utf-8")
            partial.replace(self._path)
        except OSError as error:
            raise StreamlingError(error.strerror or str(error)) from error
        finally:
            partial.unlink(missing_ok=True)
