"""Metrics of handlers and webhooks."""

from __future__ import annotations

from typing import Final

from streamling.observe.telemetry.catalogue import Metric

METRICS: Final = {
    "http_requests": Metric("counter", "Requests sent, with or without a response.", ("outcome", "status_class")),
    "http_retries": Metric("counter", "Requests that are retried.", ("status_class",)),
    "http_request_latency": Metric("histogram", "Time from a request to its successful response."),
}
