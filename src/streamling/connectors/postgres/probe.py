"""ConnectionCheck check for a Postgres server."""

from __future__ import annotations

from functools import partial
from typing import Final

from streamling.connectors.postgres.connection import PostgresServer, connect
from streamling.connectors.postgres.connection_errors import connection_error
from streamling.connectors.postgres.transient_errors import first_line
from streamling.errors import StreamlingError
from streamling.plugins.connections import ConnectionCheck

_CONNECT_SECONDS: Final = 5.0


def postgres_connection(server: PostgresServer) -> ConnectionCheck:
    """Return the check of ``server``, for `Operator.connections`."""
    return ConnectionCheck("Postgres", str(server), partial(_check, server))


def _check(server: PostgresServer) -> str:
    import psycopg

    try:
        connection = connect(server, application_name="streamling check", connect_timeout=_CONNECT_SECONDS)
        with connection:
            return f"server {connection.info.server_version // 10000}, user '{connection.info.user}'"
    except psycopg.Error as error:
        raise connection_error(error, server) or StreamlingError(
            f"cannot connect to Postgres at {server}: {first_line(error)}"
        ) from None
