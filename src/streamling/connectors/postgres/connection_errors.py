"""Explains why a connection to a Postgres server failed, and which setting to change."""

from __future__ import annotations

from typing import Final

from streamling.connectors.postgres.connection import PostgresServer
from streamling.connectors.postgres.transient_errors import is_transient
from streamling.errors import StreamlingError, Unreachable

#: messages of libpq and psycopg when nothing responds at an address
_NO_RESPONSE: Final = (
    "Connection refused",
    "No route to host",
    "Network is unreachable",
    "Host is unreachable",
    "timeout expired",
    "connection timeout",
)
_UNRESOLVED: Final = ("failed to resolve host", "could not translate host name")


def connection_error(
    error: BaseException, server: PostgresServer, *, connected: bool = False
) -> StreamlingError | None:
    """Return ``error`` in the user's terms if it is about connecting to ``server``, else None.

    ``connected``: the server has responded before, so the address is right and an outage is retried.
    """
    import psycopg

    # an error of a statement has a SQLSTATE; libpq sets none if a connection fails
    if not isinstance(error, psycopg.OperationalError) or error.sqlstate:
        return None
    text = str(error)
    if any(phrase in text for phrase in (*_NO_RESPONSE, *_UNRESOLVED)):
        return _outage(text, server) if connected else _unreachable(text, server)
    return None if is_transient(error) else _refusal(text, server)


def _outage(text: str, server: PostgresServer) -> StreamlingError:
    return StreamlingError.transient(f"cannot connect to Postgres at {server}: {_reason(text)}")


def _unreachable(text: str, server: PostgresServer) -> Unreachable:
    if any(phrase in text for phrase in _UNRESOLVED):
        return Unreachable(f"the host name '{server.host}' cannot be resolved", remedy=_correct(server, "host"))
    return Unreachable(
        f"cannot connect to Postgres at {server}: {_reason(text)}",
        remedy=f"start the server, or {_correct(server, 'host', 'port')}",
    )


def _refusal(text: str, server: PostgresServer) -> StreamlingError:
    if "no password supplied" in text:
        variable = f"STREAMLING__{server.setting('password').replace('.', '__').upper()}"
        return StreamlingError.user(
            f"Postgres at {server} requires a password for user '{server.user}', but none is set",
            remedy=f"set {server.setting('password')} (environment variable {variable}), or PGPASSWORD",
        )
    if "authentication failed" in text:
        return StreamlingError.user(
            f"Postgres at {server} rejected user '{server.user}' or its password",
            remedy=_correct(server, "user", "password"),
        )
    if f'role "{server.user}" does not exist' in text:
        return StreamlingError.user(
            f"Postgres at {server} has no role '{server.user}'",
            remedy=f"create the role, or {_correct(server, 'user')}",
        )
    if f'database "{server.db}" does not exist' in text:
        return StreamlingError.user(
            f"Postgres at {server.host}:{server.port} has no database '{server.db}'",
            remedy=f"create the database, or {_correct(server, 'db')}",
        )
    if "pg_hba.conf" in text:
        return StreamlingError.user(
            f"Postgres at {server} does not accept this connection: {_reason(text)}",
            remedy=f"allow it in the server's pg_hba.conf, or {_correct(server, 'user', 'db', 'sslmode')}",
        )
    if "SSL" in text or "certificate" in text:
        return StreamlingError.user(
            f"TLS connection to Postgres at {server} failed: {_reason(text)}",
            remedy=f"{_correct(server, 'sslmode', 'sslrootcert')}, or set up TLS on the server",
        )
    return StreamlingError.user(f"Postgres at {server} refused the connection: {_reason(text)}")


def _reason(text: str) -> str:
    """Return the message without libpq's preamble, which repeats the address."""
    line = (text.strip() or "no reason given").splitlines()[0]
    return line.rpartition(" failed: ")[2].removeprefix("FATAL:").strip() or line


def _correct(server: PostgresServer, *names: str) -> str:
    settings = [server.setting(name) for name in names]
    return f"correct {', '.join(settings[:-1])}{' or ' if settings[1:] else ''}{settings[-1]}"
