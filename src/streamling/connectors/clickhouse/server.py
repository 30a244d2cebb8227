"""The ClickHouse server of a source or a sink, and the names of tables in it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from streamling.connectors.clickhouse.config import ClickHouseSettings
from streamling.errors import StreamlingError
from streamling.network.http.request import InvalidUrlError, Origin, origin_of
from streamling.network.policy import ANY_ADDRESS, NetworkPolicy


@dataclass(frozen=True)
class ClickHouseServer:
    """Where a server listens and how to log in. Executors receive it with their tasks."""

    origin: Origin
    #: path in front of the queries, for servers behind a proxy
    path: str
    user: str
    password: str = field(repr=False)
    database: str
    #: section of the configuration that all of this comes from, for errors
    section: str
    #: trusted certificates; None: those of the system
    ca_file: Path | None = None
    network: NetworkPolicy = ANY_ADDRESS

    @classmethod
    def of(cls, config: ClickHouseSettings, section: str, network: NetworkPolicy) -> ClickHouseServer:
        """Return the server of a section of the configuration; a user in the URL takes precedence."""
        try:
            origin = origin_of(config.url)
        except InvalidUrlError:
            raise StreamlingError.user(
                f"{section}.url is not an http or https URL", remedy="write it as http://host:8123"
            ) from None
        parts = urlsplit(config.url)
        named = parts.username is not None
        return cls(
            origin=origin,
            path=parts.path or "/",
            user=unquote(parts.username or "") if named else config.user,
            password=unquote(parts.password or "") if named else config.password.get_secret_value(),
            database=config.database,
            section=section,
            ca_file=config.ssl_ca_location,
            network=network,
        )

    def __str__(self) -> str:
        return str(self.origin)

    def tls_context(self) -> ssl.SSLContext:
        """Return the context of TLS connections, which verifies the server's certificate and name."""
        try:
            return ssl.create_default_context(cafile=None if self.ca_file is None else str(self.ca_file))
        except OSError as error:  # also if it is not a certificate
            raise StreamlingError.user(
                f"{self.section}.ssl_ca_location: {self.ca_file} cannot be used: {error.strerror or error}",
                remedy="set it to a PEM file with certificates",
            ) from None


@dataclass(frozen=True)
class TableName:
    """A table with its database."""

    database: str
    name: str

    @classmethod
    def parse(cls, text: str, server: ClickHouseServer) -> TableName:
        """Return the table of ``name`` or ``database.name``."""
        database, dot, name = text.partition(".")
        return cls(database, name) if dot and database and name else cls(server.database, text)

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"

    @property
    def sql(self) -> str:
        """The quoted name for a statement."""
        return f"{identifier(self.database)}.{identifier(self.name)}"


def identifier(name: str) -> str:
    """Return ``name`` quoted for a statement, whatever it contains."""
    escaped = name.replace("\\", "\\\\").replace("`", "\\`").replace("\0", "\\0")
    return f"`{escaped}`"


def literal(text: str) -> str:
    """Return ``text`` as a string literal for a statement, whatever it contains."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\0", "\\0")
    return f"'{escaped}'"
