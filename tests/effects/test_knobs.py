"""Settings whose effect is seen by running something small."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from streamling.connectors.http.handler import HandlerTransform
from streamling.connectors.http.webhook import WebhookSink
from streamling.connectors.kafka.sink import KafkaSink, KafkaSinkOptions
from streamling.connectors.memory import MemorySink
from streamling.connectors.postgres.aggregate.sink import PostgresAggregateSink
from streamling.connectors.postgres.sink import PostgresSink
from streamling.connectors.print import PrintSink
from streamling.dev.contracts.contract import sample_rows
from streamling.dev.contracts.harness import wait_until_settled
from streamling.pipeline.config import AppConfig
from streamling.pipeline.model import NodeKind
from streamling.pipeline.options import SinkOptions
from streamling.plugins.operators import Operator
from streamling.plugins.registry import Registry
from streamling.plugins.sinks import Sink
from streamling.plugins.sources import END, Wait
from streamling.testing import PipelineHarness
from streamling.transforms.dynamic_table.backends import create_store
from streamling.transforms.dynamic_table.transform import DynamicTableTransformOptions
from streamling.transforms.script.transform import ScriptTransform
from tests.cli.conftest import PIPELINE, Project
from tests.connectors.file.driver import Run as FileRun
from tests.connectors.file.driver import make_source
from tests.connectors.postgres.aggregate.driver import FIELDS, Aggregate
from tests.effects.configuration import node_context
from tests.harness.endpoint import Endpoint, echo, endpoint
from tests.harness.pipelines import eventually, finish


class Slow(Sink[SinkOptions]):
    Options = SinkOptions

    def write(self, batch: pa.RecordBatch) -> None:
        pass


@pytest.mark.parametrize(
    ("config", "waiting"),
    [
        ({}, 2),
        ({"internal_buffer_size": 5}, 5),
        ({"plugin": {"channel_capacity": 7}}, 7),
        ({"internal_buffer_size": 5, "plugin": {"channel_capacity": 3}}, 3),
    ],
)
def test_so_many_batches_wait_in_front_of_a_node(config, waiting):
    bench = PipelineHarness(Slow, {})
    bench.config = config
    gate = bench.call_log.hold("write")
    read: list[int] = []
    bench.on_read = read.append
    run = bench.start([sample_rows(number, 1) for number in range(20)], interval=3600)
    eventually(lambda: bench.over or len(read) > waiting, 60, "the source is read")
    ahead = wait_until_settled(lambda: len(read))
    gate.set()
    finish(run)
    assert ahead == 1 + waiting + 1  # one is being written, one waits to be handed over


def test_positions_are_stored_every_checkpoint_interval_sec():
    stored = {}
    for seconds in (0.1, 3600):
        bench = PipelineHarness(Slow, {})
        bench.on_read = lambda number: time.sleep(0.1)
        positions: list[Any] = []
        bench.state.before_store = positions.append
        bench.finish([sample_rows(number, 1) for number in range(15)], interval=seconds)
        stored[seconds] = len(positions)
    assert stored[3600] == 1  # at the end
    assert stored[0.1] > 3


# ── nodes in a lane: what the engine does in front of them is true for each kind ───────────────────────────────


@dataclass(frozen=True)
class ExecutionMode:
    """What nodes of these tests talk to."""

    server: Endpoint
    tables: Aggregate

    def bench(self, kind: type[Operator[Any]], **options: Any) -> PipelineHarness:
        own: dict[type[Operator[Any]], dict[str, Any]] = {
            ScriptTransform: {"primary_key": "id", "language": "js", "script": "r => r"},
            HandlerTransform: {"primary_key": "id", "url": self.server.url},
            WebhookSink: {"url": self.server.url},
            PostgresSink: {"primary_key": "id", "schema": self.tables.schema, "table": "t"},
            PostgresAggregateSink: {
                **FIELDS,
                "primary_key": "id",
                "schema": self.tables.schema,
                "group_by": {"name": {}},
                "aggregate": {"n": {"fn": "count"}},
            },
        }
        made = PipelineHarness(kind, {**own.get(kind, {}), **options})
        made.config = {"postgres_sink": self.tables.settings}
        return made


@pytest.fixture
def place(postgres, capsys) -> Iterator[ExecutionMode]:
    with endpoint(echo) as server:
        yield ExecutionMode(server, Aggregate(postgres.dsn))


def calls(bench: PipelineHarness) -> list[int]:
    """The rows of each call of the node."""
    return [call.arguments[0].num_rows for call in bench.call_log.of("process", "write")]


_REBATCHED = [ScriptTransform, HandlerTransform, PrintSink, WebhookSink, PostgresSink, PostgresAggregateSink]


@pytest.mark.services
@pytest.mark.parametrize("kind", _REBATCHED)
def test_rows_are_collected_until_there_are_as_many_as_batch_size_says(kind, place):
    sizes = {}
    for size in (0, 4):
        bench = place.bench(kind, batch_size=size, batch_flush_interval="1h")
        bench.finish([sample_rows(number, 3) for number in range(4)], interval=3600)
        sizes[size] = calls(bench)
    assert sizes == {0: [12], 4: [4, 4, 4]}


@pytest.mark.services
@pytest.mark.parametrize("kind", _REBATCHED)
def test_rows_wait_no_longer_than_batch_flush_interval_says(kind, place):
    bench = place.bench(kind, batch_size=1000, batch_flush_interval="50ms")
    bench.ends = False
    run = bench.start([sample_rows(0, 3)], interval=3600)
    try:
        eventually(lambda: bench.over or calls(bench), 60, "rows are handed over")
    finally:
        bench.stop()
        finish(run)
    assert calls(bench) == [3]


@pytest.mark.services
@pytest.mark.parametrize("kind", [*_REBATCHED, MemorySink])
def test_a_node_runs_as_often_as_parallelism_says(kind, place):
    for parallelism in (1, 3):
        bench = place.bench(kind, parallelism=parallelism)
        bench.finish([sample_rows(0, 3)])
        assert len(bench.call_log.instances()) == parallelism


def test_scripts_without_parallelism_run_as_often_as_the_configuration_says():
    for options, instances in (({}, 3), ({"parallelism": 2}, 2)):
        bench = PipelineHarness(ScriptTransform, {"primary_key": "id", "language": "js", "script": "r => r", **options})
        bench.config = {"wasm_script": {"parallelism": 3}}
        bench.finish([sample_rows(0, 3)])
        assert len(bench.call_log.instances()) == instances


# ── single kinds ────────────────────────────────────────────────────────────────────────────────────────────


def test_producer_settings_of_the_kafka_sink():
    def producer(**options: Any) -> dict[str, str]:
        fields = {"type": "kafka", "from": "x", "topic": "t", "data_format": "json", **options}
        return KafkaSink(node_context(AppConfig(), KafkaSinkOptions.model_validate(fields))).producer_settings()

    plain = producer()
    for options, setting, value in (
        ({"batch_size": 50}, "batch.size", "5000"),
        ({"batch_flush_interval": "3s"}, "linger.ms", "3000"),
        ({"compression": "gzip"}, "compression.type", "gzip"),
    ):
        assert plain[setting] != producer(**options)[setting] == value


@pytest.mark.spark
@pytest.mark.parametrize("deduplicate", [True, False])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_so_many_tasks_write_to_a_topic(spark, deduplicate, parallelism):
    fields = {"type": "kafka", "from": "x", "topic": "t", "data_format": "json"}
    options = KafkaSinkOptions.model_validate({**fields, "deduplicate": deduplicate, "parallelism": parallelism})
    sink = KafkaSink(node_context(AppConfig(), options))
    rows = sink.ordered(spark.range(100, numPartitions=2), "CAST(id AS STRING)")
    assert rows.rdd.getNumPartitions() == parallelism


@pytest.mark.spark
@pytest.mark.parametrize(
    ("mode", "then"),
    [
        ({"type": "bounded"}, END),
        ({"type": "continuous"}, Wait(5)),
        ({"type": "continuous", "poll_interval": "7s"}, Wait(7)),
    ],
)
def test_a_folder_is_read_once_or_looked_into_every_poll_interval(spark, tmp_path, mode, then):
    (tmp_path / "a.csv").write_text("id\n1\n")
    run = FileRun(spark, make_source(tmp_path, mode=mode))
    assert run.rows() == [{"id": 1}]
    assert run.source.read(run.position) == then


def test_cache_refresh_debounce_ms_of_a_table_counts_before_that_of_the_configuration():
    config = AppConfig.model_validate({"dynamic_table_backend": {"postgres": {"cache_refresh_debounce_ms": 700}}})
    for options, seconds in (({}, 0.7), ({"cache_refresh_debounce_ms": 40}, 0.04)):
        fields = {"type": "dynamic_table", "backend_type": "Postgres", "backend_entity_name": "t"}
        cached = {**fields, "time_column": "at", "cache": True, **options}
        store: Any = create_store(node_context(config, DynamicTableTransformOptions.model_validate(cached)))
        assert store.debounce == seconds


@pytest.mark.parametrize("kind", [WebhookSink, HandlerTransform])
def test_private_addresses_are_refused_when_deny_private_is_on(kind):
    with endpoint(echo) as server:
        bench = PipelineHarness(kind, {"primary_key": "id", "url": server.url})
        bench.finish([sample_rows(0, 1)])
        bench.config = {"network": {"deny_private": True}}
        assert "network.deny_private is on" in str(bench.failure([sample_rows(0, 1), sample_rows(1, 1)]))
    assert len(server.requests) == 1


def test_the_settings_for_spark_reach_it(tmp_path):
    project = Project(tmp_path)
    result = project.command("pipeline.yaml", STREAMLING__SPARK__CONF="spark.jars.packages=a:b:1")
    assert result.code != 0
    assert "spark.conf sets spark.jars.packages" in result.err


@pytest.mark.spark
def test_spark_starts_with_its_settings(tmp_path):
    result = Project(tmp_path).command("pipeline.yaml", STREAMLING__SPARK__CONF="spark.driver.memory=little")
    assert result.code != 0
    assert "little" in result.err, result.err


_FUNCTION = """
import os
import pyarrow as pa
from streamling.plugins import SqlFunction, plugin


