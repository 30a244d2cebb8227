"""Decides which failures of a Postgres server are transient."""

from __future__ import annotations

from typing import Final

#: SQLSTATE classes of transient failures: connection, transaction rollback, resources, operator intervention (shutdown,
#: failover, timeouts). 25006 is a write to a server just demoted to a standby, 55P03 a lock that was not available.
_TRANSIENT_CLASSES: Final = frozenset({"08", "40", "53", "57"})
_TRANSIENT_STATES: Final = frozenset({"25006", "55P03"})
#: parts of messages of a server that will accept connections later
_TRANSIENT_REFUSALS: Final = (
    "starting up",
    "shutting down",
    "not yet accepting",
    "recovery",
    "too many",
    "connection slots",
    "terminating",
)
#: parts of libpq's own messages for errors that a retry does not fix
_REFUSALS: Final = ("does not support SSL", "certificate", "no password supplied", "authentication")


def is_transient(error: BaseException) -> bool:
    """Return whether the same work may succeed later, on a new connection."""
    import psycopg

    state = getattr(error, "sqlstate", None)
    if state:
        return state[:2] in _TRANSIENT_CLASSES or state in _TRANSIENT_STATES
    # libpq sets no SQLSTATE if a connection cannot be established or breaks
    return isinstance(error, (psycopg.OperationalError, TimeoutError)) and not _is_refusal(str(error))


def first_line(error: BaseException) -> str:
    """Return the message of the server or libpq; further lines are hints for interactive users."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _is_refusal(message: str) -> bool:
    """Return whether the server (or its certificate) was reached and the connection was refused permanently."""
    if "FATAL" in message:
        return not any(phrase in message for phrase in _TRANSIENT_REFUSALS)
    return any(phrase in message for phrase in _REFUSALS)
