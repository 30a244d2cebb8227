from __future__ import annotations

from pathlib import Path

import pytest

from streamling.config import load_config
from streamling.dev.postgres import LocalPostgres
from streamling.state import open_state


def test_state_is_a_file_in_the_working_directory_by_default(tmp_path: Path) -> None:
    with open_state(load_config(cwd=tmp_path, env={})) as state:
        state.put("key", 1)

    assert (tmp_path / "state.db").exists()


def test_the_application_id_is_the_namespace(tmp_path: Path) -> None:
    for name in ("one", "two"):
        with open_state(load_config(cwd=tmp_path, env={"STREAMLING__APPLICATION_ID": name})) as state:
            assert state.items() == {}
            state.put("key", name)


def test_memory_leaves_nothing_behind(tmp_path: Path) -> None:
    env = {"STREAMLING__STATE_BACKEND__BACKEND_TYPE": "InMemory"}
    with open_state(load_config(cwd=tmp_path, env=env)) as state:
        state.put("key", 1)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.services
def test_postgres_is_configured_by_the_environment(tmp_path: Path, postgres: LocalPostgres) -> None:
    settings = {
        "HOST": "127.0.0.1",
        "PORT": str(postgres.port),
        "DB": "postgres",
        "USER": "postgres",
        "SSLMODE": "disable",
    }
    env = {f"STREAMLING__STATE_BACKEND__POSTGRES__{name}": value for name, value in settings.items()}
    config = load_config(cwd=tmp_path, env={**env, "STREAMLING__STATE_BACKEND__BACKEND_TYPE": "postgres"})

    with open_state(config) as state:
        state.put("key", 1)
    with open_state(config) as state:
        assert state.get("key") == 1
