"""Spark's errors in the user's terms: their SQL, their names, no trace and no advice about Spark's settings."""

from __future__ import annotations

from streamling.errors import StreamlingError


def explain(error: BaseException, node: str, sql: str) -> StreamlingError:
    """``error``, raised while ``sql`` of node ``node`` was planned or run, as an error of ours."""
    if isinstance(error, StreamlingError):
        return error
    return StreamlingError.user(f"sql transform '{node}': {error}", cause=error)
