"""Counts of a pipeline that was killed with -9: rows that a run reports as delivered are those that the target got from
it, however many of them the killed run had written already."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pytest

from streamling.dev.services.postgres import LocalPostgres
from streamling.engine.state.sqlite import SqliteState
from tests.connectors.postgres.driver import Driver
from tests.harness.commands import Command, Nodes
from tests.harness.pipelines import eventually
from tests.recovery.test_kill_file import SEED

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.slow]

SINK = "counted_out"
_BACKENDS = f"SELECT pid FROM pg_stat_activity WHERE application_name = 'streamling {SINK}'"
#: longer than the time from a checkpoint to the kill: rows in between are replayed
ENV = {"STREAMLING__CHECKPOINT_INTERVAL_SEC": "3"}


class Target:
    """A table whose server notes every write of a row, also those that replace a row with itself."""

    def __init__(self, dsn: str) -> None:
        self.pg = Driver(dsn)
        self.pg.create("id bigint PRIMARY KEY, customer text")
        self.pg.execute("CREATE TABLE {s}.writes (id bigint)")
        self.pg.execute(
            "CREATE FUNCTION {s}.note() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$ BEGIN INSERT INTO {self.pg.schema}.writes VALUES (NEW.id); RETURN NULL; END $$"
        )
        self.pg.execute("CREATE TRIGGER noted AFTER INSERT OR UPDATE ON {t} FOR EACH ROW EXECUTE FUNCTION {s}.note()")

    def writes(self) -> int:
        return int(self.pg.execute("SELECT count(*) FROM {s}.writes")[0][0])

    def replayed(self) -> int:
        return int(self.pg.execute("SELECT count(*) - count(DISTINCT id) FROM {s}.writes")[0][0])


def reported(metrics: Path) -> int:
    """Rows that the running pipeline has reported as delivered so far."""
    found = re.search(rf'^streamling_output_rows_total{{id="{SINK}".*}} (\d+)$', metrics.read_text(), re.MULTILINE)
    return int(found[1]) if found else 0


def position(folder: Path) -> object:
    """What the last checkpoint has stored."""
    with SqliteState("pipeline", folder / "state.db") as state:
        return state.get_prefix("")


def nodes(schema: str) -> Nodes:
    key = {"primary_key": "id"}
    columns = {"id": "sequence", "customer": "name"}
    query = "SELECT id, customer FROM events WHERE id % 5 <> 0"
    return {
        "sources": {"events": {"type": "generate", "columns": columns, "rows_per_second": 400, **key}},
        "transforms": {"kept": {"type": "sql", "sql": query, **key}},
        "sinks": {SINK: {"type": "postgres", "from": "kept", "schema": schema, "table": "t"}},
    }


def test_a_run_after_a_kill_counts_the_rows_that_the_target_got_from_it(
    tmp_path: Path, postgres: LocalPostgres
) -> None:
    chance = random.Random(SEED)
    print(f"seed {SEED}")
    target = Target(postgres.dsn)
    metrics = tmp_path / "metrics.prom"
    command = Command(tmp_path, {**postgres.variables(), **ENV}, "--metrics-file", str(metrics))
    command.write(nodes(target.pg.schema))
    try:
        command.start()
        command.eventually(lambda: metrics.exists() and reported(metrics) > 0)
        old = position(tmp_path)
        command.eventually(lambda: position(tmp_path) != old)
        time.sleep(0.5 + chance.random())
        command.kill()
        eventually(lambda: not target.pg.execute(_BACKENDS))  # nothing is written later
        before = target.writes()
        assert 0 < reported(metrics) <= before
        metrics.unlink()
        command.start()
        command.eventually(lambda: metrics.exists() and reported(metrics) > 0)
        assert reported(metrics) <= target.writes() - before
        command.drain()
    finally:
        command.end()
    written = target.writes() - before
    assert f"finished: SIGTERM; rows: {written:,} to {SINK}" in command.log()
    assert reported(metrics) == written
    assert 0 < target.replayed() < before, "the second run continues at a checkpoint, and replays what came after it"
