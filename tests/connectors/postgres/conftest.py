"""Fixtures of the tests against the real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from streamling.connectors.postgres.config import PostgresStateSettings
from streamling.dev.services.postgres import LocalPostgres

ROLE, PASSWORD = "needs_password", "open-sesame-5"


@pytest.fixture
def settings(postgres_state: PostgresStateSettings) -> PostgresStateSettings:
    """Return the configuration of a state backend."""
    return postgres_state


@pytest.fixture(scope="session")
def guarded(postgres: LocalPostgres) -> Iterator[LocalPostgres]:
    """The server, which requires `PASSWORD` from `ROLE` and always rejects `not_let_in`."""
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {ROLE} LOGIN PASSWORD '{PASSWORD}'")
        connection.execute("CREATE ROLE not_let_in LOGIN")
        ((hba,),) = connection.execute("SHOW hba_file").fetchall()
    before = Path(hba).read_text()
    _replace_access_rules(postgres, hba, f"host all {ROLE} all scram-sha-256\nhost all not_let_in all reject\n{before}")
    yield postgres
    _replace_access_rules(postgres, hba, before)


def _replace_access_rules(postgres: LocalPostgres, hba: str, rules: str) -> None:
    """On a separate connection: between the two calls other tests kill and restart the server."""
    Path(hba).write_text(rules)
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute("SELECT pg_reload_conf()")
