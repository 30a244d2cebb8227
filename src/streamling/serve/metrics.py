"""Metrics of pipelines as the server sees them; what pipelines measure themselves comes on top."""

from __future__ import annotations

from typing import Final

from streamling.observe.telemetry.catalogue import Metric

METRICS: Final = {
    "pipeline_state": Metric("gauge", "1 for the state that a pipeline of a server is in.", ("state",)),
    "pipeline_ready": Metric("gauge", "1 if all nodes of a pipeline are connected, otherwise 0."),
    "pipeline_restarts": Metric("counter", "Restarts of a pipeline after failures."),
    "pipeline_lag": Metric("gauge", "Rows that the sources of a pipeline have not read yet."),
    "pipeline_cpu_seconds": Metric(
        "counter", "CPU time that a pipeline has used in Python, and for its small batches in the JVM."
    ),
    "pipeline_checkpoint_age_seconds": Metric("gauge", "Seconds since the last checkpoint of a pipeline."),
    "pipeline_series_left_out": Metric(
        "gauge",
        "Series of a pipeline that are missing in an answer: too many, or the name has another kind elsewhere.",
    ),
    "pipeline_series_unavailable": Metric(
        "gauge", "1 if the process of a pipeline did not send its series in time, otherwise 0."
    ),
}
