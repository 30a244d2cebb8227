"""The source in pipelines: contract, checkpoints, restarts, and the commands that show it."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from streamling.connectors.clickhouse.source import ClickHouseSource
from streamling.connectors.memory import collected_rows
from streamling.errors import InvalidPipeline, StreamlingError
from streamling.pipeline.config import AppConfig
from streamling.testing import SourceContract
from tests.connectors.clickhouse.driver import Database
from tests.harness.pipelines import Bench, eventually, finish

pytestmark = pytest.mark.services


class TestContract(SourceContract):
    @pytest.fixture(autouse=True)
    def _created(self, database: Database) -> None:
        database.execute(
            "CREATE TABLE t (id UInt32, name Nullable(String)) ENGINE = MergeTree ORDER BY id",
            "INSERT INTO t SELECT number, if(number % 3 = 0, NULL, toString(number)) FROM numbers(40)",
        )
        config = AppConfig(clickhouse_source={**database.settings, "page_size": 4, "sort_key_range": 100})

        class Configured(ClickHouseSource):
            def __init__(self, context: Any) -> None:
                super().__init__(replace(context, config=config))

        self.operator = Configured

    def options(self) -> dict[str, Any]:
        return {"table_name": "t"}

    def expected(self) -> list[Mapping[str, Any]]:
        return [{"id": n, "name": None if n % 3 == 0 else str(n), "_gs_op": "i"} for n in range(40)]

    def test_positions_are_json_under_the_name_of_the_node(self) -> None:
        """The key is that of the original, which starts with the type of the node."""
        harness = self.harness()
        self.run_once(harness)
        (key,) = harness.position
        assert key.startswith("clickhouse_source:")
        assert json.loads(json.dumps(harness.position[key])) == {"sorting_keys": ["id"], "args": [40]}


# ── whole pipelines ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def bench(spark: Any, database: Database) -> Bench:
    database.execute(
        "CREATE TABLE orders (id UInt64, amount Nullable(UInt256)) ENGINE = MergeTree ORDER BY id",
        "INSERT INTO orders SELECT number, if(number = 3, NULL, toUInt256(number) * 1000) FROM numbers(200)",
    )
    return Bench(spark)


def pipeline(sink: Mapping[str, Any], sql: str | None = None, **source: Any) -> str:
    transforms = {} if sql is None else {"changed": {"type": "sql", "primary_key": "id", "sql": sql}}
    upstream = "orders" if sql is None else "changed"
    nodes = {
        "sources": {"orders": {"type": "clickhouse", "table_name": "orders", **source}},
        "transforms": transforms,
        "sinks": {"out": {"from": upstream, **sink}},
    }
    return json.dumps(nodes)


def settings(database: Database, **more: Any) -> dict[str, Any]:
    return {"clickhouse_source": {**database.settings, **more}}


@pytest.mark.spark
def test_rows_pass_through_sql(bench: Bench, database: Database) -> None:
    sql = "SELECT id, amount + 1 AS amount FROM orders WHERE id < 5"
    run = bench.run(pipeline({"type": "memory"}, sql), **settings(database, page_size=50))
    found = [(row["id"], row["amount"]) for row in collected_rows(run, "out").to_pylist()]
    numbers = [None if amount is None else int.from_bytes(amount, "big") for _, amount in found]
    assert [int(id) for id, _ in found] == [0, 1, 2, 3, 4]
    assert numbers == [1, 1001, 2001, None, 4001]


@pytest.mark.spark
def test_a_stop_in_the_middle_and_a_restart_deliver_each_row_once(
    bench: Bench, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    text, config = pipeline({"type": "ledger", "delay": 0.05}), settings(database, page_size=5)
    run = bench.start(text, **config)
    eventually(lambda: bench.ids("out"))
    run.stop("enough")
    finish(run)
    stopped = len(bench.ids("out"))
    assert 0 < stopped < 200
    bench.run(text, **config)
    assert bench.ids("out") == list(range(200))
    with caplog.at_level(logging.INFO):
        bench.run(text, **config)
    assert "nothing new to read, earlier runs have read everything. To read it again" in caplog.text
    assert bench.ids("out") == list(range(200))


@pytest.mark.spark
def test_a_restart_with_start_at_resumes(bench: Bench, database: Database) -> None:
    """With `start_at: 5` a restart continues at the stored position: not at 0, and not at 5 again."""
    text, config = pipeline({"type": "ledger", "delay": 0.05}, start_at=5), settings(database, page_size=5)
    run = bench.start(text, **config)
    eventually(lambda: bench.ids("out"))
    run.stop("enough")
    finish(run)
    bench.run(text, **config)
    assert bench.ids("out") == list(range(5, 200))


@pytest.mark.spark
def test_the_position_advances_although_a_filter_drops_all_rows(bench: Bench, database: Database) -> None:
    text = pipeline({"type": "ledger"}, filter="id >= 1000", primary_key="id")
    bench.run(text, **settings(database, page_size=10))
    assert bench.ids("out") == []
    assert bench.state.get("clickhouse_source:orders:v1") == {"sorting_keys": ["id"], "args": [200]}


@pytest.mark.spark
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"table_name": "nowhere"}, "nowhere does not exist"),
        ({"filter": "x = 1"}, "the filter is not valid"),
        ({"columns": "id, amonut"}, "has no column 'amonut'"),
        ({"start_at": "x"}, "start_at is 'x'"),
    ],
)
def test_mistakes_are_found_before_data_flows(
    bench: Bench, database: Database, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises((StreamlingError, InvalidPipeline), match=message) as error:
        bench.prepare(pipeline({"type": "blackhole"}, **fields), **settings(database))
    assert "clickhouse source 'orders'" in str(error.value)
