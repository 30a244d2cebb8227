"""Failures on their way back from Spark's Python workers: all that comes is text."""

from __future__ import annotations

import json
import re
from dataclasses import astuple

from streamling.errors import NodeLabel, StreamlingError


class ExecutorError(Exception):
    """A failure as one line of JSON."""


def to_executor_error(
    error: BaseException, name: str, what: str = "", *, node: NodeLabel | None = None
) -> ExecutorError:
    """``error`` of ``name``, about ``what``, to be raised on a worker."""
    wrapped = StreamlingError.wrap(error, what)
    told = {
        "name": name,
        "node": None if node is None else astuple(node),
        "message": str(wrapped),
        "causes": list(wrapped.causes()),
        "remedy": wrapped.remedy,
        "internal": wrapped.internal,
        "retriable": wrapped.retriable,
        "location": None if wrapped.option_location is None else astuple(wrapped.option_location),
    }
    return ExecutorError(json.dumps(told))


def from_executor_error(error: Exception, name: str) -> StreamlingError | None:
    """What ``name`` raised on a worker, out of the text that Spark made of it."""
    line = re.search(rf"{ExecutorError.__name__}: (\{{.*\}})", str(error))
    told = json.loads(line[1]) if line else {}
    if told.get("name") != name:
        return None
    failure = StreamlingError(
        told["message"], internal=told["internal"], retriable=told["retriable"], remedy=told["remedy"]
    )
    if told["node"] is not None:
        failure.of_node(NodeLabel(*told["node"]))
    if told["location"] is not None:
        failure.about(*told["location"])
    cause: StreamlingError | None = None
    for sentence in reversed(told["causes"]):
        cause = StreamlingError(sentence, cause=cause)
    failure.__cause__ = cause  # also None: the text that Spark made of it is no cause
    return failure
