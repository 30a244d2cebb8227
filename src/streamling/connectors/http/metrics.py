"""Metrics of handlers and webhooks."""

from __future__ import annotations

from typing import Final

from streamling.telemetry.catalogue import Metric

METRICS: Final = {
    "http_requests": Metric("counter", "Requests that got an answer, or none.", ("outcome", "status_class")),
    "http_retries": Metric("counter", "Requests that are sent again.", ("status_class",)),
    "http_request_latency": Metric("histogram", "Time from a request to its answer, when that was success."),
}
