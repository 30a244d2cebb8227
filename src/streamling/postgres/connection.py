"""Connecting to a Postgres server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg
    from pydantic import SecretStr


@dataclass(frozen=True)
class Server:
    """Where a database is and how to get in."""

    host: str
    port: int
    db: str
    user: str
    password: SecretStr
    sslmode: str
    sslrootcert: Path | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}/{self.db}"


def connect(
    server: Server, *, application_name: str, connect_timeout: float, silence_timeout: float = 0, **more: Any
) -> psycopg.Connection:
    """A connection in autocommit mode.

    ``silence_timeout``: seconds after which the system gives up on sent data that nobody acknowledges; 0: its own.
    ``more`` are further parameters of libpq.
    """
    import psycopg

    return psycopg.connect(
        host=server.host,
        port=server.port,
        dbname=server.db,
        user=server.user,
        password=server.password.get_secret_value() or None,
        sslmode=server.sslmode,
        sslrootcert=str(server.sslrootcert) if server.sslrootcert else None,
        # libpq counts whole seconds and reads 1 as 2
        connect_timeout=max(2, round(connect_timeout)),
        application_name=application_name,
        tcp_user_timeout=int(silence_timeout * 1000),
        autocommit=True,
        # poolers in transaction mode know neither prepared statements nor settings of a session
        prepare_threshold=None,
        **more,
    )
