"""Waits until a pipeline of a server has reached the state that was asked for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from streamling.cli._server import ServerClient, ServerResponseError, pipeline_path
from streamling.errors import StreamlingError

#: seconds between two requests: the server limits the number of requests
_FIRST_DELAY, _LONGEST_DELAY = 0.1, 2.0


class NotSettled(StreamlingError):
    """A pipeline has failed, or it was too slow."""

    def __init__(self, message: str, pipeline: dict[str, Any], remedy: str | None) -> None:
        super().__init__(message, internal=False, remedy=remedy)
        self.pipeline = pipeline


def wait_until_deleted(server: ServerClient, namespace: str, name: str, timeout: float) -> None:
    """Wait until a pipeline that is being deleted no longer exists. Raises after ``timeout`` seconds."""
    for _ in _attempts(timeout):
        try:
            found = server.get(pipeline_path(namespace, name))
        except ServerResponseError as error:
            if error.status == 404:
                return
            raise
    raise _too_slow(found, timeout)


def wait_until_settled(server: ServerClient, namespace: str, name: str, timeout: float) -> dict[str, Any]:
    """Wait until a pipeline that should run is ready or has finished, or one that should be paused is paused. Raises if
    it fails, or has not reached that state after ``timeout`` seconds."""
    for _ in _attempts(timeout):
        found: dict[str, Any] = server.get(pipeline_path(namespace, name))
        if not found["current"]:
            continue
        if found["state"] == "failed":
            raise NotSettled(f"{name} has failed: {found['error']}", found, found.get("remedy") or None)
        if _is_settled(found):
            return found
    raise _too_slow(found, timeout)


def _attempts(timeout: float) -> Iterator[None]:
    """Yield once per attempt, at least once, and wait between attempts."""
    deadline, delay = time.monotonic() + timeout, _FIRST_DELAY
    yield
    while (left := deadline - time.monotonic()) > 0:
        time.sleep(min(delay, left))
        delay = min(_LONGEST_DELAY, delay * 1.5)
        yield


def _too_slow(pipeline: dict[str, Any], timeout: float) -> NotSettled:
    name, reason = pipeline["name"], pipeline["error"] or pipeline["reason"]
    message = f"{name} is {pipeline['state']} after {timeout:g} s{f': {reason}' if reason else ''}"
    return NotSettled(message, pipeline, f"streamling logs {name}")


def _is_settled(pipeline: dict[str, Any]) -> bool:
    if pipeline["desired"] == "paused":
        return bool(pipeline["state"] == "paused")
    return bool(pipeline["state"] == "finished" or (pipeline["state"] == "running" and pipeline["ready"]))
