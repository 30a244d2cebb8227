"""Retries for external systems that are temporarily unavailable."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from streamling.errors import StreamlingError, Unreachable

ResultT = TypeVar("ResultT")

_FIRST_DELAY: Final = 0.1
_LONGEST_DELAY: Final = 30.0
#: seconds between attempts to reach a system that may be starting
MAX_STARTUP_BACKOFF: Final = 1.0
#: from this attempt on, failures are logged as errors
_ERROR_FROM: Final = 5
#: attempts after a failure while the pipeline is stopping: less than a second
_WHILE_STOPPING: Final = 3
#: seconds between log lines about the same failure, except for the first error
_LOG_INTERVAL: Final = 10.0
#: called with the error that is being retried, and with None when it is over
ReportRetry = Callable[[StreamlingError | None], None]


class Stopping(Protocol):
    """Says whether the pipeline is stopping."""

    def is_set(self) -> bool: ...

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep up to ``timeout`` seconds; returns True immediately if the pipeline stops."""


class NeverStopping:
    """For executors: Spark ends their tasks, so they are never asked to stop."""

    def is_set(self) -> bool:
        return False

    def wait(self, timeout: float | None = None) -> bool:
        time.sleep(timeout or 0)
        return False


def ignore_retry(error: StreamlingError | None) -> None:
    """Do nothing, for callers that do not track retries."""


class RetryLog:
    """Logs repeated failures at a limited rate. Share one object between all failures with the same cause."""

    def __init__(self, log: logging.Logger, report: ReportRetry = ignore_retry) -> None:
        self._log = log
        self._report = report
        self._logged = float("-inf")
        self._reported = self._as_error = False

    def failed(self, error: StreamlingError, attempt: int, delay: float) -> None:
        """Log that the ``attempt``-th attempt failed with ``error``; the next one follows after ``delay`` seconds."""
        self._report(error)
        now, serious = time.monotonic(), attempt >= _ERROR_FROM
        if now - self._logged > _LOG_INTERVAL or (serious and not self._as_error):
            self._logged, self._reported, self._as_error = now, True, serious
            level = logging.ERROR if serious else logging.WARNING
            self._log.log(level, "%s; attempt %d, retrying in %.1f s", error, attempt, delay)

    def recovered(self, attempts: int, seconds: float) -> None:
        """Log that it worked after this many failures."""
        self._report(None)
        if self._reported:
            self._log.info("recovered after %d failed attempts in %.1f s", attempts, seconds)
        self._reported = self._as_error = False


def should_give_up(error: StreamlingError, attempt: int, stopping: Stopping) -> bool:
    """Return whether the ``attempt``-th failure is final: the error is permanent, or the pipeline is stopping. A drain
    does not give up because of a connection that died while it was idle."""
    return not error.retriable or (stopping.is_set() and attempt > _WHILE_STOPPING)


def call_with_retries(
    work: Callable[[], ResultT],
    *,
    stopping: Stopping,
    log: logging.Logger,
    startup_timeout: float = float("inf"),
    startup_errors: type[StreamlingError] = Unreachable,
    report: ReportRetry = ignore_retry,
    randomly: Callable[[], float] = random.random,
) -> ResultT:
    """Return the result of ``work``; retry it while it raises a retriable error and the pipeline is not stopping.
    ``startup_errors``, usually those of a system that has never been reachable, are given up after ``startup_timeout``
    seconds.

    The delays double from 100 ms to 30 s, each with up to 50 % random jitter, so that the instances of a pipeline do
    not all retry at the same moment.
    """
    started, attempt, retry_log = time.monotonic(), 0, RetryLog(log, report)
    while True:
        try:
            result = work()
        except StreamlingError as error:
            attempt += 1
            if should_give_up(error, attempt, stopping):
                raise
            delay = backoff_delay(attempt, randomly())
            if isinstance(error, startup_errors):
                delay = min(delay, MAX_STARTUP_BACKOFF)
                if time.monotonic() - started + delay > startup_timeout:
                    raise
            retry_log.failed(error, attempt, delay)
            if stopping.is_set():
                time.sleep(delay)
            else:
                stopping.wait(delay)
            continue
        if attempt:
            retry_log.recovered(attempt, time.monotonic() - started)
        return result


def call_with_startup_retries(work: Callable[[], ResultT], *, timeout: float, log: logging.Logger) -> ResultT:
    """Return the result of ``work``; retry it for up to ``timeout`` seconds while it raises a retriable error."""
    return call_with_retries(
        work, stopping=NeverStopping(), log=log, startup_timeout=timeout, startup_errors=StreamlingError
    )


def backoff_delay(
    attempt: int, chance: float, *, first: float = _FIRST_DELAY, longest: float = _LONGEST_DELAY
) -> float:
    """Return the seconds to wait after the ``attempt``-th failure in a row; ``chance`` is between 0 and 1."""
    # the exponent must not overflow when it grows for weeks
    return float(min(longest, first * 2 ** min(attempt - 1, 20)) * (1 + chance / 2))
