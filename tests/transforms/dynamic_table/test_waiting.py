"""A table that another source fills is filled before the rows that query it are delivered."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

from streamling.connectors.file.source import FileSource, FileSourceOptions
from streamling.connectors.kafka.config import KafkaSourceSettings
from streamling.connectors.memory import collected_rows
from streamling.connectors.postgres.config import PostgresStateSettings
from streamling.connectors.postgres.state import PostgresState
from streamling.engine.dataflow.table_gate import awaited_tables
from streamling.engine.run.run import PipelineRun
from streamling.engine.state.memory import MemoryState
from streamling.errors import StreamlingError
from streamling.pipeline.config import AppConfig
from streamling.pipeline.model import NodeKind
from streamling.pipeline.options import SourceOptions, TransformOptions, UpstreamOptions
from streamling.pipeline.parse import parse_pipeline
from streamling.plugins.context import NodeContext
from streamling.plugins.placeholders import NoopMetrics
from streamling.plugins.registry import Registry
from streamling.plugins.sources import END, Source, SourceBatch, Wait
from streamling.plugins.transforms import Transform
from tests.connectors.kafka.source_driver import Topic, record
from tests.harness.pipelines import Bench, eventually, finish
from tests.paths import TESTS

SEED = TESTS / "seeds" / "dynamic_table_lookup.yaml"
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])

LOOKUP = """
sources:
  accounts: {type: accounts, primary_key: id}
  orders: {type: orders, primary_key: id}
transforms:
  vip: {type: dynamic_table, backend_type: InMemory, backend_entity_name: vip, sql: SELECT v FROM FEED, OPTIONS}
  slow: {type: passing, from: accounts, primary_key: id}
  vip_orders: {type: sql, primary_key: id, sql: "SELECT * FROM orders WHERE dynamic_table_check('VIP', v)"}
sinks:
  out: {type: memory, from: vip_orders}
  rest: {type: blackhole, from: slow}
"""


class Given(Source[SourceOptions]):
    """``count`` batches of one row each; ``before`` is called with the number of the requested batch."""

    Options = SourceOptions
    count = 3
    bounded = True
    before: Callable[[int], object] = staticmethod(lambda number: None)

    def schema(self) -> pa.Schema:
        return SCHEMA

    def read(self, position):
        at = position.get(self.context.name, 0)
        type(self).before(at)
        if at == self.count:
            return END if self.bounded else Wait(0.01)
        rows = pa.record_batch({"id": pa.array([at]), "v": [f"v{at}"]}, schema=SCHEMA)
        return SourceBatch(rows, {self.context.name: at + 1})


class PassingOptions(UpstreamOptions, TransformOptions):
    pass


class Passing(Transform[PassingOptions]):
    """A lane between the source and the table."""

    Options = PassingOptions

    def output_schema(self) -> pa.Schema:
        return self.context.input_schema

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        threading.Event().wait(0.05)
        return batch


def begin(
    spark: Any,
    *,
    feed: str = "accounts",
    options: str = "",
    accounts: dict[str, Any] | None = None,
    orders: dict[str, Any] | None = None,
    **config: Any,
) -> PipelineRun:
    text = LOOKUP.replace("FEED", feed).replace(", OPTIONS", f", {options}" if options else "")
    registry = Registry.builtin()
    for name, members in (("accounts", accounts), ("orders", orders)):
        made = {key: staticmethod(value) if callable(value) else value for key, value in (members or {}).items()}
        registry.register(NodeKind.SOURCE, name, type(name, (Given,), made))
    registry.register(NodeKind.TRANSFORM, "passing", Passing)
    settings = AppConfig(**{"checkpoint_interval_sec": 60, **config})
    pipeline = parse_pipeline(text, registry=registry, config=settings)
    run = PipelineRun(pipeline, config=settings, registry=registry, state=MemoryState())
    run.analyse(spark)
    run.start()
    return run


def found(run: PipelineRun) -> list[str]:
    return sorted(collected_rows(run, "out").column("v").to_pylist())


@pytest.mark.spark
@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("feed", ["accounts", "slow"])
def test_rows_wait_until_the_table_is_filled(spark, caplog, feed, bounded):
    """Also if the table is behind a lane, and with a checkpoint interval that never passes."""
    caplog.set_level(logging.INFO)
    accounts = {"before": lambda number: threading.Event().wait(0.05), "bounded": bounded}
    run = begin(spark, feed=feed, accounts=accounts)
    if not bounded:
        eventually(lambda: run.rows_written().get("out") == 3)
        run.stop("the test has what it wants")
    finish(run)
    assert found(run) == ["v0", "v1", "v2"]
    assert "source 'orders' waits until the tables that its rows query are filled: 'vip' from 'accounts'" in caplog.text


@pytest.mark.spark
def test_without_waiting_rows_see_the_current_table(spark):
    asked = threading.Event()
    orders = {"before": lambda number: asked.set() if number == 3 else None}
    accounts = {"before": lambda number: asked.wait(60) if number == 0 else None}
    run = begin(spark, options="wait_for_table: false", accounts=accounts, orders=orders)
    finish(run)
    assert found(run) == []


@pytest.mark.spark
def test_checkpoints_continue_during_the_wait(spark):
    release = threading.Event()
    accounts = {"before": lambda number: release.wait(60) if number == 3 else None}
    run = begin(spark, accounts=accounts, checkpoint_interval_sec=0.05)
    # it is random whether a marker comes between the last batch and the read that hangs; one comes after the first
    # batch
    eventually(lambda: run.context.state.get("accounts") or run.failure)
    assert run.context.state.get("orders") is None
    release.set()
    finish(run)
    assert found(run) == ["v0", "v1", "v2"]
    assert run.context.state.get("orders") == 3


@pytest.mark.spark
def test_a_stop_during_the_wait_ends_the_pipeline(spark):
    reached = threading.Event()
    accounts = {"count": 10**6, "before": lambda number: reached.set() if number == 1 else None}
    run = begin(spark, accounts=accounts)
    assert reached.wait(60)
    run.stop("the test wants it")
    finish(run)
    assert run.context.state.get("orders") is None
    assert run.context.state.get("accounts") >= 1


@pytest.mark.spark
def test_a_failure_of_the_feeding_source_ends_the_wait(spark):
    def broken(number: int) -> None:
        if number == 2:
            raise StreamlingError.user("the accounts are unreadable")

    run = begin(spark, accounts={"before": broken})
    with pytest.raises(StreamlingError, match="the accounts are unreadable"):
        finish(run)


FILES = """
sources:
  accounts: {type: file, path: accounts, format: csv, mode: {type: continuous, poll_interval: 1h}, primary_key: id}
  orders: {type: file, path: orders, format: csv, mode: {type: bounded}, primary_key: id}
