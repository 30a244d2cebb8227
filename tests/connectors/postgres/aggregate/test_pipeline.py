"""The sink inside the engine: contract, several instances, dead letters. Without Spark."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from streamling.connectors.postgres.aggregate.sink import PostgresAggregateSink
from streamling.dev.contracts.harness import BatchListSource
from streamling.dev.services.postgres import LocalPostgres
from streamling.errors import StreamlingError
from streamling.pipeline.config import AppConfig
from streamling.pipeline.model import NodeKind
from streamling.plugins.registry import Registry
from streamling.testing import SinkContract
from tests.connectors.postgres.aggregate.driver import FIELDS, Aggregate, Row, transfers
from tests.harness.pipelines import eventually, finish, start_run

pytestmark = pytest.mark.services


@pytest.fixture
def place(postgres: LocalPostgres) -> Aggregate:
    return Aggregate(postgres.dsn)


class TestAggregating(SinkContract):
    """Each row is its own group, whose count shows how often it was counted."""

    @pytest.fixture(autouse=True)
    def _tables(self, place: Aggregate) -> None:
        self.place = place
        config = AppConfig(postgres_sink=place.settings)

        class Configured(PostgresAggregateSink):
            def __init__(self, context):
                super().__init__(replace(context, config=config))

        self.operator = Configured

    def options(self) -> dict[str, Any]:
        columns = {"group_by": {"id": {}, "name": {}}, "aggregate": {"n": {"fn": "count"}}}
        return {**FIELDS, **columns, "schema": self.place.schema, "primary_key": "id"}

    def durable(self) -> list[Mapping[str, Any]]:
        try:
            rows = self.place.totals("id, name, n")
        except psycopg.errors.UndefinedTable:
            return []
        return [{"id": id, "name": name} for id, name, count in rows for _ in range(count)]

    def expected(self, rows):
        return [{key: value for key, value in row.items() if key != "_gs_op"} for row in rows]

    def test_after_a_crash_at_any_moment_no_row_is_lost(self) -> None:
        """Nor counted twice."""
        super().test_after_a_crash_at_any_moment_no_row_is_lost()
        assert len(self.durable()) == sum(batch.num_rows for batch in self.input_batches())


def run(place: Aggregate, batches: list[pa.RecordBatch], *, checkpoint_interval: float = 0.05, **sink: Any) -> None:
    """Run given batches into the aggregate, to the end; rejected rows go to the table ``refused``."""
    registry = Registry.builtin()
    given = {"batches": batches, "on_read": lambda number: None}
    registry.register(NodeKind.SOURCE, "test.given", type("Given", (BatchListSource,), given))
    config = AppConfig(checkpoint_interval_sec=checkpoint_interval, postgres_sink=place.settings)
    out = {"type": "postgres_aggregate", "from": "given", "schema": place.schema, **FIELDS, **sink}
    refused = {"type": "postgres", "schema": place.schema, "table": "refused"}
    nodes = {
        "sources": {"given": {"type": "test.given", "primary_key": "id"}},
        "transforms": {},
        "sinks": {"out": out, **({"refused": refused} if "errors" in sink else {})},
    }
    finish(start_run(json.dumps(nodes), registry, config=config, state=place.state))


@pytest.mark.parametrize(("checkpoint_interval", "delivered_twice"), [(0.05, 0), (60, 3)])
def test_sums_are_exact_with_any_number_of_instances(
    place: Aggregate, checkpoint_interval: float, delivered_twice: int
) -> None:
    """Few groups, shared by all instances, in another order in each batch. Batches that a source delivers twice within
    one epoch count once."""
    chance = random.Random(5)
    rows: list[Row] = [("i", id, chance.choice("abcde"), chance.randrange(-1000, 1000)) for id in range(3000)]
    rows += [("d", *row[1:]) for row in chance.sample(rows, 500)]
    batches = [transfers(*rows[at : at + 41]) for at in range(0, len(rows), 41)]
    again = batches[len(batches) - delivered_twice :]
    run(place, [*batches, *again], checkpoint_interval=checkpoint_interval, parallelism=4)

    expected: Counter[str] = Counter()
    for operation, _, account, amount in rows:
        expected[account] += -amount if operation == "d" else amount
    assert place.totals() == sorted(expected.items())


def test_an_instance_that_starts_while_another_writes_waits_for_it(
    place: Aggregate, caplog: pytest.LogCaptureFixture
) -> None:
    place.write(transfers(("i", 1, "a", 1)))
    with psycopg.connect(place.dsn) as writing:  # like a transaction that has its staging table and no rows yet
        writing.execute(f"CREATE TEMP TABLE staged AS SELECT * FROM {place.log} WITH NO DATA")
        starting = threading.Thread(target=place.write, args=(transfers(("i", 2, "a", 10)),))
        starting.start()
        wait_until_locked(place)
        writing.execute(f"INSERT INTO {place.log} (id, account, amount, _gs_op) VALUES (3, 'a', 100, 'i')")
    starting.join(60)
    assert not starting.is_alive()
    assert place.totals() == [("a", 111)]
    assert not [record for record in caplog.records if "deadlock" in record.getMessage()]


def wait_until_locked(place: Aggregate) -> None:
    """Wait until a transaction waits for the landing table."""
    waiting = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = %s::regclass"
    eventually(lambda: place.execute(waiting, place.log), 60, "nobody waits for the landing table")


def test_rows_that_cannot_be_aggregated_go_to_the_dead_letter_sink(place: Aggregate) -> None:
    types = {"id": pa.int64(), "account": pa.string(), "amount": pa.int32()}
    rows: list[Row] = [("i", n, "a", n) for n in range(10)]
    rows[2], rows[4], rows[6] = ("u", 2, "a", 99), ("i", 4, None, 99), ("i", 6, "a", 2**31 - 1)
    aggregate = {"total": {"from": "amount", "fn": "sum"}, "most": {"from": "id", "fn": "max"}}
    run(place, [transfers(*rows, types=types)], aggregate=aggregate, errors={"to": "refused"})

    assert place.totals() == [("a", sum(n for n in range(10) if n not in (2, 4, 6)), 9)]
    letters = place.execute("SELECT position, error, node FROM {s}.refused ORDER BY position")
    assert [position for position, _, _ in letters] == ["id=2", "id=4", "id=6"]
    for (_, error, _), expected in zip(letters, ("update or delete", "is NULL", "out of range"), strict=True):
        assert expected in error


def test_a_delete_with_max_stops_the_pipeline(place: Aggregate) -> None:
    with pytest.raises(
        StreamlingError, match=r"postgres_aggregate sink 'out': the row is an update or delete"
    ) as raised:
        run(place, [transfers(("d", 1, "a", 1))], aggregate={"amount": {"fn": "max"}})
    assert not raised.value.internal
    assert place.state.items() == {}


def test_a_pipeline_that_is_run_again_counts_only_new_rows(place: Aggregate) -> None:
    batches = [transfers(("i", n, "a", 1)) for n in range(8)]
    run(place, batches[:5])
    assert place.totals() == [("a", 5)]
    (kept,) = (key for key in place.state.items() if key != "given")
    assert kept.startswith("out:landing:")
    run(place, batches)
    assert place.totals() == [("a", 8)]
