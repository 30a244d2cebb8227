"""Every pipeline of the documents that the project was created from runs as written, and its rows are the right ones.

Only the port of the HTTP endpoint is changed. A blackhole shows nothing, so a memory sink is put beside it. The
ClickHouse examples wait for that connector.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
import yaml

from streamling.connectors.clickhouse.errors import ServerError
from streamling.connectors.memory import collected_rows
from streamling.dev.services.avro import SchemaRegistry, decode
from streamling.dev.services.topics import consume
from streamling.engine.run.run import PipelineRun
from streamling.pipeline.model import NodeKind
from streamling.pipeline.options import FreeFormOptions, SourceOptions
from streamling.plugins.registry import Registry
from streamling.plugins.sources import Position, Source, SourceBatch, Wait
from tests.connectors.hybrid.driver import Database
from tests.connectors.kafka.source_driver import Topic, record
from tests.harness.endpoint import Endpoint, Reply, Request, endpoint
from tests.harness.pipelines import Bench, eventually, finish
from tests.harness.plugins import load_plugins

FOLDER = Path(__file__).parent
PLUGINS = FOLDER.parents[1] / "examples" / "plugins" / "basic_plugin.py"
Rows = list[dict[str, Any]]


def keyed(key: str, *fields: Any) -> dict[str, Any]:
    return record(*fields, doc=json.dumps({"primaryKeys": [key]}))


def optional(name: str, type_: str) -> tuple[Any, ...]:
    return (name, ["null", type_], None)


#: what is in ClickHouse
TABLES: tuple[str, ...] = (
    "CREATE TABLE orders_archive (id UInt64, amount Float64, note String) ENGINE = MergeTree ORDER BY id",
    "INSERT INTO orders_archive VALUES (1, 1.5, 'a'), (2, 2.5, 'b')",
    "CREATE TABLE orders (id UInt64, amount Float64) ENGINE = MergeTree ORDER BY id",
    "INSERT INTO orders SELECT number, number * 1.5 FROM numbers(3)",
)
#: what is in the topics: a schema, and rows
TOPICS: dict[str, tuple[dict[str, Any], Rows]] = {
    "raw.event.transaction": (
        keyed("id", "id", ("amount", "double")),
        [
            {"id": 1, "amount": 999.5},
            {"id": 2, "amount": 1000.0},
            {"id": 3, "amount": 1000.5},
            {"id": 4, "amount": 5e6},
        ],
    ),
    "app.events": (
        keyed("id", "id", ("event_type", "string"), ("amount", "double")),
        [
            {"id": 1, "event_type": "buy", "amount": 10.0},
            {"id": 2, "event_type": "view", "amount": 0.0},
            {"id": 3, "event_type": "refund", "amount": -3.5},
            {"id": 4, "event_type": "buy", "amount": 0.25},
        ],
    ),
    "raw.events": (keyed("id", "id", ("kind", "string")), [{"id": 1, "kind": "a"}, {"id": 2, "kind": "b"}]),
    "accounts": (
        keyed("id", "id", "amount", optional("tier", "string"), ("status", "string")),
        [
            {"id": 1, "amount": 1500, "tier": None, "status": "new"},
            {"id": 2, "amount": 1000, "tier": None, "status": "old"},
        ],
    ),
    "transfers": (
        keyed(
            "transfer_id",
            ("transfer_id", "string"),
            ("account", "string"),
            "amount",
            ("id", "string"),
            ("from_address", "string"),
            ("to_address", "string"),
            ("value", "string"),
            "block_timestamp",
        ),
        [
            {
                "transfer_id": f"t{n}",
                "account": account,
                "amount": amount,
                "id": f"t{n}",
                "from_address": f"0x{n}",
                "to_address": "0xff",
                "value": value,
                "block_timestamp": 1_700_000_000 + n,
            }
            for n, account, amount, value in [
                (1, "alice", 10, "1500000000000000000"),
                (2, "bob", 5, "0"),
                (3, "alice", -4, "250000000000000000"),
            ]
        ],
    ),
    "events": (
        keyed("event_id", "event_id", ("kind", "string")),
        [{"event_id": n, "kind": "x"} for n in range(5)],
    ),
    "trades": (
        keyed("trade_id", "trade_id", ("market", "string"), ("volume", "double"), ("price", "double")),
        [
            {"trade_id": 1, "market": "btc", "volume": 1.5, "price": 100.0},
            {"trade_id": 2, "market": "btc", "volume": 2.25, "price": 50.0},
            {"trade_id": 3, "market": "eth", "volume": 8.0, "price": 7.0},
        ],
    ),
    "user.events": (
        keyed("event_id", "event_id", ("user_id", "string")),
        [{"event_id": n, "user_id": user} for n, user in enumerate(["u1", "u2", "u1", "u3", "u2"])],
    ),
    "crm.accounts": (
        keyed("id", "id", ("customer_id", "string"), ("tier", "string")),
        [
            {"id": 1, "customer_id": "c1", "tier": "vip"},
            {"id": 2, "customer_id": "c2", "tier": "basic"},
            {"id": 3, "customer_id": "c3", "tier": "vip"},
        ],
    ),
    "orders_live": (
        keyed("id", "id", ("amount", "double")),
        [{"id": 3, "amount": 3.5}, {"id": 4, "amount": 4.5}],
    ),
    "orders.events": (
        keyed("id", "id", ("customer_id", "string"), ("amount", "double"), ("created_at", "string")),
        [{"id": n, "customer_id": f"c{n}", "amount": n + 0.5, "created_at": "2026-01-01"} for n in (1, 2, 3, 4)],
    ),
}


def rows_of(topic: str, *numbers: int, op: str | None = "i") -> Rows:
    """Rows of a topic by their numbers, or all of them, as a pipeline has them."""
    rows = TOPICS[topic][1]
    own = {} if op is None else {"_gs_op": op}
    return [{**rows[number], **own} for number in numbers or range(len(rows))]


# ── plugins that the examples name, and the endpoint ─────────────────────────────────────────────────────────────


class GivenOptions(SourceOptions, FreeFormOptions):
    pass


class BatchListSource(Source[GivenOptions]):
    """Delivers its rows once and then waits, as a source that polls does."""

    Options = GivenOptions
    rows: pa.RecordBatch

    def schema(self) -> pa.Schema:
        return self.rows.schema

    def read(self, position: Position) -> SourceBatch | Wait:
        name = self.context.name
        return Wait(0.05) if position.get(name) else SourceBatch(self.rows, {name: 1})


def orders() -> pa.RecordBatch:
    now = datetime.now(UTC).replace(tzinfo=None)
    return pa.record_batch(
        {
            "id": [1, 2, 3],
            "amount": [1500, 20, 9000],
            "created_at": pa.array([now, now, now - timedelta(hours=2)], pa.timestamp("us")),
            "city": pa.array([None] * 3, pa.string()),
            "risk_score": pa.array([None] * 3, pa.string()),
        }
    )


def transactions() -> pa.RecordBatch:
    return pa.record_batch({"id": [1, 2], "address": ["some address", "another address"]})


def registry() -> Registry:
    found = load_plugins(Registry.builtin(), PLUGINS)
    for name, rows in (("acme_api.orders_source", orders()), ("dataset", transactions())):
        found.register(NodeKind.SOURCE, name, type("Given", (BatchListSource,), {"rows": rows}))
    return found


def answer(request: Request) -> Reply:
    """What ``/enrich`` adds and ``/notify`` accepts."""
    if request.path == "/notify":
        return Reply()
    return Reply.of([{**row, "city": "Oslo", "status": "checked"} for row in request.json])


# ── running one ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class World(Bench):
    """The services of one example, with a database of its own."""

    spark: Any
    kafka: Any
    registry_service: Any
    server: Any
    clickhouse: Database
    http: Endpoint
    output: Callable[[], str]
    name: str
    run: PipelineRun = field(init=False)
    _printed: str = ""

    def __post_init__(self) -> None:
        super().__init__(self.spark)
        with psycopg.connect(self.server.dsn, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE seed_{self.name}".encode())

    def registry(self) -> Registry:
        return registry()

    @cached_property
    def postgres_settings(self) -> dict[str, Any]:
        parts = psycopg.conninfo.conninfo_to_dict(self.server.dsn)
        return {"host": parts["host"], "port": parts["port"], "user": parts["user"], "db": f"seed_{self.name}"}

    def begin(self) -> None:
        text = (FOLDER / f"{self.name}.yaml").read_text(encoding="utf-8")
        nodes = yaml.safe_load(text.replace("localhost:8087", f"127.0.0.1:{self.http.port}"))
        for node in [node for node in nodes["sinks"].values() if node["type"] == "blackhole"]:
            nodes["sinks"]["seen"] = {"type": "memory", "from": node["from"]}
        services = {"brokers": self.kafka.brokers, "schema_registry_url": self.registry_service.url}
        self.run = self.start(
            json.dumps(nodes),
            application_id=f"seed-{self.name}",
            kafka_source=services,
            kafka_sink=services,
            clickhouse_source=self.clickhouse.settings(),
            clickhouse_sink={
                "url": self.clickhouse.clickhouse.url,
                "user": self.clickhouse.clickhouse.user,
                "password": self.clickhouse.clickhouse.password,
                "database": self.clickhouse.name,
            },
            postgres_sink=self.postgres_settings,
            dynamic_table_backend={"postgres": {**self.postgres_settings, "sslmode": "disable"}},
        )

    # what arrived where

    def seen(self) -> Rows:
        return collected_rows(self.run, "seen").to_pylist()

    def printed(self) -> list[str]:
        self._printed += self.output()
        return self._printed.splitlines()

    def printed_json(self) -> Rows:
        return [json.loads(line) for line in self.printed() if line.startswith("{")]

    def table(self, name: str, columns: str = "*") -> Rows:
        """Rows of a table, none when it is not there yet."""
        connect = psycopg.conninfo.make_conninfo(self.server.dsn, dbname=f"seed_{self.name}")
        with psycopg.connect(connect, row_factory=psycopg.rows.dict_row) as connection:
            try:
                return connection.execute(f"SELECT {columns} FROM {name} ORDER BY 1".encode()).fetchall()
            except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
                return []

    def clickhouse_table(self, name: str, columns: str) -> Rows:
        """Rows of a table in ClickHouse, none when it is not there yet."""
        try:
            return self.clickhouse.rows(f"SELECT {columns} FROM {name} FINAL ORDER BY ALL")
        except ServerError:
            return []

    def messages(self, topic: str) -> Rows:
        known = SchemaRegistry(self.registry_service.url)
        return sorted(
            (decode(known, message.value) for message in consume(self.kafka.brokers, topic)), key=itemgetter("id")
        )


@pytest.fixture(scope="module")
def topics(kafka: Any, registry: Any) -> None:
    for name, (schema, rows) in TOPICS.items():
        Topic(kafka, registry, name=name).write(schema, *rows)


@pytest.fixture(scope="module")
def database(clickhouse: Any) -> Database:
    made = Database(clickhouse, "seeds")
    made.execute(*TABLES)
    return made


@pytest.fixture(scope="module")
def http() -> Iterator[Endpoint]:
    with endpoint(answer) as server:
        yield server


@contextmanager
def running(world: World) -> Iterator[World]:
    world.begin()
    try:
        yield world
    finally:
        world.run.stop("the test has what it wants")
        finish(world.run)


# ── the examples ─────────────────────────────────────────────────────────────────────────────────────────────────

LARGE = [{"id": 3, "amount": 1000.5}, {"id": 4, "amount": 5e6}]


@dataclass(frozen=True)
class Example:
    """What an example has to deliver: a look at it, and what should be seen."""

    look: Callable[[World], Any]
    expected: Any


def in_table(name: str, rows: Rows, columns: str = "*") -> Example:
    return Example(lambda world: world.table(name, columns), rows)


def in_blackhole(rows: Rows) -> Example:
    return Example(lambda world: world.seen(), rows)


def processed() -> Rows:
    changed = [{"tier": "premium", "status": "new_processed"}, {"tier": "standard", "status": "old_processed"}]
    return [{**row, **new} for row, new in zip(rows_of("accounts"), changed, strict=True)]


def plugin_lines(world: World) -> int:
    return sum(bool(re.search(r"\| i +\|$", line)) for line in world.printed())


EXAMPLES: dict[str, Example] = {
    "aggregate": in_table(
        "finance.account_balances",
        [{"account": "alice", "balance": 6}, {"account": "bob", "balance": 5}],
        "account, balance",
    ),
    "aggregate_global": in_table("analytics.global_totals", [{"total_count": 5}], "total_count"),
    "aggregate_several": in_table(
        "trading.market_stats",
        [
            {"market": "btc", "trade_count": 2, "total_volume": 3.75, "avg_price": 75.0},
            {"market": "eth", "trade_count": 1, "total_volume": 8.0, "avg_price": 7.0},
        ],
        "market, trade_count, total_volume::float8, avg_price_sum / avg_price_count AS avg_price",
    ),
    "announcement": in_table("public.large_transactions", LARGE),
    "blackhole_sink": in_blackhole(rows_of("app.events")),
    "blog_dataset": in_table("public.my_table", [{"id": 1, "address": "some address"}]),
    "clickhouse_sink": Example(
        lambda world: world.clickhouse_table("test_output", "id, event_type, amount, is_deleted"),
        [
            {"id": 1, "event_type": "buy", "amount": 10.0, "is_deleted": 0},
            {"id": 4, "event_type": "buy", "amount": 0.25, "is_deleted": 0},
        ],
    ),
    "clickhouse_source": in_blackhole(
        [{"id": n, "amount": n * 1.5, "_gs_op": "i"} for n in range(3)],
    ),
    "dynamic_table_deduplication": Example(lambda world: world.printed_json(), rows_of("user.events", 0, 1, 3)),
    "dynamic_table_in_memory": in_blackhole(rows_of("app.events")),
    "dynamic_table_lookup": Example(
        lambda world: (world.printed_json(), world.table("streamling.vip_customers", "value")),
        (rows_of("orders.events", 0, 2), [{"value": "c1"}, {"value": "c3"}]),
    ),
    "dynamic_table_postgres": in_blackhole(rows_of("app.events")),
    "dynamic_tables": Example(
        lambda world: (world.seen(), world.table("streamling.vip_customers", "value")),
        (rows_of("crm.accounts"), [{"value": "c1"}, {"value": "c3"}]),
    ),
    "handler": in_blackhole([{**row, "status": "checked"} for row in rows_of("accounts")]),
    "hero": in_table(
        "app.orders",
        [
            {"id": 1, "amount": 1500, "city": "Oslo", "risk_score": "high"},
            {"id": 2, "amount": 20, "city": "Oslo", "risk_score": "low"},
        ],
        "id, amount, city, risk_score",
    ),
    "hybrid_source": in_blackhole(
        [{"id": 1, "amount": 1.5, "_gs_op": "i"}, {"id": 2, "amount": 2.5, "_gs_op": "i"}, *rows_of("orders_live")]
    ),
    "kafka_sink": Example(lambda world: world.messages("custom_topic"), processed()),
    "kafka_source": in_blackhole(rows_of("app.events")),
    "labels": in_blackhole(rows_of("app.events")),
    "overview": in_table("public.large_transactions", LARGE),
    "plugin_pipeline": Example(lambda world: plugin_lines(world) >= 16, True),
    "plugin_sink": Example(plugin_lines, 4),
    "plugin_source": Example(
        lambda world: [
            (row["all"], row["low"])
            for row in world.table(
                "public.orders", "count(*) > 100 AS all, count(*) FILTER (WHERE num_field <= 100) AS low"
            )
        ],
        [(True, 0)],
    ),
    "plugin_transform": in_table("public.events", rows_of("raw.events", op=None)),
    "postgres_sink": in_table("eth.blocks", rows_of("app.events", op=None)),
    "quick_start": Example(lambda world: world.printed_json(), [{**row, "_gs_op": "i"} for row in LARGE]),
    "script_webhook": Example(lambda world: world.http.rows, processed()),
    "slides": in_table("public.large_transactions", LARGE),
    "slides_dotted": in_table("public.large_transactions", LARGE),
    "slides_script": in_blackhole(
        [
            {
                "transfer_id": f"t{n}",
                "sender": f"0x{n}",
                "receiver": "0xff",
                "value_eth": value,
                "timestamp": f"2023-11-14T22:13:2{n}.000Z",
                "_gs_op": "i",
            }
            for n, value in ((1, 1.5), (2, 0.0), (3, 0.25))
        ]
    ),
    "sql_transform": Example(
        lambda world: world.printed_json(),
        [
            {"id": 1, "event_type": "buy", "amount": 10.0, "_gs_op": "i"},
            {"id": 4, "event_type": "buy", "amount": 0.25, "_gs_op": "i"},
        ],
    ),
}


def test_every_example_is_executed() -> None:
    assert {path.stem for path in FOLDER.glob("*.yaml")} == set(EXAMPLES)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_example_delivers_its_rows(
    name: str,
    spark: Any,
    kafka: Any,
    registry: Any,
    postgres: Any,
    database: Database,
    topics: None,
    http: Endpoint,
    capfd: Any,
) -> None:
    http.accepted.clear()
    world = World(spark, kafka, registry, postgres, database, http, lambda: capfd.readouterr().out, name)
    example = EXAMPLES[name]
    found: list[Any] = []

    def arrived() -> bool:
        found[:] = [example.look(world)]
        return found[0] == example.expected or world.run.failure is not None

    with running(world):
        try:
            eventually(arrived, 60)
        except AssertionError:
            assert found[0] == example.expected
    assert example.look(world) == example.expected
