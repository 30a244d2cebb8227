"""A role that has to give its password, on the real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from streamling.dev.postgres import LocalPostgres

ROLE, PASSWORD = "needs_password", "open-sesame-5"


@pytest.fixture(scope="session")
def guarded(postgres: LocalPostgres) -> Iterator[LocalPostgres]:
    """The server, which asks `ROLE` for its `PASSWORD` and lets `not_let_in` not in at all."""
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {ROLE} LOGIN PASSWORD '{PASSWORD}'")
        connection.execute("CREATE ROLE not_let_in LOGIN")
        ((hba,),) = connection.execute("SHOW hba_file").fetchall()
        before = Path(hba).read_text()
        rules = f"host all {ROLE} all scram-sha-256\nhost all not_let_in all reject\n"
        Path(hba).write_text(rules + before)
        connection.execute("SELECT pg_reload_conf()")
        yield postgres
        Path(hba).write_text(before)
        connection.execute("SELECT pg_reload_conf()")
