"""The metrics of all pipelines as one answer for Prometheus, with bounds that no pipeline can exceed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final

from streamling.observe.telemetry.catalogue import metrics
from streamling.observe.telemetry.metrics import Kind, Series
from streamling.observe.telemetry.prometheus import exposition, family
from streamling.serve.lifecycle import Actual
from streamling.serve.metrics import METRICS
from streamling.serve.model import PipelineKey
from streamling.serve.runtime import Measures, PipelineHandle

#: series of one pipeline, and of all together
MOST_PER_PIPELINE: Final = 1_000
MOST_SERIES: Final = 50_000
#: of one series: a definition may name labels as it likes
_MOST_LABELS, _LONGEST_LABEL = 32, 200
#: for all processes of pipelines together
_SECONDS: Final = 2.0
_THREADS: Final = 32


@dataclass(frozen=True)
class MeasuredPipeline:
    """What the server knows about a pipeline; the handle of one that is not loaded is None."""

    key: PipelineKey
    actual: Actual
    measures: Measures
    handle: PipelineHandle | None


@dataclass
class Selection:
    """Takes series as long as there is room for them and their kind is that of their name."""

    per_pipeline: int = MOST_PER_PIPELINE
    left: int = MOST_SERIES
    _kinds: dict[str, Kind] = field(default_factory=lambda: _known_kinds())

    def of_pipeline(self, pipeline: PipelineKey, found: Iterable[Series]) -> tuple[list[Series], int]:
        """Return the series of ``pipeline`` that fit, and how many do not."""
        taken: list[Series] = []
        left_out = 0
        for series in found:
            kind = self._kinds.setdefault(family(series.name, series.kind), series.kind)
            if kind != series.kind or len(taken) >= self.per_pipeline or self.left <= 0:
                left_out += 1
                continue
            self.left -= 1
            taken.append(replace(series, tags=_labels(series.tags, pipeline)))
        return taken, left_out


def fleet_exposition(pipelines: Sequence[MeasuredPipeline]) -> str:
    """Return the text for Prometheus."""
    return exposition(fleet_series(pipelines, Selection()))


def fleet_series(pipelines: Sequence[MeasuredPipeline], selection: Selection) -> Iterator[Series]:
    """Yield the series of ``pipelines``, with their namespaces and names."""
    deadline = time.monotonic() + _SECONDS

    def measured(pipeline: MeasuredPipeline) -> Sequence[Series] | None:
        """Return the metrics, or None if the pipeline did not answer in time."""
        return () if pipeline.handle is None else pipeline.handle.metrics(max(0.0, deadline - time.monotonic()))

    with ThreadPoolExecutor(_THREADS, thread_name_prefix="metrics") as pool:
        found = list(pool.map(measured, pipelines))
    for pipeline, series in zip(pipelines, found, strict=True):
        taken, left_out = selection.of_pipeline(pipeline.key, series or ())
        yield from taken
        yield from _own_series(pipeline, left_out, is_missing=series is None)


def _own_series(pipeline: MeasuredPipeline, left_out: int, *, is_missing: bool) -> Iterator[Series]:
    actual, measures = pipeline.actual, pipeline.measures
    values: dict[str, float | None] = {
        "pipeline_state": 1,
        "pipeline_ready": actual.ready,
        "pipeline_restarts": actual.restarts,
        "pipeline_lag": measures.lag,
        "pipeline_cpu_seconds": measures.cpu_seconds,
        "pipeline_checkpoint_age_seconds": measures.checkpoint_age,
        "pipeline_series_left_out": left_out,
        "pipeline_series_unavailable": is_missing,
    }
    for name, value in values.items():
        if value is not None:
            tags = {"state": str(actual.state)} if name == "pipeline_state" else {}
            yield Series(name, METRICS[name].kind, _labels(tags, pipeline.key), float(value), ("", name, ()))


def _labels(tags: Mapping[str, str], pipeline: PipelineKey) -> dict[str, str]:
    """Return the labels; those of the pipeline cannot be changed by its definition."""
    bounded = {key[:_LONGEST_LABEL]: value[:_LONGEST_LABEL] for key, value in list(tags.items())[:_MOST_LABELS]}
    return {**bounded, "namespace": pipeline.namespace, "pipeline": pipeline.name}


def _known_kinds() -> dict[str, Kind]:
    """Return the kinds of the built-in metrics, which they keep whatever plugins record under the same names."""
    return {family(name, metric.kind): metric.kind for name, metric in metrics().items()}
