from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from streamling.config.sections import PostgresState as PostgresSettings
from streamling.dev.postgres import LocalPostgres
from streamling.state.backend import StateBackend
from streamling.state.memory import MemoryState
from streamling.state.postgres import PostgresState
from streamling.state.sqlite import SqliteState

#: opens the state of a namespace
Opener = Callable[[str], StateBackend]


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that Postgres may enter when the tests run as root; pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="streamling-postgres-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def postgres_folder() -> Iterator[Path]:
    with open_folder() as folder:
        yield folder


@pytest.fixture(scope="session")
def postgres() -> Iterator[LocalPostgres]:
    """A real server for the whole run."""
    with open_folder() as folder, LocalPostgres(folder) as server:
        yield server


@pytest.fixture
def settings(postgres: LocalPostgres) -> PostgresSettings:
    """A schema of its own for each test."""
    return PostgresSettings(
        host="127.0.0.1",
        port=postgres.port,
        db="postgres",
        user="postgres",
        sslmode="disable",
        state_schema_name=f"schema_{uuid4().hex}",
    )


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.services)])
def open_namespace(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    opened: list[StateBackend] = []
    memories: dict[str, StateBackend] = {}

    def opener(namespace: str) -> StateBackend:
        match request.param:
            case "memory":
                backend = memories.setdefault(namespace, MemoryState())
            case "sqlite":
                backend = SqliteState(namespace, tmp_path / "state.db")
            case _:
                backend = PostgresState(namespace, request.getfixturevalue("settings"))
        opened.append(backend)
        return backend

    yield opener
    for backend in opened:
        backend.close()


@pytest.fixture
def state(open_namespace: Opener) -> StateBackend:
    return open_namespace("app")
