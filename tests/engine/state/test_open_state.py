from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from streamling.dev.services.postgres import LocalPostgres
from streamling.engine.state.store import state_store
from streamling.pipeline.config import AppConfig, load_config


def test_state_is_a_file_in_the_working_directory_by_default(tmp_path: Path) -> None:
    with state_store(load_config(cwd=tmp_path, env={})).open() as state:
        state.put("key", 1)

    assert (tmp_path / "state.db").exists()


def test_the_application_id_is_the_namespace(tmp_path: Path) -> None:
    for name in ("one", "two"):
        with state_store(load_config(cwd=tmp_path, env={"STREAMLING__APPLICATION_ID": name})).open() as state:
            assert state.items() == {}
            state.put("key", name)


def test_memory_leaves_nothing_behind(tmp_path: Path) -> None:
    env = {"STREAMLING__STATE_BACKEND__BACKEND_TYPE": "InMemory"}
    with state_store(load_config(cwd=tmp_path, env=env)).open() as state:
        state.put("key", 1)

    assert list(tmp_path.iterdir()) == []


def _in_postgres(folder: Path, postgres: LocalPostgres, schema: str) -> AppConfig:
    settings = {
        "HOST": "127.0.0.1",
        "PORT": str(postgres.port),
        "DB": "postgres",
        "USER": "postgres",
        "SSLMODE": "disable",
        "STATE_SCHEMA_NAME": schema,
    }
    env = {f"STREAMLING__STATE_BACKEND__POSTGRES__{name}": value for name, value in settings.items()}
    return load_config(cwd=folder, env={**env, "STREAMLING__STATE_BACKEND__BACKEND_TYPE": "postgres"})


@pytest.mark.services
def test_postgres_is_configured_by_the_environment(tmp_path: Path, postgres: LocalPostgres) -> None:
    config = _in_postgres(tmp_path, postgres, "streamling")
    with state_store(config).open() as state:
        state.put("key", 1)
    with state_store(config).open() as state:
        assert state.get("key") == 1


@pytest.mark.services
def test_looking_for_a_state_creates_none(tmp_path: Path, postgres: LocalPostgres) -> None:
    config = _in_postgres(tmp_path, postgres, "looked_for")
    assert state_store(config).find() is None
    with psycopg.connect(postgres.dsn) as connection:
        assert connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'looked_for'").fetchall() == []

    with state_store(config).open() as state:
        state.put("key", 1)
    found = state_store(config).find()
    assert found is not None
    with found:
        assert found.items() == {"key": 1}
