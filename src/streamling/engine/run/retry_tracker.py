"""Tracks what the nodes of a run are retrying, so that a timeout can report the cause."""

from __future__ import annotations

from collections.abc import Mapping

from streamling.errors import StreamlingError


class RetryTracker:
    """The last error of each node that is being retried. Called from any thread."""

    def __init__(self) -> None:
        self._errors: dict[str, StreamlingError] = {}

    def report(self, node: str, error: StreamlingError | None) -> None:
        """Record that ``node`` retries because of ``error``; None if it has succeeded."""
        if error is None:
            self._errors.pop(node, None)
        else:
            self._errors[node] = error

    @property
    def errors(self) -> Mapping[str, StreamlingError]:
        """The errors that are being retried, by node."""
        return dict(self._errors)

    def causes(self, verb: str = "is retrying") -> str:
        """Return the nodes that retry, and why; empty if there are none."""
        return "; ".join(f"'{node}' {verb}: {error}" for node, error in dict(self._errors).items())

    def add_retry_cause(self, failure: StreamlingError) -> StreamlingError:
        """Return ``failure`` with the errors that are being retried as its cause, unless it has one."""
        errors = dict(self._errors)
        if not errors or failure.__cause__ is not None:
            return failure
        failure.__cause__ = StreamlingError(self.causes("was retrying"))
        failure.remedy = failure.remedy or next((error.remedy for error in errors.values() if error.remedy), None)
        return failure
