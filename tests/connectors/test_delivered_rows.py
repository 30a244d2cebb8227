"""Delivered means acknowledged by the target: for every sink, the counts of random runs with duplicates, rejected rows
and failures equal what the target holds."""

from __future__ import annotations

import io
import json
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from streamling.connectors.memory import collected_rows
from streamling.connectors.print import PrintSink
from streamling.dev.contracts.harness import BatchListSource
from streamling.dev.services.clickhouse import LocalClickHouse
from streamling.dev.services.postgres import LocalPostgres
from streamling.engine.run.observed import ObservedRun
from streamling.engine.run.run import PipelineRun
from streamling.errors import StreamlingError
from streamling.pipeline.config import AppConfig
from streamling.pipeline.model import NodeKind
from streamling.plugins.delivery import Delivery
from streamling.plugins.registry import Registry
from streamling.plugins.sinks import Sink
from tests.connectors.clickhouse.driver import Database
from tests.connectors.kafka.sink_driver import KafkaSinkBench, people
from tests.connectors.postgres.aggregate.driver import Aggregate, transfers
from tests.connectors.postgres.driver import Driver
from tests.connectors.sink_driver import batch
from tests.harness.clickhouse import clear_faults, inject_fault
from tests.harness.endpoint import Reply, Request, endpoint
from tests.harness.pipelines import Bench, finish, start_run

pytestmark = pytest.mark.services

#: STREAMLING_TEST_DELIVERY_SEEDS=50 for a longer run
SEEDS = range(int(os.environ.get("STREAMLING_TEST_DELIVERY_SEEDS", "3")))
#: a value that targets of these tests refuse
BAD = "bad"
KEY = {"primary_key": "id"}


@dataclass
class Given:
    """Random rows, in batches; few keys occur often."""

    random: Random
    kinds: str = "iu"
    bad: float = 0.0
    batches: list[pa.RecordBatch] = field(init=False)

    def __post_init__(self) -> None:
        self.batches = [
            batch(*(self._row(f"10.0.{number}.{row}") for row in range(self.random.randint(1, 30))))
            for number in range(self.random.randint(4, 10))
        ]

    def _row(self, value: str) -> tuple[str, int, str]:
        is_bad = self.random.random() < self.bad
        return self.random.choice(self.kinds), self.random.randrange(8), BAD if is_bad else value

    @property
    def rows(self) -> int:
        return sum(batch.num_rows for batch in self.batches)


def run_rows(
    batches: Sequence[pa.RecordBatch],
    sink: dict[str, Any],
    *,
    kind: type[Sink[Any]] | None = None,
    rejects: bool = False,
    key: dict[str, str] = KEY,
    **config: Any,
) -> tuple[PipelineRun, StreamlingError | None]:
    """Run rows into a sink, to the end or until it fails, and compare the counts of all surfaces."""
    registry = Registry.builtin()
    given = {"batches": batches, "on_read": lambda number: None}
    registry.register(NodeKind.SOURCE, "test.given", type("Given", (BatchListSource,), given))
    if kind is not None:
        registry.register(NodeKind.SINK, "test.sink", kind)
    settings = AppConfig(**{"checkpoint_interval_sec": 0.05, **config})
    errors = {"errors": {"to": "refused"}} if rejects else {}
    nodes = {
        "sources": {"given": {"type": "test.given", **key}},
        "transforms": {},
        "sinks": {"out": {"from": "given", **sink, **errors}, **({"refused": {"type": "memory"}} if rejects else {})},
    }
    run = start_run(json.dumps(nodes), registry, config=settings)
    failure = None
    try:
        finish(run)
    except StreamlingError as error:
        failure = error
    check_surfaces(run)
    if failure is None:
        letters = collected_rows(run, "refused").num_rows if rejects else 0
        rows = sum(batch.num_rows for batch in batches)
        assert delivery_of(run).rows + letters == rows, "every row is delivered, deduplicated, skipped or rejected"
        assert run.metrics.value("rejected_rows", "out") in ((letters,) if letters else (None, 0))
        assert run.metrics.value("input_rows", "out") == rows
    return run, failure


def delivery_of(run: PipelineRun) -> Delivery:
    return run.graph.deliveries("out")


