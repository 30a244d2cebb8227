from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from streamling.connectors.postgres.state import PostgresState
from streamling.engine.state.memory import MemoryState
from streamling.engine.state.sqlite import SqliteState
from streamling.plugins.state_backend import StateBackend

#: opens the state of a namespace
Opener = Callable[[str], StateBackend]


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
                backend = PostgresState(namespace, request.getfixturevalue("postgres_state"))
        opened.append(backend)
        return backend

    yield opener
    for backend in opened:
        backend.close()


@pytest.fixture
def state(open_namespace: Opener) -> StateBackend:
    return open_namespace("app")
