"""The sink inside the engine: contract, several instances, several sinks, batches. Without Spark."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from streamling.connectors.postgres.sink import PostgresSink
from streamling.dev.contracts.harness import BatchListSource
from streamling.dev.services.postgres import LocalPostgres
from streamling.errors import BadRow, StreamlingError
from streamling.pipeline.config import AppConfig
from streamling.pipeline.model import NodeKind
from streamling.plugins.registry import Registry
from streamling.testing import SinkContract
from tests.connectors.postgres.driver import Driver
from tests.connectors.sink_driver import batch
from tests.harness.pipelines import finish, start_run

pytestmark = pytest.mark.services


@pytest.fixture
def pg(postgres: LocalPostgres) -> Driver:
    return Driver(postgres.dsn)


# ── contract ────────────────────────────────────────────────────────────────────────────────────────────────


class PostgresContract(SinkContract):
    primary_key = ""

    @pytest.fixture(autouse=True)
    def _table(self, pg: Driver) -> None:
        self.pg = pg
        config = AppConfig(postgres_sink=pg.settings)

        class Configured(PostgresSink):
            def __init__(self, context):
                super().__init__(replace(context, config=config))

        self.operator = Configured

    def options(self) -> dict[str, Any]:
        key = {"primary_key": self.primary_key} if self.primary_key else {}
        return {"schema": self.pg.schema, "table": "t", **key}

    def durable(self) -> list[Mapping[str, Any]]:
        try:
            return [{"id": row[0], "name": row[1]} for row in self.pg.rows()]
        except psycopg.errors.UndefinedTable:
            return []

    def expected(self, rows):
        return [{key: value for key, value in row.items() if key != "_gs_op"} for row in rows]


class TestUpserting(PostgresContract):
    primary_key = "id"


class TestAppending(PostgresContract):
    pass


# ── pipelines ───────────────────────────────────────────────────────────────────────────────────────────────


def run(pg: Driver, batches: list[pa.RecordBatch], sinks: Mapping[str, Mapping[str, Any]], **config: Any) -> None:
    """Run given batches into sinks, to the end."""
    registry = Registry.builtin()
    given = {"batches": batches, "on_read": lambda number: None}
    registry.register(NodeKind.SOURCE, "test.given", type("Given", (BatchListSource,), given))
    settings = AppConfig(**{"checkpoint_interval_sec": 0.05, "postgres_sink": pg.settings, **config})
    nodes = {
        "sources": {"given": {"type": "test.given", "primary_key": "id"}},
        "transforms": {},
        "sinks": {name: {"type": "postgres", "from": "given", **sink} for name, sink in sinks.items()},
    }
    finish(start_run(json.dumps(nodes), registry, config=settings))


def random_changes(seed: int, count: int) -> list[tuple[Any, ...]]:
    chance = random.Random(seed)
    return [(chance.choice("iuud"), chance.randrange(50), f"v{n}") for n in range(count)]


def outcome(changes: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    table: dict[int, str] = {}
    for op, key, value in changes:
        if op == "d":
            table.pop(key, None)
        else:
            table[key] = value
    return sorted(table.items())


def in_batches(changes: list[tuple[Any, ...]], size: int) -> list[pa.RecordBatch]:
    return [batch(*changes[at : at + size]) for at in range(0, len(changes), size)]


@pytest.mark.parametrize("parallelism", [1, 3])
def test_changes_have_the_same_result_with_any_number_of_instances(pg: Driver, parallelism: int) -> None:
    changes = random_changes(7, 1000)
    sink = {"schema": pg.schema, "table": "t", "parallelism": parallelism}
    run(pg, in_batches(changes, 37), {"out": sink})

    assert pg.rows() == outcome(changes)


def transactions(pg: Driver) -> int:
    """Return how many transactions have left rows in the table."""
    return pg.execute("SELECT count(DISTINCT xmin::text) FROM {t}")[0][0]


@pytest.mark.parametrize(
    ("options", "expected"),
    [({"batch_size": 25}, 4), ({"batch_size": 1000, "batch_flush_interval": "1h"}, 1), ({}, 10)],
    ids=["batch_size", "one batch", "as they come"],
)
def test_rows_are_collected_into_the_configured_batches(pg: Driver, options: dict[str, Any], expected: int) -> None:
    rows = [("i", n, "v") for n in range(100)]
    # no checkpoint before the end, which would flush what has been collected so far
    run(pg, in_batches(rows, 10), {"out": {"schema": pg.schema, "table": "t", **options}}, checkpoint_interval_sec=60)

    assert len(pg.rows()) == 100
    assert transactions(pg) == expected


def test_two_sinks_in_two_databases(pg: Driver) -> None:
    other_db = f"{pg.schema}_other"
    pg.execute(f"CREATE DATABASE {other_db}")
    rows = [("i", n, "v") for n in range(15)]
    sinks = {name: {"schema": pg.schema, "table": "t"} for name in ("here", "over-there")}
    run(pg, in_batches(rows, 4), sinks, postgres_sink_connections={"over_there": {"db": other_db}})

    other = Driver(f"{pg.dsn.rpartition('/')[0]}/{other_db}", schema=pg.schema)
    assert pg.rows() == other.rows() == [(n, "v") for n in range(15)]


def test_one_failing_sink_fails_the_pipeline_with_node_and_cause(pg: Driver) -> None:
    pg.create("id bigint primary key, v integer")
    sinks = {"good": {"schema": pg.schema, "table": "other"}, "bad": {"schema": pg.schema, "table": "t"}}
    with pytest.raises(StreamlingError, match=r"postgres sink 'bad': column 'v' .* integer, expected TEXT") as raised:
        run(pg, in_batches([("i", 1, "v")], 1), sinks)
    assert not raised.value.internal


def test_rows_that_the_table_rejects_go_to_the_dead_letter_sink(pg: Driver) -> None:
    pg.create("id bigint primary key CHECK (id <> 5), v varchar(3)")
    rows = [("d" if n == 3 else "i", n, {7: "too long", 9: "a\0b"}.get(n, "ok")) for n in range(20)]
    out = {"schema": pg.schema, "table": "t", "errors": {"to": "refused"}}
    run(pg, in_batches(rows, 10), {"out": out, "refused": {"from": None, "schema": pg.schema, "table": "refused"}})

    assert [id for id, _ in pg.rows()] == [n for n in range(20) if n not in (3, 5, 7, 9)]
    letters = pg.execute("SELECT position, error, payload FROM {s}.refused ORDER BY position")
    assert [position for position, _, _ in letters] == ["id=5", "id=7", "id=9"]
    for (_, error, _), expected in zip(letters, ("t_id_check", "too long for type", "NUL character"), strict=True):
        assert expected in error
    assert letters[1][2] == '{"id":7,"v":"too long","_gs_op":"i"}'


def test_a_missing_table_does_not_reject_rows(pg: Driver) -> None:
    rows = batch(("u", 1, "v"))
    with pg.opened(rows.schema) as sink:
        pg.execute("DROP TABLE {t}")
        with pytest.raises(StreamlingError, match="does not exist") as raised:
            sink.write(rows)
    assert not isinstance(raised.value, BadRow)


def test_update_where_with_a_missing_column_is_an_error_in_the_file(pg: Driver) -> None:
    sink = {"schema": pg.schema, "table": "t", "update_where": {"nope": ">"}}
    with pytest.raises(StreamlingError, match="postgres sink 'out': `update_where` names the column 'nope'"):
        run(pg, in_batches([("i", 1, "v")], 1), {"out": sink})
    assert pg.types() == {}


def test_columns_that_appear_and_disappear_while_the_sink_runs(pg: Driver) -> None:
    wider, narrower = batch(("i", 2, "b", "x"), names=("id", "v", "w")), batch(("i", 1, "c"), names=("id", "w"))
    pg.write(batch(("i", 1, "a")), wider, narrower, evolve="add_columns")
    assert pg.rows("id, v, w") == [(1, "a", "c"), (2, "b", "x")]


def test_a_type_that_changes_while_the_sink_runs_is_compared_with_the_table(pg: Driver) -> None:
    numbers = batch(("i", 2, 5), types=(pa.int64(), pa.int64()))
    with pytest.raises(StreamlingError, match=r"column 'v' .* text, expected BIGINT"):
        pg.write(batch(("i", 1, "a")), batch(("i", 1, "b")), numbers)
    assert pg.rows() == [(1, "b")]


def test_a_key_that_disappears_while_the_sink_runs_stops_the_pipeline(pg: Driver) -> None:
    keyless = batch(("i", "b"), names=("v",), types=(pa.string(),))
    with pytest.raises(StreamlingError, match="`primary_key` names the column 'id', which is not one of"):
        pg.write(batch(("i", 1, "a")), keyless)
