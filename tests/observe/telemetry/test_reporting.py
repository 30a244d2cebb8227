"""Reports while a block runs: how often, what is logged on failure, and that nothing is delayed."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from streamling.errors import StreamlingError
from streamling.observe.telemetry.metrics import MetricStore
from streamling.observe.telemetry.reporting import FailureLog, Reporter, reporting_metrics
from streamling.pipeline.config import AppConfig
from tests.observe.telemetry.receiver import receiving


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.INFO, logger="streamling"):
        yield caplog


def of(report: Callable[[float], None], interval: float = 60) -> Reporter:
    return Reporter("push metrics", interval, lambda: nullcontext(report))


def test_reports_are_sent_while_the_block_runs_and_once_at_its_end() -> None:
    reports, enough = [], threading.Event()

    def report(seconds: float) -> None:
        reports.append(seconds)
        if len(reports) == 2:
            enough.set()

    with of(report, 0.01):
        assert enough.wait(30)
    assert reports[:2] == [10, 10]
    assert reports[-1] == 2, "the last one is given less time"


def test_a_block_that_fails_is_reported_too() -> None:
    reports: list[float] = []
    with pytest.raises(ZeroDivisionError), of(reports.append):
        raise ZeroDivisionError
    assert reports == [2]


@pytest.mark.parametrize("error", [StreamlingError("nobody there"), RuntimeError("nobody there")])
def test_a_failure_is_one_warning(error: Exception, logged: pytest.LogCaptureFixture) -> None:
    reports, enough = [], threading.Event()

    def report(seconds: float) -> None:
        reports.append(seconds)
        if len(reports) == 3:
            enough.set()
        raise error

    with of(report, 0.01):
        assert enough.wait(30)
    (message,) = logged.messages
    assert message.startswith("cannot push metrics: ")
    assert message.endswith("nobody there (the pipeline is not affected)")


def test_failures_are_logged_when_they_start_periodically_and_when_they_are_over(
    logged: pytest.LogCaptureFixture,
) -> None:
    trouble = FailureLog("push")
    for now in (0, 300, 600, 700):
        trouble.failed("away", now)
    trouble.recovered()
    trouble.recovered()
    trouble.failed("away again", 800)
    assert logged.messages == [
        "cannot push: away (the pipeline is not affected)",
        "still cannot push after 3 attempts: away",
        "can push again; failed attempts: 4",
        "cannot push: away again (the pipeline is not affected)",
    ]


def test_a_report_that_hangs_is_abandoned(logged: pytest.LogCaptureFixture) -> None:
    released = threading.Event()
    with of(lambda seconds: released.wait(60) and None):
        pass
    assert logged.messages == ["cannot push metrics: the last export took too long (the pipeline is not affected)"]
    released.set()
    for thread in threading.enumerate():
        if thread.name == "metrics":
            thread.join()


def test_a_missing_package_is_one_warning_with_a_remedy(logged: pytest.LogCaptureFixture) -> None:
    @contextmanager
    def missing() -> Iterator[Callable[[float], None]]:
        raise StreamlingError.user("metrics are not pushed", remedy="pip install it")
        yield

    with Reporter("push metrics", 60, missing):
        pass
    assert logged.messages == ["metrics are not pushed (pip install it)"]


# ── as configured ────────────────────────────────────────────────────────────────────────────────────────────


def test_without_endpoint_and_file_nothing_starts_and_nothing_is_imported() -> None:
    program = (
        "import sys, threading\n"
        "from streamling.pipeline.config import AppConfig\n"
        "from streamling.observe.telemetry.metrics import MetricStore\n"
        "from streamling.observe.telemetry.reporting import reporting_metrics\n"
        "with reporting_metrics(MetricStore(), AppConfig(), None, {}):\n"
        "    assert threading.active_count() == 1\n"
        "found = {'opentelemetry', 'grpc', 'google.protobuf', 'urllib.request'} & set(sys.modules)\n"
        "assert not found, found\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_metrics_go_to_the_endpoint_and_into_the_file(tmp_path: Path, logged: pytest.LogCaptureFixture) -> None:
    store = MetricStore()
    path = tmp_path / "orders.prom"
    with receiving("http/protobuf") as receiver:
        config = AppConfig.model_validate({"open_telemetry_metrics": {"ingestion_endpoint": receiver.url}})
        with reporting_metrics(store, config, path, {}):
            store.of("").count("seen", 5)
    assert receiver.points("streamling_seen") == [({}, 5)]
    assert path.read_text() == (
        '# TYPE streamling_seen_total counter\nstreamling_seen_total{service_instance_id="local_app_v1"} 5\n'
    )
    assert [each.name for each in tmp_path.iterdir()] == ["orders.prom"]
    assert logged.messages == []


def test_a_file_that_cannot_be_written_is_a_warning(tmp_path: Path, logged: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "orders.prom"
    path.mkdir()
    with reporting_metrics(MetricStore(), AppConfig(), path, {}):
        pass
    assert logged.messages == [f"cannot write metrics to {path}: Is a directory (the pipeline is not affected)"]
    assert [each.name for each in tmp_path.iterdir()] == ["orders.prom"]
