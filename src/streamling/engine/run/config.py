"""The configuration of the state backend."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from streamling.connectors.postgres.config import PostgresState
from streamling.engine.state.config import SqliteStateConfig
from streamling.pipeline.config.core import CoreConfig
from streamling.pipeline.config.section import Section
from streamling.pipeline.config.values import folded

BackendType = Annotated[Literal["InMemory", "Postgres", "Sqlite"], folded("InMemory", "Postgres", "Sqlite")]


class StateBackendConfig(Section):
    """Where positions are stored between runs."""

    backend_type: BackendType = Field(default="Sqlite", description="Where state is kept.")
    sqlite: SqliteStateConfig | None = Field(default=SqliteStateConfig())
    postgres: PostgresState | None = Field(default=PostgresState())

    @model_validator(mode="after")
    def _has_block(self) -> Self:
        for name, block in {"Sqlite": self.sqlite, "Postgres": self.postgres}.items():
            if self.backend_type == name and block is None:
                raise ValueError(
                    f"state_backend.backend_type is {name}, but there is no state_backend.{name.lower()} block"
                )
        return self


class StateConfig(CoreConfig):
    """What the state backend adds to the configuration."""

    state_backend: StateBackendConfig = Field(default=StateBackendConfig())

    @property
    def state_acquire_timeout(self) -> float:
        """Maximum wait for a connection to the state database; well within the shutdown budget."""
        configured = self.state_backend.postgres.acquire_timeout_secs if self.state_backend.postgres else None
        return configured or max(1.0, min(5.0, self.shutdown_budget_secs / 2))
