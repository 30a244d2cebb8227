"""Where a pipeline remembers how far it has come: memory, a SQLite file, or Postgres."""

from __future__ import annotations

from collections.abc import Callable

from streamling.config import AppConfig
from streamling.pipeline.identity import FORMER_DEFAULT
from streamling.state.backend import StateBackend

__all__ = ["StateBackend", "find_former", "find_state", "open_state", "take_over_former"]


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


def find_former(config: AppConfig, belongs: Callable[[str], bool]) -> StateBackend | None:
    """The entries that a pipeline wrote before it had an identity of its own, if there are any under keys that
    ``belongs`` accepts and none under the identity of ``config``."""
    if config.application_id == FORMER_DEFAULT or config.state_backend.backend_type == "InMemory":
        return None
    former = find_state(config.model_copy(update={"application_id": FORMER_DEFAULT}))
    if former is not None and not any(map(belongs, former.items())):
        former.close()
        return None
    return former


def take_over_former(state: StateBackend, config: AppConfig, belongs: Callable[[str], bool]) -> int:
    """Move the entries of `find_former` into ``state``, which is that of ``config`` and has none yet; how many there
    were. A crash in between leaves them in both places, and the next start goes by the new one."""
    former = None if state.items() else find_former(config, belongs)
    if former is None:
        return 0
    with former:
        entries = {key: value for key, value in former.items().items() if belongs(key)}
        state.put_many(entries)
        former.put_many(dict.fromkeys(entries))
    return len(entries)
