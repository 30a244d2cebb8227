"""The sink inside the engine: contract, several instances, dead letters. Without Spark."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from streamling.config import AppConfig
from streamling.connectors.postgres.aggregate.sink import PostgresAggregateSink
from streamling.dev.postgres import LocalPostgres
from streamling.errors import StreamlingError
from streamling.pipeline.model import NodeKind
from streamling.pipeline.parse import parse_pipeline
from streamling.plugins.registry import Registry
from streamling.runtime.run import PipelineRun
from streamling.testing import SinkContract
from streamling.testing.harness import NoSpark, wait_for_end
from streamling.testing.nodes import BatchListSource
from tests.connectors.postgres.aggregate.driver import FIELDS, Aggregate, Row, transfers

pytestmark = pytest.mark.services


@pytest.fixture
def place(postgres: LocalPostgres) -> Aggregate:
    return Aggregate(postgres.dsn)


class TestAggregating(SinkContract):
    """Each row is a group of its own, whose count tells how often it was counted."""

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
        assert len(self.durable()) == sum(batch.num_rows for batch in self.given())


def run(place: Aggregate, batches: list[pa.RecordBatch], **sink: Any) -> None:
    """From given batches into the aggregate, to the end; what it cannot take goes to the table ``refused``."""
    registry = Registry.builtin()
    given = {"batches": batches, "asked": lambda number: None}
    registry.register(NodeKind.SOURCE, "test.given", type("Given", (BatchListSource,), given))
    config = AppConfig(checkpoint_interval_sec=0.05, postgres_sink=place.settings)
    out = {"type": "postgres_aggregate", "from": "given", "schema": place.schema, **FIELDS, **sink}
    refused = {"type": "postgres", "schema": place.schema, "table": "refused"}
    nodes = {
        "sources": {"given": {"type": "test.given", "primary_key": "id"}},
        "transforms": {},
        "sinks": {"out": out, **({"refused": refused} if "errors" in sink else {})},
    }
    pipeline = parse_pipeline(json.dumps(nodes), registry=registry, config=config)
    started = PipelineRun(pipeline, config=config, registry=registry, state=place.state)
    started.analyse(NoSpark())  # type: ignore[arg-type]
    started.start()
    wait_for_end(started)


def test_sums_are_exact_however_many_instances_write(place: Aggregate) -> None:
    """Few groups, which all instances meet in, in another order in each batch."""
    chance = random.Random(5)
    rows: list[Row] = [("i", id, chance.choice("abcde"), chance.randrange(-1000, 1000)) for id in range(3000)]
    rows += [("d", *row[1:]) for row in chance.sample(rows, 500)]
    batches = [transfers(*rows[at : at + 41]) for at in range(0, len(rows), 41)]
    run(place, [*batches, *batches[-3:]], parallelism=4)

    expected: Counter[str] = Counter()
    for operation, _, account, amount in rows:
        expected[account] += -amount if operation == "d" else amount
    assert place.totals() == sorted(expected.items())


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


def test_a_delete_that_max_cannot_take_ends_the_pipeline(place: Aggregate) -> None:
    with pytest.raises(StreamlingError, match=r"postgres_aggregate sink 'out': an update or delete has come") as raised:
        run(place, [transfers(("d", 1, "a", 1))], aggregate={"amount": {"fn": "max"}})
    assert not raised.value.internal
    assert place.state.items() == {}


def test_a_pipeline_that_is_run_again_counts_only_what_is_new(place: Aggregate) -> None:
    batches = [transfers(("i", n, "a", 1)) for n in range(8)]
    run(place, batches[:5])
    assert place.totals() == [("a", 5)]
    (kept,) = (key for key in place.state.items() if key != "given")
    assert kept.startswith("out:landing:")
    run(place, batches)
    assert place.totals() == [("a", 8)]
