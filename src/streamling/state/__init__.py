"""Where a pipeline remembers how far it has come: memory, a SQLite file, or Postgres."""

from __future__ import annotations

from streamling.config import AppConfig
from streamling.state.backend import StateBackend

__all__ = ["StateBackend", "find_state", "open_state"]


def find_state(config: AppConfig) -> StateBackend | None:
    """The state backend that ``config`` names if there is one already: looking creates nothing."""
    settings = config.state_backend
    if settings.backend_type == "Postgres" and settings.postgres is not None:
        from streamling.state.postgres import PostgresState

        found = PostgresState(
            config.application_id, settings.postgres, acquire_timeout=config.state_acquire_timeout, create=False
        )
        if found.exists():
            return found
        found.close()
    if settings.backend_type == "Sqlite" and settings.sqlite is not None and settings.sqlite.database_path.exists():
        return open_state(config)
    return None


def open_state(config: AppConfig) -> StateBackend:
    """The state backend that ``config`` names, in the namespace of its application; created when missing."""
    settings = config.state_backend
    if settings.backend_type == "Postgres" and settings.postgres is not None:
        from streamling.state.postgres import PostgresState

        return PostgresState(config.application_id, settings.postgres, acquire_timeout=config.state_acquire_timeout)
    if settings.backend_type == "Sqlite" and settings.sqlite is not None:
        from streamling.state.sqlite import SqliteState

        return SqliteState(config.application_id, settings.sqlite.database_path, table=settings.sqlite.state_table_name)
    from streamling.state.memory import MemoryState

    return MemoryState()
