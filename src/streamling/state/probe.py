"""Trying the state backend of a configuration."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from streamling.config import AppConfig
from streamling.errors import StreamlingError
from streamling.plugins.connections import Connection
from streamling.postgres.connection import Server
from streamling.state import find_state


def state_connection(config: AppConfig) -> Connection | None:
    """The state backend; None when the state is in memory."""
    settings = config.state_backend
    if settings.backend_type == "Postgres" and settings.postgres is not None:
        server = Server.of(settings.postgres, "state_backend.postgres")
        return Connection("Postgres", str(server), partial(_check_backend, config))
    if settings.backend_type == "Sqlite" and settings.sqlite is not None:
        path = settings.sqlite.database_path
        return Connection("SQLite file", str(path), partial(_check_file, config, path))
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
            f"the state file {path} cannot be created: {folder} is not a folder that can be written",
            remedy="allow this user to write there, or set state_backend.sqlite.database_path",
        )
    return "the file will be created"