transforms:
  vip: {type: dynamic_table, backend_type: InMemory, backend_entity_name: vip, sql: SELECT v FROM accounts}
  vip_orders: {type: sql, primary_key: id, sql: "SELECT * FROM orders WHERE dynamic_table_check('vip', v)"}
sinks:
  out: {type: memory, from: vip_orders}
"""


@pytest.mark.spark
def test_continuous_files_fill_a_table_with_those_of_the_first_listing(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder, count in (("accounts", 3), ("orders", 4)):
        (tmp_path / folder).mkdir()
        for number in range(count):
            (tmp_path / folder / f"{number}.csv").write_text(f"id,v\n{number},v{number}\n")
    run = Bench(spark).start(FILES)
    try:
        eventually(lambda: run.failure or run.rows_written().get("out") == 3, 60)
    finally:
        run.stop("the test has what it wants")
        finish(run)
    assert found(run) == ["v0", "v1", "v2"]


def test_a_file_source_has_caught_up_when_the_first_listing_is_read(tmp_path):
    """Files that arrive meanwhile are not waited for."""
    for number in range(3):
        (tmp_path / f"{number}.csv").write_text("id,v\n1,a\n")
    options = FileSourceOptions.model_validate({"type": "file", "path": str(tmp_path), "format": "csv"})
    source = FileSource(NodeContext("f", options, AppConfig(), MemoryState(), NoopMetrics()))
    position = source.restore()
    assert not source.caught_up()
    step = source.read(position)
    assert isinstance(step, SourceBatch)
    (tmp_path / "new.csv").write_text("id,v\n1,a\n")
    assert source.caught_up()
    assert isinstance(source.read(step.position), SourceBatch)
    assert source.caught_up()


# ── who waits for whom ──────────────────────────────────────────────────────────────────────────────────────


def waits(*transforms: str) -> dict[str, dict[str, frozenset[str]]]:
    registry = Registry.builtin()
    source = {"type": "file", "path": "x", "format": "csv"}
    text = "sources:\n" + "".join(f"  {name}: {source}\n" for name in "abc")
    text += "transforms:\n" + "".join(f"  {line}\n" for line in transforms)
    names = [line.split(":")[0] for line in transforms if "dynamic_table," not in line]
    text += "sinks:\n" + "".join(f"  out_{name}: {{type: print, from: {name}}}\n" for name in [*names, *"abc"])
    pipeline = parse_pipeline(text, registry=registry)
    return awaited_tables(pipeline, [node.name for node in pipeline if node.type == "dynamic_table"])


def table(name: str, sql: str | None) -> str:
    filled = "" if sql is None else f", sql: {sql}"
    return f"{name}: {{type: dynamic_table, backend_type: InMemory, backend_entity_name: {name}{filled}}}"


def asking(name: str, sql: str) -> str:
    return f'{name}: {{type: sql, primary_key: id, sql: "{sql}"}}'


def test_each_source_waits_for_those_that_fill_its_tables(caplog):
    one_of_each = [
        table("t_a", "SELECT v FROM a"),
        table("t_u", "SELECT v FROM both"),
        table("outside", None),
        asking("both", "SELECT id, v FROM a UNION ALL SELECT id, v FROM b"),
        asking("q", "SELECT id FROM c WHERE dynamic_table_check('T_A', v) OR dynamic_table_check('outside', v)"),
        asking("r", "SELECT id FROM c WHERE dynamic_table_check('t_u', v)"),
        asking("same", "SELECT id FROM a WHERE dynamic_table_check('t_a', v)"),
    ]
    assert waits(*one_of_each) == {"c": {"t_a": frozenset("a"), "t_u": frozenset("ab")}}
    assert not caplog.records


def test_sources_that_would_wait_for_each_other_do_not(caplog):
    circle = [
        table("t_a", "SELECT v FROM a"),
        table("t_b", "SELECT v FROM b"),
        table("t_c", "SELECT v FROM c"),
        asking("p", "SELECT id FROM a WHERE dynamic_table_check('t_b', v)"),
        asking("q", "SELECT id FROM b WHERE dynamic_table_check('t_a', v) AND dynamic_table_check('t_c', v)"),
    ]
    assert waits(*circle) == {"b": {"t_c": frozenset("c")}}
    assert "'a' does not wait for the table 't_b', which is filled from 'b'" in caplog.text
    assert "'b' does not wait for the table 't_a', which is filled from 'a'" in caplog.text


# ── the example, on real topics ─────────────────────────────────────────────────────────────────────────────

_ACCOUNT = record(("id", "long"), ("customer_id", "string"), ("tier", "string"))
_ORDER = record(("id", "long"), ("customer_id", "string"), ("amount", "double"), ("created_at", "long"), name="order")


def _order(id: int) -> dict[str, Any]:
    return {"id": id, "customer_id": f"c{id % 4}", "amount": 1.5, "created_at": 1}


@pytest.mark.spark
@pytest.mark.services
def test_the_lookup_example_finds_its_customers_with_one_and_with_two_instances(
    spark, kafka, registry, postgres, schema
):
    accounts = Topic(kafka, registry)
    orders = Topic(kafka, registry, partitions=2)
    accounts.write(_ACCOUNT, *({"id": n, "customer_id": f"c{n}", "tier": ["vip", "basic"][n % 2]} for n in range(4)))
    _write_orders(orders, range(8))
    text = SEED.read_text().replace("topic: crm.accounts", f"topic: {accounts.name}")
    text = text.replace("topic: orders.events", f"topic: {orders.name}").replace("type: print", "type: memory")
    server = {key: schema.settings[key] for key in ("host", "port", "db", "user", "sslmode")}
    settings = AppConfig(
        application_id=f"app-{uuid4().hex[:8]}",
        checkpoint_interval_sec=0.2,
        kafka_source=KafkaSourceSettings(
            brokers=kafka.brokers, schema_registry_url=registry.url, session_timeout_ms=6000
        ),
        dynamic_table_backend={"postgres": schema.settings},
    )
    builtin = Registry.builtin()
    pipeline = parse_pipeline(text, registry=builtin, config=settings)
    state_settings = PostgresStateSettings(**server, state_schema_name=schema.name)
    runs, states = [], []

    def join() -> PipelineRun:
        states.append(PostgresState(settings.application_id, state_settings))
        run = PipelineRun(pipeline, config=settings, registry=builtin, state=states[-1])
        run.analyse(spark)
        run.start()
        runs.append(run)
        return run

    def delivered() -> set[int]:
        return {row["id"] for run in runs if run.rows_written() for row in collected_rows(run, "out").to_pylist()}

    try:
        first = join()
        eventually(lambda: delivered() == {0, 2, 4, 6} or first.failure, 60)
        second = join()  # one partition of the orders is its own, but none of the accounts
        eventually(lambda: _partitions(second) and len(_partitions(second)) == 1, 60)
        _write_orders(orders, range(8, 16))
        eventually(lambda: delivered() == set(range(0, 16, 2)) or first.failure or second.failure, 60)
    finally:
        for run in runs:
            run.stop("the test has what it wants")
        for run in runs:
            finish(run)
        for state in states:
            state.close()
    assert delivered() == set(range(0, 16, 2))


def _write_orders(topic: Topic, ids: range) -> None:
    for partition in range(2):
        topic.write(_ORDER, *(_order(id) for id in ids if id // 2 % 2 == partition), partition=partition)


def _partitions(run: PipelineRun) -> list[int]:
    group = run._sources["orders.events"]._group  # type: ignore[attr-defined]
    return [] if group is None else group.partitions or []
