"""Connects to a Postgres server."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import psycopg
    from pydantic import SecretStr

    from streamling.pipeline.config import AppConfig
from streamling.connectors.postgres.config import PostgresConfig, PostgresServerSettings
from streamling.errors import StreamlingError
from streamling.network.policy import ANY_ADDRESS, NetworkPolicy


@dataclass(frozen=True)
class PostgresServer:
    """Address and credentials of a database."""

    host: str
    port: int
    db: str
    user: str
    password: SecretStr
    sslmode: str
    sslrootcert: Path | None = None
    network: NetworkPolicy = ANY_ADDRESS
    #: the setting that each field comes from, for error messages
    settings: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, server: PostgresServerSettings, section: str, network: NetworkPolicy) -> Self:
        """Return the server of a section of the configuration."""
        names = ("host", "port", "db", "user", "password", "sslmode", "sslrootcert")
        values = {name: getattr(server, name) for name in names}
        return cls(
            **values,
            network=network,
            settings={name: f"{section}.{name}" for name in names},
        )

    @classmethod
    def of_sink(cls, config: AppConfig, sink: str) -> Self:
        """Return the server that the sink with this name writes to."""
        names = {name: name for name in ("host", "port", "db", "user", "sslmode", "sslrootcert")} | {
            "password": "pass_"
        }
        settings = config.part(PostgresConfig)
        connection = settings.postgres_connection(sink)
        values = {name: getattr(connection, own) for name, own in names.items()}
        return cls(
            **values,
            network=NetworkPolicy.of(config.network),
            settings={name: settings.postgres_setting(sink, own) for name, own in names.items()},
        )

    def setting(self, name: str) -> str:
        """Return the name of the setting that a field comes from."""
        return self.settings.get(name, name)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}/{self.db}"


def connect(
    server: PostgresServer, *, application_name: str, connect_timeout: float, silence_timeout: float = 0, **more: Any
) -> psycopg.Connection:
    """Open a connection in autocommit mode.

    ``silence_timeout``: seconds after which the operating system gives up on sent data that is not acknowledged; 0
    keeps its default. ``more`` are further libpq parameters.
    """
    import psycopg

    return psycopg.connect(
        **_address(server),
        dbname=server.db,
        user=server.user,
        **_login(server),
        sslmode=server.sslmode,
        sslrootcert=str(server.sslrootcert) if server.sslrootcert else None,
        # libpq counts whole seconds and treats 1 as 2
        connect_timeout=max(2, round(connect_timeout)),
        application_name=application_name,
        tcp_user_timeout=int(silence_timeout * 1000),
        autocommit=True,
        # poolers in transaction mode support neither prepared statements nor session settings
        prepare_threshold=None,
        **more,
    )


def _address(server: PostgresServer) -> dict[str, Any]:
    """Return host and port, with the checked addresses if some are denied: libpq then does not resolve the name, which
    still has to match the server's certificate."""
    if not server.network.deny_private:
        return {"host": server.host, "port": server.port}
    found = [(host, address) for host in server.host.split(",") for address in _checked_addresses(host, server)]
    hosts, addresses = zip(*found, strict=True)
    return {"host": ",".join(hosts), "hostaddr": ",".join(addresses), "port": server.port}


def _checked_addresses(host: str, server: PostgresServer) -> list[str]:
    import psycopg

    if not host or host.startswith(("/", "@")):  # a socket file, or libpq's default, which is one
        raise StreamlingError.user(
            f"'{host}' is a socket of this machine, and network.deny_private is on",
            remedy=f"set {server.setting('host')} to a host name",
        )
    try:
        return server.network.addresses(host, server.port)
    except socket.gaierror:
        raise psycopg.OperationalError(f"failed to resolve host '{host}'") from None


def _login(server: PostgresServer) -> dict[str, Any]:
    """Return the password. Without one, libpq looks in the environment and in files of this user, which a pipeline must
    not direct to a server of its choice."""
    password = server.password.get_secret_value()
    if password or all(map(server.network.may_receive_credentials, server.host.split(","))):
        return {"password": password or None}
    missing = os.path.join(os.devnull, "none")  # cannot exist, and libpq accepts that
    return {"password": "", "passfile": missing, "sslcert": missing, "sslkey": missing, "gssencmode": "disable"}
