"""The state backend of a configuration: opens it, migrates old entries, checks the connection."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from streamling.engine.run.config import StateConfig
from streamling.errors import StreamlingError
from streamling.network.policy import ANY_ADDRESS
from streamling.pipeline.config import AppConfig
from streamling.pipeline.config.identity import LEGACY_APPLICATION_ID
from streamling.plugins.connections import ConnectionCheck
from streamling.plugins.shared import SharedResources
from streamling.plugins.state_backend import StateBackend


def find_state(config: AppConfig, shared: SharedResources | None = None) -> StateBackend | None:
    """The state backend of ``config`` if it exists; nothing is created. Its connections are those of ``shared``."""
    own = config.part(StateConfig)
    settings = own.state_backend
    if settings.backend_type == "Postgres" and settings.postgres is not None:
        from streamling.connectors.postgres.state import PostgresState

        found = PostgresState(
            config.application_id,
            settings.postgres,
            acquire_timeout=own.state_acquire_timeout,
            create=False,
            shared=shared,
        )
        if found.exists():
            return found
        found.close()
    if settings.backend_type == "Sqlite" and settings.sqlite is not None and settings.sqlite.database_path.exists():
        return open_state(config, shared)
    return None


def open_state(config: AppConfig, shared: SharedResources | None = None) -> StateBackend:
    """The state backend of ``config``, in the namespace of its application; created if it does not exist. Its
    connections are those of ``shared``."""
    own = config.part(StateConfig)
    settings = own.state_backend
    if settings.backend_type == "Postgres" and settings.postgres is not None:
        from streamling.connectors.postgres.state import PostgresState

        timeout = own.state_acquire_timeout
        return PostgresState(config.application_id, settings.postgres, acquire_timeout=timeout, shared=shared)
    if settings.backend_type == "Sqlite" and settings.sqlite is not None:
        from streamling.engine.state.sqlite import SqliteState

        path, table = settings.sqlite.database_path, settings.sqlite.state_table_name
        return SqliteState(config.application_id, path, table=table, shared=shared)
    from streamling.engine.state.memory import MemoryState

    return MemoryState()


def find_legacy_state(config: AppConfig, belongs: Callable[[str], bool]) -> StateBackend | None:
    """The entries that a pipeline wrote before it had its own application id, if there are any whose keys ``belongs``
    accepts, and none under the application id of ``config``."""
    if (
        config.application_id == LEGACY_APPLICATION_ID
        or config.part(StateConfig).state_backend.backend_type == "InMemory"
    ):
        return None
    former = find_state(config.model_copy(update={"application_id": LEGACY_APPLICATION_ID}))
    if former is not None and not any(map(belongs, former.items())):
        former.close()
        return None
    return former


def migrate_legacy_state(state: StateBackend, config: AppConfig, belongs: Callable[[str], bool]) -> int:
    """Move the entries of `find_legacy_state` to ``state``, which belongs to ``config`` and has none yet. Returns their
    number. A crash in between leaves them in both places; the next start uses the new one."""
    former = None if state.items() else find_legacy_state(config, belongs)
    if former is None:
        return 0
    with former:
        entries = {key: value for key, value in former.items().items() if belongs(key)}
        state.put_many(entries)
        former.put_many(dict.fromkeys(entries))
    return len(entries)


def state_connection(config: AppConfig) -> ConnectionCheck | None:
    """The state backend; None when the state is in memory."""
    settings = config.part(StateConfig).state_backend
    if settings.backend_type == "Postgres" and settings.postgres is not None:
        from streamling.connectors.postgres.connection import Server

        server = Server.of(settings.postgres, "state_backend.postgres", ANY_ADDRESS)
        return ConnectionCheck("Postgres", str(server), partial(_check_backend, config))
    if settings.backend_type == "Sqlite" and settings.sqlite is not None:
        path = settings.sqlite.database_path
        return ConnectionCheck("SQLite file", str(path), partial(_check_file, config, path))
    return None


def _check_backend(config: AppConfig) -> str:
    found = find_state(config)
    if found is None:
        return "the table will be created"
    with found:
        count = len(found.items())
    return "1 entry" if count == 1 else f"{count} entries"


def _check_file(config: AppConfig, path: Path) -> str:
    if path.exists():
        return _check_backend(config)
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise StreamlingError.user(
            f"the state file {path} cannot be created: {folder} is not a writable folder",
            remedy="allow this user to write there, or set state_backend.sqlite.database_path",
        )
    return "the file will be created"


def state_location(config: AppConfig) -> str:
    """Where the state is stored, for people and without secrets."""
    settings = config.part(StateConfig).state_backend
    if settings.backend_type == "Sqlite" and settings.sqlite is not None:
        return str(settings.sqlite.database_path)
    if settings.backend_type == "Postgres" and settings.postgres is not None:
        server = settings.postgres
        table = f"{server.state_schema_name}.{server.state_table_name}"
        return f"{table} at {server.host}:{server.port}/{server.db}"
    return "memory, lost at the end"
