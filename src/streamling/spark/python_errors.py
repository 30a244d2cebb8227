"""Passes errors from Spark's Python workers back to the driver, which only receives text."""

from __future__ import annotations

import json
import re
from dataclasses import astuple

from streamling.errors import NodeLabel, StreamlingError


class ExecutorError(Exception):
    """An error as one line of JSON."""


def to_executor_error(
    error: BaseException, name: str, what: str = "", *, node: NodeLabel | None = None
) -> ExecutorError:
    """Convert ``error`` of ``name``, about ``what``, to be raised on a worker."""
    wrapped = StreamlingError.wrap(error, what)
    fields = {
        "name": name,
        "node": None if node is None else astuple(node),
        "message": str(wrapped),
        "causes": list(wrapped.causes()),
        "remedy": wrapped.remedy,
        "internal": wrapped.internal,
        "retriable": wrapped.retriable,
        "location": None if wrapped.option_location is None else astuple(wrapped.option_location),
    }
    return ExecutorError(json.dumps(fields))


def from_executor_error(error: Exception, name: str) -> StreamlingError | None:
    """Return the error that ``name`` raised on a worker, extracted from Spark's text."""
    line = re.search(rf"{ExecutorError.__name__}: (\{{.*\}})", str(error))
    fields = json.loads(line[1]) if line else {}
    if fields.get("name") != name:
        return None
    failure = StreamlingError(
        fields["message"], internal=fields["internal"], retriable=fields["retriable"], remedy=fields["remedy"]
    )
    if fields["node"] is not None:
        failure.of_node(NodeLabel(*fields["node"]))
    if fields["location"] is not None:
        failure.about(*fields["location"])
    cause: StreamlingError | None = None
    for sentence in reversed(fields["causes"]):
        cause = StreamlingError(sentence, cause=cause)
    failure.__cause__ = cause  # also None: Spark's text is not a cause
    return failure
