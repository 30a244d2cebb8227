"""Which failures of a Postgres server go away by themselves."""

from __future__ import annotations

from typing import Final

#: SQLSTATE classes of failures that go away by themselves: connection, transaction rollback, resources,
#: operator intervention (shutdown, fail-over, time limits). 25006 is a write that met a server just demoted to a
#: standby, 55P03 a lock that was not to be had.
_TRANSIENT_CLASSES: Final = frozenset({"08", "40", "53", "57"})
_TRANSIENT_STATES: Final = frozenset({"25006", "55P03"})
#: parts of what a server says that will let us in later
_TRANSIENT_REFUSALS: Final = (
    "starting up",
    "shutting down",
    "not yet accepting",
    "recovery",
    "too many",
    "connection slots",
    "terminating",
)
#: parts of what libpq itself says when trying again will not help
_REFUSALS: Final = ("does not support SSL", "certificate", "no password supplied", "authentication")


def is_transient(error: BaseException) -> bool:
    """True when the same work may succeed later, on a new connection."""
    import psycopg

    state = getattr(error, "sqlstate", None)
    if state:
        return state[:2] in _TRANSIENT_CLASSES or state in _TRANSIENT_STATES
    # libpq gives no SQLSTATE when a connection cannot be made or breaks
    return isinstance(error, (psycopg.OperationalError, TimeoutError)) and not _is_refusal(str(error))


def first_line(error: BaseException) -> str:
    """What the server or libpq says; further lines are hints for people at a terminal."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _is_refusal(message: str) -> bool:
    """The server (or its certificate) was reached and said no, and will say so again."""
    if "FATAL" in message:
        return not any(phrase in message for phrase in _TRANSIENT_REFUSALS)
    return any(phrase in message for phrase in _REFUSALS)
