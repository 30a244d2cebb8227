"""What handlers and webhooks measure about their requests."""

from __future__ import annotations

from streamling.dev.contracts.contract import sample_rows
from streamling.observe.telemetry.metrics import Distribution
from tests.connectors.http.test_pipelines import nodes, start
from tests.harness.endpoint import Reply, Request, endpoint
from tests.harness.pipelines import finish


def test_requests_retries_and_latency_are_measured():
    def answer(request: Request) -> Reply:
        return Reply(status=503) if request.number == 1 else Reply()

    with endpoint(answer) as server:
        sink = {"type": "webhook", "from": "given", "url": f"http://127.0.0.1:{server.port}/"}
        run = start(nodes(sample_rows()), sinks={"hook": sink})
        finish(run)
    value = run.metrics.value
    assert value("http_requests", "hook", outcome="retriable_error", status_class="5xx") == 1
    assert value("http_requests", "hook", outcome="success", status_class="2xx") == 1
    assert value("http_retries", "hook", status_class="5xx") == 1
    latency = value("http_request_latency", "hook")
    assert isinstance(latency, Distribution)
    assert latency.count == 1
