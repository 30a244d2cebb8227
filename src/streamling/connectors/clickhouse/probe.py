"""Connection check for a ClickHouse server."""

from __future__ import annotations

from functools import partial
from typing import Final

from streamling.connectors.clickhouse.client import ClickHouseClient
from streamling.connectors.clickhouse.server import ClickHouseServer
from streamling.plugins.connections import ConnectionCheck

_SECONDS: Final = 5.0


def clickhouse_connection(server: ClickHouseServer) -> ConnectionCheck:
    """Return the check of ``server``, for `Operator.connections`."""
    return ConnectionCheck("ClickHouse", f"{server}, database '{server.database}'", partial(_check, server))


def _check(server: ClickHouseServer) -> str:
    with ClickHouseClient(server, application_id="streamling check", timeout=_SECONDS) as client:
        (found,) = client.rows("SELECT version() AS version, currentUser() AS user")
    return f"server {found['version']}, user '{found['user']}'"
