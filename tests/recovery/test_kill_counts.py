"""Counts of a pipeline that was killed with -9: rows that a run reports as delivered are those that the target got from
it, however many of them the killed run had written already."""

from __future__ import annotations

import json
import random
import re
import time
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import pytest

from streamling.dev.services.kafka import LocalKafka
from streamling.dev.services.postgres import LocalPostgres
from streamling.dev.services.topics import consume, create_topic
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


class Target(Protocol):
    """A system that knows every write of a row, also those that replace a row with itself."""

    sink: dict[str, Any]
    variables: dict[str, str]

    def settle(self) -> None:
        """Wait until nothing of a killed run is written any more."""

    def written(self) -> list[int]:
        """Return the ids of all writes."""


class Table:
    """A table whose server notes every write."""

    def __init__(self, server: LocalPostgres) -> None:
        self.variables = server.variables()
        self._pg = Driver(server.dsn)
        self._pg.create("id bigint PRIMARY KEY, customer text")
        self._pg.execute("CREATE TABLE {s}.writes (id bigint)")
        self._pg.execute(
            "CREATE FUNCTION {s}.note() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$ BEGIN INSERT INTO {self._pg.schema}.writes VALUES (NEW.id); RETURN NULL; END $$"
        )
        self._pg.execute("CREATE TRIGGER noted AFTER INSERT OR UPDATE ON {t} FOR EACH ROW EXECUTE FUNCTION {s}.note()")
        self.sink: dict[str, Any] = {"type": "postgres", "schema": self._pg.schema, "table": "t"}

    def settle(self) -> None:
        eventually(lambda: not self._pg.execute(_BACKENDS))

    def written(self) -> list[int]:
        return [id for (id,) in self._pg.execute("SELECT id FROM {s}.writes")]


class Topic:
    """A topic: every write is a message."""

    def __init__(self, server: LocalKafka) -> None:
        self.variables = server.variables()
        self._brokers, self._topic = server.brokers, f"counted-{uuid4().hex[:8]}"
        create_topic(self._brokers, self._topic, partitions=2)
        self.sink: dict[str, Any] = {"type": "kafka", "topic": self._topic, "data_format": "json"}

    def settle(self) -> None:
        """Requests that were on their way when the run was killed arrive in milliseconds."""
        last = -1
        while last != (last := len(self.written())):
            time.sleep(0.5)

    def written(self) -> list[int]:
        return [json.loads(message.value)["id"] for message in consume(self._brokers, self._topic) if message.value]


def reported(metrics: Path) -> int:
    """Rows that the running pipeline has reported as delivered so far."""
    found = re.search(rf'^streamling_output_rows_total{{id="{SINK}".*}} (\d+)$', metrics.read_text(), re.MULTILINE)
    return int(found[1]) if found else 0


def position(folder: Path) -> object:
    """What the last checkpoint has stored."""
    with SqliteState("pipeline", folder / "state.db") as state:
        return state.get_prefix("")


def nodes(sink: dict[str, Any]) -> Nodes:
    key = {"primary_key": "id"}
    columns = {"id": "sequence", "customer": "name"}
    query = "SELECT id, customer FROM events WHERE id % 5 <> 0"
    return {
        "sources": {"events": {"type": "generate", "columns": columns, "rows_per_second": 400, **key}},
        "transforms": {"kept": {"type": "sql", "sql": query, **key}},
        "sinks": {SINK: {"from": "kept", **sink}},
    }


@pytest.fixture(params=["postgres", "kafka"])
def target(request: pytest.FixtureRequest) -> Target:
    server = request.getfixturevalue(request.param)
    return Table(server) if request.param == "postgres" else Topic(server)


def test_a_run_after_a_kill_counts_the_rows_that_the_target_got_from_it(tmp_path: Path, target: Target) -> None:
    chance = random.Random(SEED)
    print(f"seed {SEED}")
    metrics = tmp_path / "metrics.prom"
    command = Command(tmp_path, {**target.variables, **ENV}, "--metrics-file", str(metrics))
    command.write(nodes(target.sink))
    try:
        command.start()
        command.eventually(lambda: metrics.exists() and reported(metrics) > 0)
        old = position(tmp_path)
        command.eventually(lambda: position(tmp_path) != old)
        time.sleep(0.5 + chance.random())
        command.kill()
        target.settle()
        before = len(target.written())
        assert 0 < reported(metrics) <= before
        metrics.unlink()
        command.start()
        command.eventually(lambda: metrics.exists() and reported(metrics) > 0)
        assert reported(metrics) <= len(target.written()) - before
        command.drain()
    finally:
        command.end()
    ids = target.written()
    written = len(ids) - before
    assert f"finished: SIGTERM; rows: {written:,} to {SINK}" in command.log()
    assert reported(metrics) == written
    replayed = len(ids) - len(set(ids))
    assert 0 < replayed < before, "the second run continues at a checkpoint, and replays what came after it"