@plugin("variable")
class Variable(SqlFunction):
    argument_types = (pa.string(),)
    return_type = pa.string()

    def call(self, names):
        return pa.array([os.environ.get(name.as_py()) for name in names], pa.string())
"""


@pytest.mark.spark
def test_an_environment_variable_that_is_named_reaches_the_workers_of_spark(tmp_path):
    project = Project(tmp_path)
    project.write("plugin.py", _FUNCTION)
    statement = "SELECT id, variable('ACME') AS acme, variable('OTHER') AS other FROM orders"
    project.write("pipeline.yaml", PIPELINE.replace(PIPELINE.partition("sql: ")[2].partition("\n")[0], statement))
    settings = {"STREAMLING__PLUGIN__PATH": "plugin.py", "STREAMLING__SPARK__ENVIRONMENT": "ACME"}
    result = project.command("pipeline.yaml", ACME="named", OTHER="not named", **settings)
    assert result.code == 0, result.err
    rows = [json.loads(line) for line in result.out.splitlines()]
    assert [(row["acme"], row["other"]) for row in rows] == [("named", None)] * 3


def test_headers_and_secret_of_a_webhook():
    with endpoint() as server:
        bench = PipelineHarness(WebhookSink, {"url": server.url, "headers": {"X-Team": "blue"}, "secret_name": "hook"})
        bench.config = {"http_secret_header": {"hook": "X-Key"}, "http_secret_value": {"hook": "hunter2"}}
        bench.finish([sample_rows(0, 1)])
    (request,) = server.requests
    sent = {name.lower(): value for name, value in request.headers.items()}
    assert (sent["x-team"], sent["x-key"]) == ("blue", "hunter2")


def test_every_type_that_runs_is_known_here():
    """A guard for the tables: a new node type has to be entered there."""
    assert {"kafka", "postgres", "webhook", "print"} <= set(Registry.builtin().ids(NodeKind.SINK))