def check_surfaces(run: PipelineRun) -> None:
    """Summary, status, metrics and topology say the same."""
    found = delivery_of(run)
    assert run.rows_written().get("out", 0) == found.delivered
    assert run.metrics.value("output_rows", "out") == found.delivered
    assert (run.metrics.value("deduplicated_rows", "out") or 0) == found.deduplicated
    assert (run.metrics.value("skipped_rows", "out") or 0) == found.skipped
    status = run.status()
    assert (status.rows_out, status.deduplicated, status.skipped) == (
        found.delivered,
        found.deduplicated,
        found.skipped,
    )
    assert run.summary().startswith(f"{found.delivered:,} to out")
    shown = ObservedRun(run, name="run", application_id="run", jvm_megabytes=lambda: None).topology(full=False)
    (node,) = (node for node in shown["nodes"] if node["name"] == "out")
    assert (node["rows_out"], node["deduplicated"], node["skipped"]) == (
        found.delivered,
        found.deduplicated,
        found.skipped,
    )
    assert node["rejected"] == (run.metrics.value("rejected_rows", "out") or 0)


# ── Postgres ────────────────────────────────────────────────────────────────────────────────────────────────


class CountedTable(Driver):
    """A table that refuses `BAD`, fails three times, and counts what is done to its rows."""

    def create_counted(self) -> None:
        self.create("id bigint PRIMARY KEY, v text CHECK (v <> 'bad')")
        self.execute("CREATE TABLE {s}.operations (n bigint)")
        self.execute("CREATE SEQUENCE {s}.calls")
        self.execute(
            "CREATE FUNCTION {s}.count_one() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" IF nextval('{self.schema}.calls') IN (3, 20, 50) THEN"
            " RAISE EXCEPTION 'for now' USING ERRCODE = '40001'; END IF;"
            f" INSERT INTO {self.schema}.operations VALUES (1); RETURN NULL; END $$"
        )
        self.execute(
            "CREATE TRIGGER counting AFTER INSERT OR UPDATE OR DELETE ON {t} FOR EACH ROW"
            " EXECUTE FUNCTION {s}.count_one()"
        )

    @property
    def operations(self) -> int:
        ((count,),) = self.execute("SELECT count(*) FROM {s}.operations")
        return int(count)


@pytest.mark.parametrize("deduplicate", [True, False])
@pytest.mark.parametrize("rejects", [True, False], ids=["dead letters", "the first bad row fails"])
@pytest.mark.parametrize("seed", SEEDS)
def test_postgres(seed: int, rejects: bool, deduplicate: bool, postgres: LocalPostgres) -> None:
    random, table = Random(seed), CountedTable(postgres.dsn)
    table.create_counted()
    given = Given(random, bad=0.04)
    sink = {"type": "postgres", "schema": table.schema, "table": "t", "deduplicate": deduplicate}
    run, failure = run_rows(given.batches, sink, rejects=rejects, postgres_sink=table.settings)
    assert delivery_of(run).delivered == table.operations
    assert failure is None or "violates check constraint" in str(failure)
    if not deduplicate:
        assert delivery_of(run).deduplicated == 0


def test_postgres_without_a_key_skips_deletes(postgres: LocalPostgres) -> None:
    table, given = Driver(postgres.dsn), Given(Random(1), kinds="iud")
    sink = {"type": "postgres", "schema": table.schema, "table": "t"}
    run, _ = run_rows(given.batches, sink, key={}, postgres_sink=table.settings)
    ((count,),) = table.execute("SELECT count(*) FROM {t}")
    found = delivery_of(run)
    assert found == Delivery(count, 0, given.rows - count)
    assert found.skipped


@pytest.mark.parametrize("rejects", [True, False], ids=["dead letters", "the first bad row fails"])
@pytest.mark.parametrize("seed", SEEDS)
def test_postgres_aggregate(seed: int, rejects: bool, postgres: LocalPostgres) -> None:
    """Each row that counts adds one to a group; keys of several batches differ."""
    random, place = Random(seed), Aggregate(postgres.dsn)
    keys = [[random.randrange(100 * n, 100 * n + 10) for _ in range(random.randint(1, 30))] for n in range(6)]
    account = lambda: None if random.random() < 0.02 else random.choice("abc")  # noqa: E731
    batches = [transfers(*(("i", id, account(), 1) for id in ids)) for ids in keys]
    sink = {
        "type": "postgres_aggregate",
        "schema": place.schema,
        "landing_table": "log",
        "agg_table": "totals",
        "group_by": {"account": {}},
        "aggregate": {"n": {"fn": "count"}},
    }
    run, _ = run_rows(batches, sink, rejects=rejects, postgres_sink=place.settings)
    assert delivery_of(run).delivered == sum(int(n) for (n,) in place.totals("n"))


