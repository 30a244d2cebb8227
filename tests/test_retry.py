from __future__ import annotations

import logging
import threading

import pytest

from streamling.errors import StreamlingError
from streamling.retry import backoff_delay, call_with_retries

LOG = logging.getLogger("streamling.test.retry")


class Flaky:
    """Fails a number of times, then works."""

    def __init__(self, failures: int, **flags: bool) -> None:
        self.calls = 0
        self._failures = failures
        self._flags = {"retriable": True, **flags}

    def __call__(self) -> int:
        self.calls += 1
        if self.calls <= self._failures:
            raise StreamlingError(f"away {self.calls}", **self._flags)
        return self.calls


class Impatient(threading.Event):
    """Records the pauses instead of sleeping; stops after a number of them."""

    def __init__(self, stop_after: int = 100) -> None:
        super().__init__()
        self.pauses: list[float] = []
        self._stop_after = stop_after

    def wait(self, timeout: float | None = None) -> bool:
        self.pauses.append(timeout or 0)
        if len(self.pauses) >= self._stop_after:
            self.set()
        return self.is_set()


def test_pauses_double_up_to_half_a_minute() -> None:
    stopping = Impatient()
    assert call_with_retries(Flaky(11), stopping=stopping, log=LOG, randomly=lambda: 0.0) == 12
    assert stopping.pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30]


def test_jitter_extends_a_pause_by_half_at_most() -> None:
    assert backoff_delay(1, 1.0) == pytest.approx(0.15)
    assert backoff_delay(10_000, 1.0) == 45


def test_a_permanent_error_is_raised_immediately() -> None:
    work = Flaky(5, retriable=False)
    with pytest.raises(StreamlingError, match="away 1"):
        call_with_retries(work, stopping=Impatient(), log=LOG)
    assert work.calls == 1


def test_other_exceptions_pass_through() -> None:
    with pytest.raises(ZeroDivisionError):
        call_with_retries(lambda: 1 // 0, stopping=Impatient(), log=LOG)


def test_a_stop_ends_retries_after_a_few_attempts() -> None:
    work = Flaky(100)
    with pytest.raises(StreamlingError):
        call_with_retries(work, stopping=Impatient(stop_after=8), log=LOG)
    assert work.calls == 9


def test_a_short_failure_does_not_fail_a_drain() -> None:
    stopping = threading.Event()
    stopping.set()
    assert call_with_retries(Flaky(1), stopping=stopping, log=LOG, randomly=lambda: 0.0) == 2


def test_the_log_is_brief_and_reports_the_recovery(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        call_with_retries(Flaky(20), stopping=Impatient(), log=LOG)
    assert [(record.levelname, record.getMessage().split(";")[0]) for record in caplog.records[:2]] == [
        ("WARNING", "away 1"),
        ("ERROR", "away 5"),
    ]
    assert len(caplog.records) == 3
    assert caplog.records[2].getMessage().startswith("recovered after 20 failed attempts")
