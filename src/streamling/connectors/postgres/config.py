"""How the Postgres sinks, the state backend and dynamic tables connect to their server."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal

from pydantic import Field, SecretStr

from streamling.pipeline.config import values
from streamling.pipeline.config.core import CoreConfig
from streamling.pipeline.config.grants import (
    AT_MOST,
    AT_MOST_ROWS,
    FREE,
    address,
    credential,
    credential_file,
    protection,
)
from streamling.pipeline.config.section import Section, no_effect, unset_means
from streamling.pipeline.config.values import folded
from streamling.pipeline.document.scalars import Duration

_EMPTY = SecretStr("")

SslMode = Annotated[
    Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"],
    folded("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
]


class PostgresServerSettings(Section):
    """Connection to the Postgres database of the state and of dynamic tables."""

    host: str = Field(default="localhost", json_schema_extra=address("server"), description="Host name or address.")
    port: int = Field(default=5432, ge=1, le=65535, json_schema_extra=address("server"), description="Server port.")
    db: str = Field(default="streamling", json_schema_extra=FREE, description="Database.")
    user: str = Field(default="graph-node", json_schema_extra=credential("server"), description="User.")
    password: SecretStr = Field(default=_EMPTY, json_schema_extra=credential("server"), description="Password.")
    sslmode: SslMode = Field(
        default="require", json_schema_extra=protection("server"), description="TLS mode, as in libpq."
    )
    sslrootcert: values.LocalPath | None = Field(
        default=None,
        json_schema_extra=credential_file("server"),
        description="Trusted certificates for verify-ca and verify-full; defaults to libpq's own location.",
    )


class PostgresStateSettings(PostgresServerSettings):
    """The state table in Postgres."""

    max_connections: int = Field(
        default=20,
        ge=1,
        json_schema_extra=no_effect("one connection stores the positions of all sources in one transaction"),
        description="No effect: one connection stores all positions in one transaction.",
    )
    state_schema_name: str = Field(default="streamling", description="Schema, created if missing.")
    state_table_name: str = Field(default="state", description="Table, created if missing.")
    acquire_timeout_secs: float | None = Field(
        default=None,
        ge=1,
        description="Maximum wait for a connection; defaults to min(5, shutdown budget / 2), at least 1.",
    )

    def acquire_timeout(self, shutdown_budget: float) -> float:
        """Return the maximum wait for a connection; by default well within the shutdown budget."""
        return self.acquire_timeout_secs or max(1.0, min(5.0, shutdown_budget / 2))


class PostgresTableSettings(PostgresServerSettings):
    """Settings of dynamic tables with the Postgres backend."""

    max_connections: int = Field(
        default=20,
        ge=1,
        json_schema_extra={**AT_MOST, **unset_means("`1`")},
        description="Maximum number of connections per table for look-ups of more than `max_batch_size` values.",
    )
    dt_schema_name: str = Field(default="streamling", description="Schema of the dynamic tables.")
    cache_enabled: bool = Field(default=False, description="Cache the tables' content in memory.")
    cache_refresh_debounce_ms: int = Field(default=1000, ge=0, description="Minimum time between two refreshes.")


class PostgresConnectionSettings(Section):
    """Server of one Postgres sink; missing settings come from ``postgres_sink``."""

    inherits: ClassVar[str | None] = "postgres_sink"

    host: str | None = Field(default=None, json_schema_extra=address("server"), description="Host name or address.")
    port: int | None = Field(
        default=None, ge=1, le=65535, json_schema_extra=address("server"), description="Server port."
    )
    user: str | None = Field(default=None, json_schema_extra=credential("server"), description="User.")
    pass_: SecretStr | None = Field(
        default=None, alias="pass", json_schema_extra=credential("server"), description="Password."
    )
    db: str | None = Field(default=None, json_schema_extra=FREE, description="Database.")
    sslmode: SslMode | None = Field(
        default=None, json_schema_extra=protection("server"), description="TLS mode, as in libpq."
    )
    sslrootcert: values.LocalPath | None = Field(
        default=None, json_schema_extra=credential_file("server"), description="Trusted certificates."
    )


class PostgresSinkSettings(Section):
    """Settings of the Postgres sinks."""

    host: str = Field(default="127.0.0.1", json_schema_extra=address("server"), description="Host name or address.")
    port: int = Field(default=5432, ge=1, le=65535, json_schema_extra=address("server"), description="Server port.")
    user: str = Field(default="graph-node", json_schema_extra=credential("server"), description="User.")
    pass_: SecretStr = Field(
        default=_EMPTY, alias="pass", json_schema_extra=credential("server"), description="Password."
    )
    db: str = Field(default="postgres", json_schema_extra=FREE, description="Database.")
    sslmode: SslMode = Field(
        default="disable", json_schema_extra=protection("server"), description="TLS mode, as in libpq."
    )
    sslrootcert: values.LocalPath | None = Field(
        default=None,
        json_schema_extra=credential_file("server"),
        description="Trusted certificates for verify-ca and verify-full; defaults to libpq's own location.",
    )
    batch_flush_interval: Duration = Field(
        default=1.0,
        json_schema_extra={**FREE, **unset_means("no wait")},
        description="Maximum wait for a full batch.",
    )
    batch_size: int = Field(
        default=100,
        ge=1,
        json_schema_extra={**AT_MOST_ROWS, **unset_means("as many as arrive together")},
        description="Rows per write.",
    )
    statement_timeout_secs: float = Field(default=60, ge=0, description="Statement timeout; 0 means no limit.")
    pool_acquire_timeout_secs: float = Field(default=30, gt=0, description="Maximum wait for a connection.")
    pool_idle_timeout_secs: float = Field(
        default=600, gt=0, description="Idle time after which a connection is closed."
    )
    pool_max_lifetime_secs: float = Field(default=1800, gt=0, description="Age after which a connection is replaced.")


class PostgresConfig(CoreConfig):
    """Settings that Postgres sinks add to the configuration."""

    postgres_sink: PostgresSinkSettings = Field(default=PostgresSinkSettings())
    postgres_sink_connections: dict[str, PostgresConnectionSettings] = Field(
        default={},
        description="Another server for one sink; the key is the sink's name in lower case, with `_` for all other "
        "characters.",
    )

    def postgres_connection(self, sink: str) -> PostgresSinkSettings:
        """Return the settings of ``sink``: ``postgres_sink`` with the overrides of its own connection."""
        own = self.postgres_sink_connections.get(connection_key(sink))
        if own is None:
            return self.postgres_sink
        return self.postgres_sink.model_copy(update={k: v for k, v in own if v is not None})

    def postgres_setting(self, sink: str, name: str) -> str:
        """Return the name of the setting that a value of `postgres_connection` comes from."""
        key, shown = connection_key(sink), name.rstrip("_")
        own = self.postgres_sink_connections.get(key)
        is_own = own is not None and getattr(own, name) is not None
        return f"postgres_sink_connections.{key}.{shown}" if is_own else f"postgres_sink.{shown}"


def connection_key(sink: str) -> str:
    """Return the name of ``sink`` as used in ``postgres_sink_connections`` and in environment variables."""
    return re.sub(r"[^a-z0-9]+", "_", sink.lower()).strip("_")