def test_an_aggregate_that_cannot_be_written_has_delivered_nothing(postgres: LocalPostgres) -> None:
    place = Aggregate(postgres.dsn)
    with psycopg.connect(place.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {place.schema}")
        connection.execute(
            f"CREATE TABLE {place.schema}.log"
            " (id bigint, account text CHECK (account <> 'bad'), amount bigint, _gs_op text, PRIMARY KEY (id, _gs_op))"
        )
    sink = {
        "type": "postgres_aggregate",
        "schema": place.schema,
        "landing_table": "log",
        "agg_table": "totals",
        "aggregate": {"n": {"fn": "count"}},
    }
    rows = transfers(*(("i", id, BAD, 1) for id in range(5)))
    run, failure = run_rows([rows], sink, postgres_sink=place.settings)
    assert failure is not None
    assert run.summary() == "0 to out"


# ── ClickHouse ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def local_database(local_clickhouse: LocalClickHouse) -> Any:
    with Database.created(local_clickhouse) as database:
        yield database
        clear_faults(local_clickhouse)


@pytest.mark.parametrize("deduplicate", [True, False])
@pytest.mark.parametrize("rejects", [True, False], ids=["dead letters", "the first bad row fails"])
@pytest.mark.parametrize("engine", ["MergeTree", "ReplacingMergeTree(at, is_deleted)"])
@pytest.mark.parametrize("seed", SEEDS)
def test_clickhouse(
    seed: int,
    engine: str,
    rejects: bool,
    deduplicate: bool,
    local_clickhouse: LocalClickHouse,
    local_database: Database,
) -> None:
    random = Random(seed)
    local_database.execute(
        "CREATE TABLE t (id Int64, v IPv4, is_deleted UInt8, at DateTime64(9) DEFAULT now64(9))"
        f" ENGINE {engine} ORDER BY id",
        "SYSTEM STOP MERGES t",
    )
    inject_fault(local_clickhouse, "error", match="INSERT INTO", code=252, name="TOO_MANY_PARTS", times=2)
    given = Given(random, kinds="iud", bad=0.03)
    sink = {"type": "clickhouse", "table": "t", "batch_size": 0, "deduplicate": deduplicate, "primary_key": "id"}
    run, _ = run_rows(given.batches, sink, rejects=rejects, clickhouse_sink=local_database.settings)
    ((count,),) = local_database.rows("SELECT toInt64(count()) FROM t")
    assert delivery_of(run).delivered == int(count)
    if not deduplicate:
        assert delivery_of(run).deduplicated == 0


# ── webhooks ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("one_row_per_request", [True, False])
@pytest.mark.parametrize("mode", ["dead letters", "skip", "the first refusal fails"])
@pytest.mark.parametrize("seed", SEEDS)
def test_webhook(seed: int, mode: str, one_row_per_request: bool) -> None:
    random, lock = Random(seed), threading.Lock()
    given = Given(random, kinds="iud", bad=0.04)

    def flaky(request: Request) -> Reply:
        with lock:
            luck = random.random()
        if luck < 0.1:
            return Reply(drop=True)
        if luck < 0.2 and mode != "skip":
            return Reply(503)
        return Reply(422 if any(row["v"] == BAD for row in request.rows) else 200)

    with endpoint(flaky) as server:
        options = {"skip_on_error": True} if mode == "skip" else {}
        sink = {"type": "webhook", "url": server.url, "one_row_per_request": one_row_per_request, **options}
        run, failure = run_rows(given.batches, sink, rejects=mode == "dead letters")
    if failure is None:
        assert delivery_of(run).delivered == len(server.rows)
    else:  # an answer may still have been on its way
        assert delivery_of(run).delivered <= len(server.rows)


def test_rows_that_an_endpoint_refuses_are_not_delivered_to_it() -> None:
    """The console has once shown 30 rows as written of which 30 were dead letters."""
    given = Given(Random(3))
    with endpoint(lambda request: Reply(404)) as server:
        run, _ = run_rows(given.batches, {"type": "webhook", "url": server.url}, rejects=True)
    status = run.status()
    assert (status.rows_out, status.dead_letters) == (0, given.rows)


# ── Kafka ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spark
@pytest.mark.parametrize("options", [{}, {"deduplicate": False}, {"parallelism": 3}], ids=str)
@pytest.mark.parametrize("shaped", [False, True], ids=["rows from Python", "rows that stay in Spark"])
def test_kafka(shaped: bool, options: dict[str, Any], spark: Any, kafka: Any, registry: Any) -> None:
    random, bench = Random(str(options)), KafkaSinkBench(spark, kafka, registry)
    batches = [
        people(*((random.randrange(30), f"n{n}", random.choice("iud")) for n in range(random.choice([9, 900]))))
        for _ in range(4)
    ]
    topic, sql = bench.topic(), "SELECT id, name, _gs_op FROM given WHERE id < 20"
    bench.write(topic, *batches, data_format="json", sql=sql if shaped else None, **options)
    run = bench.runs[-1]
    check_surfaces(run)
    found = delivery_of(run)
    taken = [row for batch in batches for row in batch.to_pylist() if not shaped or row["id"] < 20]
    assert found.delivered == len(bench.messages(topic))
    assert found.rows == len(taken)
    assert bool(found.deduplicated) == ("deduplicate" not in options)


@pytest.mark.spark
def test_messages_that_the_broker_refuses_are_not_delivered(spark: Any, kafka: Any, registry: Any) -> None:
    bench = KafkaSinkBench(spark, kafka, registry)
    topic = bench.topic()
    bench.failure(topic, people((1, "a", "i"), (2, "x" * 5000, "i")), data_format="json", message_max_bytes=1000)
    assert bench.runs[-1].summary() == "0 to out"


# ── sinks of this process ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("every", [1, 4])
@pytest.mark.parametrize("seed", SEEDS)
def test_print(seed: int, every: int) -> None:
    output, given = io.BytesIO(), Given(Random(seed), kinds="iud")

    class Printing(PrintSink):
        def __init__(self, context: Any) -> None:
            super().__init__(context, output)

    run, _ = run_rows(given.batches, {"type": "test.sink", "sample_every": every}, kind=Printing)
    assert delivery_of(run).delivered == len(output.getvalue().splitlines())


def test_memory() -> None:
    given = Given(Random(2))
    run, _ = run_rows(given.batches, {"type": "memory"})
    assert delivery_of(run) == Delivery(collected_rows(run, "out").num_rows)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("condition", "taken"), [(None, 100), ("id < 40", 40), ("id < 0", 0)], ids=["from Python", "some", "none"]
)
@pytest.mark.parametrize("batch", [100, 7])
def test_blackhole(condition: str | None, taken: int, batch: int, spark: Any) -> None:
    """It has no target that could be asked: every row that the filter keeps is delivered."""
    transforms = {"kept": {"type": "sql", "primary_key": "id", "sql": f"SELECT * FROM given WHERE {condition}"}}
    nodes = {
        "sources": {"given": {"type": "numbers", "rows": 100, "batch": batch, "primary_key": "id"}},
        "transforms": transforms if condition else {},
        "sinks": {"out": {"type": "blackhole", "from": "kept" if condition else "given"}},
    }
    run = Bench(spark).run(json.dumps(nodes), count_in_spark=True)
    check_surfaces(run)
    assert delivery_of(run) == Delivery(taken)


class Warehouse:
    """The target of the sink of a plugin: rows are in it when a flush has returned."""

    def __init__(self, refuses_after: int = 10**9) -> None:
        self.rows = 0
        self.refuses_after = refuses_after

    def sink(self) -> type[Sink[Any]]:
        warehouse = self

        class Storing(Sink[Any]):
            """Says nothing about what it has delivered."""

            def open(self) -> None:
                self._pending = 0

            def write(self, batch: pa.RecordBatch) -> None:
                self._pending += batch.num_rows

            def flush(self) -> None:
                if warehouse.rows + self._pending > warehouse.refuses_after:
                    raise StreamlingError.user("the warehouse is full")
                warehouse.rows += self._pending
                self._pending = 0

        return Storing


@pytest.mark.parametrize("refuses_after", [10**9, 60, 0])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_plugin_that_does_not_report_what_it_delivers(seed: int, refuses_after: int) -> None:
    warehouse, given = Warehouse(refuses_after), Given(Random(seed))
    run, _ = run_rows(given.batches, {"type": "test.sink"}, kind=warehouse.sink())
    assert delivery_of(run) == Delivery(warehouse.rows)
