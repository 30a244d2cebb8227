from __future__ import annotations

import logging

import pytest

from streamling.observe.telemetry.otlp_endpoint import Collector, headers_from


@pytest.mark.parametrize(
    ("address", "url", "host"),
    [
        ("http://collector:4318/v1/metrics", "http://collector:4318/v1/metrics", "collector:4318"),
        ("http://collector:4318", "http://collector:4318/v1/metrics", "collector:4318"),
        ("http://collector", "http://collector/v1/metrics", "collector:4317"),
        ("https://vendor/in/?k=v", "https://vendor/in/?k=v", "vendor:443"),
        ("http://[::1]:4317/", "http://[::1]:4317/v1/metrics", "[::1]:4317"),
    ],
)
def test_an_address_serves_http_and_grpc(address: str, url: str, host: str) -> None:
    endpoint = Collector.of(address, {})
    assert (endpoint.url, endpoint.host) == (url, host)
    assert endpoint.secure == address.startswith("https")


def test_user_and_password_of_an_address_become_a_header_and_are_never_shown() -> None:
    endpoint = Collector.of("https://me:hunter%402@vendor/v1/metrics?token=hunter2", {})
    assert endpoint.headers == {"authorization": "Basic bWU6aHVudGVyQDI="}
    assert endpoint.url == "https://vendor/v1/metrics?token=hunter2"
    assert endpoint.shown == "https://[REDACTED]@vendor/v1/metrics?[REDACTED]"


def test_headers_come_from_the_environment_and_those_for_metrics_win() -> None:
    env = {
        "OTEL_EXPORTER_OTLP_HEADERS": "api-key=a%2Cb, X-Tenant = one ,",
        "OTEL_EXPORTER_OTLP_METRICS_HEADERS": "x-tenant=two=2",
    }
    assert headers_from(env) == {"api-key": "a,b", "x-tenant": "two=2"}


@pytest.mark.parametrize("entry", ["hunter2", "=hunter2", "api-key=hunter%0a2", "clé=hunter2"])
def test_an_invalid_header_is_ignored_and_not_shown(entry: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="streamling"):
        assert headers_from({"OTEL_EXPORTER_OTLP_HEADERS": f"a=b,{entry}"}) == {"a": "b"}
    assert caplog.messages == ["OTEL_EXPORTER_OTLP_HEADERS contains an entry that is not name=value; ignored"]
