"""`kill -9` while the server still executes a write: nothing of a killed process is committed later, when another one
may have written newer rows."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from streamling.dev.services.postgres import LocalPostgres
from tests.connectors.postgres.driver import Driver
from tests.harness.commands import Command
from tests.harness.pipelines import eventually

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.slow]

_BACKENDS = "SELECT pid FROM pg_stat_activity WHERE application_name = 'streamling late_write'"


def test_a_write_that_waits_for_a_lock_when_its_process_is_killed_is_rolled_back(
    tmp_path: Path, postgres: LocalPostgres
) -> None:
    pg = Driver(postgres.dsn)
    pg.create("id bigint PRIMARY KEY, name text")
    pg.execute("INSERT INTO {t} VALUES (1, 'before'), (2, 'before')")
    (tmp_path / "rows.csv").write_text("id,name\n1,late\n2,late\n")
    pipeline = Command(tmp_path, postgres.variables())
    source = {"type": "file", "path": "rows.csv", "format": "csv", "primary_key": "id"}
    sink = {"type": "postgres", "from": "rows", "schema": pg.schema, "table": "t", "primary_key": "id"}
    pipeline.write({"sources": {"rows": source}, "sinks": {"late_write": sink}})
    with psycopg.connect(postgres.dsn) as other:
        other.execute(f"SELECT FROM {pg.schema}.t WHERE id = 1 FOR UPDATE".encode())
        pipeline.start()
        try:
            pipeline.eventually(lambda: bool(pg.execute(f"{_BACKENDS} AND wait_event_type = 'Lock'")))
        finally:
            pipeline.end()
        other.rollback()
    eventually(lambda: not pg.execute(_BACKENDS))
    assert pg.rows() == [(1, "before"), (2, "before")]
