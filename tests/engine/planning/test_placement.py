"""The same operators in this process and on executors."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.harness.endpoint import endpoint
from tests.harness.pipelines import Bench, finish, new_run
from tests.harness.plugins import load_plugins
from tests.paths import TESTS

from streamling.connectors.memory import MemorySink
from streamling.dev.contracts.harness import NAME
from streamling.engine.dataflow.rows import Rows
from streamling.engine.planning.executor_work import on_executor
from streamling.engine.planning.placement import (
    ClusterPlacement,
    ExecutorSink,
    ExecutorTransform,
    LocalPlacement,
    placement_for,
)
from streamling.engine.planning.planned import PlannedNode
from streamling.engine.run.run import PipelineRun
from streamling.errors import StreamlingError
from streamling.observe.telemetry.metrics import Distribution
from streamling.pipeline.config import AppConfig
from streamling.pipeline.options import SinkOptions, TransformOptions
from streamling.plugins.registry import Registry
from streamling.plugins.sinks import Sink
from streamling.plugins.transforms import Transform
from streamling.spark.python_errors import ExecutorError, from_executor_error
from streamling.testing import PipelineHarness

PLUGINS = TESTS / "harness" / "spreading.py"


def rows(*ids: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(ids, pa.int64()), "_gs_op": ["i"] * len(ids)})


class Noting(Transform[TransformOptions]):
    """Writes down its life; negative numbers are too much for it."""

    Options = TransformOptions
    life: list[Any]

    def open(self):
        self.life.append("open")

    def output_schema(self):
        return self.context.input_schema

    def process(self, batch):
        self.life.append(batch.num_rows)
        if min(batch.column("id").to_pylist()) < 0:
            raise StreamlingError("negative", internal=False, retriable=True, cause=ValueError("-1"), remedy="add one")
        return batch.filter(pa.array([id != 0 for id in batch.column("id").to_pylist()]))

    def close(self):
        self.life.append("close")


class NotingSink(Sink[SinkOptions]):
    Options = SinkOptions
    distributable = True
    life: list[Any]
    full = False

    def open(self):
        self.life.append("open")

    def write(self, batch):
        self.life.append(batch.num_rows)

    def flush(self):
        self.life.append("flush")
        if self.full:
            raise OSError("disk full")

    def close(self):
        self.life.append("close")


def noting(kind: type, **more: Any) -> Any:
    return type(kind.__name__, (kind,), {"life": [], **more})


def built(operator: Any, **options: Any) -> PlannedNode:
    analysis = PipelineHarness(operator, options).prepare([rows(1)]).analysis
    assert analysis is not None
    return analysis.nodes[NAME]


def function(operator: Any, **options: Any) -> Any:
    return on_executor(built(operator, **options), operator)


@pytest.mark.spark
def test_columns_that_appear_go_through_a_transform_on_executors(spark):
    text = """
    sources: {rows: {type: numbers, primary_key: id}}
    transforms:
      scripted:
        {type: script, from: rows, primary_key: id, language: js, script: "function process(row) { return row }"}
    sinks: {out: {type: memory, from: scripted}}
    """
    analysis = Bench(spark).prepare(text).analysis
    assert analysis is not None
    scripted = analysis.nodes["scripted"]
    transform = ExecutorTransform(scripted.operator, scripted)
    frames = [spark.sql(f"SELECT 1L AS id, 'n' AS name{more}, 'i' AS _gs_op") for more in ("", ", 'x' AS note", "")]
    found = [transform.apply(spark, {"rows": frame}).toArrow().to_pylist() for frame in frames]
    plain = {"id": 1, "name": "n", "_gs_op": "i"}
    assert found == [[plain], [{"id": 1, "name": "n", "note": "x", "_gs_op": "i"}], [plain]]


@pytest.mark.spark
def test_new_columns_reach_a_sink_on_executors_with_their_logical_types(spark):
    with endpoint() as server:
        text = f"""
        sources: {{rows: {{type: numbers, primary_key: id}}}}
        sinks: {{out: {{type: webhook, from: rows, url: {server.url}, primary_key: id}}}}
        """
        analysis = Bench(spark).prepare(text).analysis
        assert analysis is not None
        sink = ExecutorSink(analysis.nodes["out"].operator, analysis.nodes["out"])
        wide = pa.array([Decimal(10**45 + 1)], pa.decimal256(50, 0))
        grown = pa.record_batch({"id": [1], "name": ["n"], "wide": wide, "_gs_op": ["i"]})
        for batch in (grown.drop_columns(["wide"]), grown):
            sink.write_frame(Rows(spark, batches=[batch]).frame())
    plain = {"id": 1, "name": "n", "_gs_op": "i"}
    assert server.rows == [plain, {**plain, "wide": 10**45 + 1}]


# ── the decision ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[*,4]"])
def test_local_masters_run_operators_in_this_process(master):
    assert isinstance(placement_for(master), LocalPlacement)


@pytest.mark.parametrize("master", ["local-cluster[2,1,1024]", "spark://host:7077", "yarn", "k8s://https://host"])
def test_all_other_masters_are_clusters(master):
    assert isinstance(placement_for(master), ClusterPlacement)


def test_on_a_cluster_transforms_go_to_the_executors():
    assert isinstance(ClusterPlacement().place(built(noting(Noting))), ExecutorTransform)


def test_on_a_cluster_sinks_go_to_the_executors_if_they_may_be_divided():
    assert isinstance(ClusterPlacement().place(built(noting(NotingSink))), ExecutorSink)
    assert isinstance(ClusterPlacement().place(built(MemorySink)), MemorySink)


def test_in_one_process_operators_stay_what_they_are():
    transform = built(noting(Noting))
    assert LocalPlacement().place(transform) is transform.operator


# ── what an executor runs ────────────────────────────────────────────────────────────────────────────────────


def test_a_transform_lives_from_open_to_close_within_its_partition():
    operator = noting(Noting)
    made = list(function(operator)(iter([rows(1, 2), rows(0, 3)])))
    assert [batch.column("id").to_pylist() for batch in made] == [[1, 2], [3]]
    assert operator.life == ["open", 2, 2, "close"]


def test_batch_size_is_what_the_transform_sees():
    operator = noting(Noting)
    list(function(operator, batch_size=2)(iter([rows(1, 2, 3, 4, 5)])))
    assert operator.life == ["open", 2, 2, 1, "close"]


def test_empty_batches_are_not_passed_on():
    operator = noting(Noting)
    assert list(function(operator)(iter([rows(), rows(0)]))) == []
    assert operator.life == ["open", 1, "close"]


def test_a_transform_is_closed_after_a_failure():
    operator = noting(Noting)
    with pytest.raises(ExecutorError):
        list(function(operator)(iter([rows(-1)])))
    assert operator.life == ["open", 1, "close"]


def test_a_transform_that_returns_other_columns_is_refused():
    operator = noting(Noting, process=lambda self, batch: batch.drop_columns(["id"]))
    with pytest.raises(ExecutorError, match="returned columns \\(_gs_op string\\), declared \\(id int64"):
        list(function(operator)(iter([rows(1)])))


def test_a_sink_flushes_before_it_reports_its_rows():
    operator = noting(NotingSink)
    (count,) = function(operator)(iter([rows(1, 2), rows(3)]))
    assert count.to_pylist() == [{"delivered": 3, "deduplicated": 0, "skipped": 0}]
    assert operator.life == ["open", 2, 1, "flush", "close"]


def test_rows_of_a_partition_are_collected_into_the_batches_that_a_sink_wants():
    """Spark delivers at most 10 000 rows at a time, which are too few for some sinks."""
    operator = noting(NotingSink, batching=lambda self: (4, 1.0))
    (count,) = function(operator)(iter([rows(1, 2, 3), rows(), rows(4, 5, 6, 7, 8), rows(9)]))
    assert count.to_pylist() == [{"delivered": 9, "deduplicated": 0, "skipped": 0}]
    assert operator.life == ["open", 4, 4, 1, "flush", "close"]


def test_a_sink_whose_flush_fails_reports_nothing_and_is_closed():
    operator = noting(NotingSink, full=True)
    partition: Iterator[pa.RecordBatch] = function(operator)(iter([rows(1)]))
    with pytest.raises(ExecutorError, match="disk full"):
        next(partition)
    assert operator.life == ["open", 1, "flush", "close"]


def test_state_stays_with_the_driver():
    def process(self, batch):
        return self.context.state.get("x")

    with pytest.raises(ExecutorError, match="under_test: state is not available on executors"):
        list(function(noting(Noting, process=process))(iter([rows(1)])))


# ── failures on their way back ───────────────────────────────────────────────────────────────────────────────


def failed(operator: Any, batches: Iterator[pa.RecordBatch]) -> Exception:
    with pytest.raises(ExecutorError) as caught:
        list(function(operator)(batches))
    # what Spark makes of it: one long text with the worker's trace in it
    return RuntimeError(f"Job aborted\n  File x\nstreamling.ExecutorError: {caught.value}\n\tat org.apache.spark")


def test_a_failure_comes_back_with_its_node_its_flags_and_its_cause():
    failure = from_executor_error(failed(noting(Noting), iter([rows(-1)])), NAME)
    assert failure is not None
    assert str(failure).endswith("transform 'under_test': negative")
    assert (failure.internal, failure.retriable, failure.remedy) == (False, True, "add one")
    assert list(failure.causes()) == ["ValueError: -1"]


def test_a_failure_of_another_node_is_not_translated():
    assert from_executor_error(failed(noting(Noting), iter([rows(-1)])), "other") is None
    assert from_executor_error(RuntimeError("executor lost"), NAME) is None


def test_a_failure_from_further_up_passes_unchanged():
    def batches() -> Iterator[pa.RecordBatch]:
        yield rows(1)
        raise ExecutorError('{"name": "above"}')

    with pytest.raises(ExecutorError, match='"name": "above"'):
        list(function(noting(Noting))(batches()))


# ── classes of plugin files ──────────────────────────────────────────────────────────────────────────────────

PIPELINE = """
sources:
  numbers: {{type: spreading.count, rows: 100, primary_key: id}}
transforms:
  squares: {{type: spreading.square, from: numbers, {transform}}}
sinks:
  out: {{type: spreading.folder, from: squares, folder: "{folder}", {sink}}}
"""


def text(folder: Path, transform: str = "batch_size: 10", sink: str = "batch_size: 10") -> str:
    return PIPELINE.format(folder=folder, transform=transform, sink=sink)


def prepared(text: str, session: Any, master: str = "local-cluster[2,1,1024]") -> PipelineRun:
    """A run with the placement of ``master``; a local session has Python workers as well."""
    config = AppConfig.model_validate({"spark": {"master": master}})
    registry = load_plugins(Registry.builtin(), PLUGINS)
    run = new_run(text, registry, config=config)
    run.analyse(session)
    return run


def run(text: str, session: Any, master: str = "local-cluster[2,1,1024]") -> PipelineRun:
    started = prepared(text, session, master)
    started.start()
    finish(started)
    return started


def written(folder: Path) -> list[dict[str, Any]]:
    lines = [line for file in folder.iterdir() for line in file.read_text().splitlines()]
    return sorted((json.loads(line) for line in lines), key=lambda row: row["id"])


def test_a_process_that_cannot_import_the_plugin_file_can_run_it(tmp_path):
    from pyspark import cloudpickle

    from streamling.dev.contracts.harness import NoSpark

    analysis = prepared(text(tmp_path), NoSpark()).analysis
    sent = tmp_path / "function"
    sent.write_bytes(cloudpickle.dumps(on_executor(analysis.nodes["squares"])))
    code = f"""
import pickle, pyarrow as pa
function = pickle.loads(open({str(sent)!r}, "rb").read())
batch = pa.record_batch({{"id": pa.array([3, 4], pa.int64()), "_gs_op": ["i", "i"]}})
print([row["square"] for made in function(iter([batch])) for row in made.to_pylist()])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[9, 16]", done.stderr


def test_options_survive_the_way_to_the_executor(tmp_path):
    from pyspark import cloudpickle

    from streamling.dev.contracts.harness import NoSpark

    analysis = prepared(text(tmp_path, sink="refuse: 7, parallelism: 2"), NoSpark()).analysis
    options = analysis.nodes["out"].node.options
    on_executor(analysis.nodes["out"])
    copy = pickle.loads(cloudpickle.dumps(options))
    assert copy == options or copy.model_dump() == options.model_dump()
    assert (copy.refuse, copy.instance_count, copy.upstreams()) == (7, 2, ("squares",))


@pytest.mark.spark
class TestOnWorkers:
    """Executor placement on the workers of a local session."""

    def test_rows_are_the_same_wherever_operators_run(self, spark, tmp_path):
        here, there = tmp_path / "here", tmp_path / "there"
        here.mkdir()
        there.mkdir()
        run(text(here), spark, "local[2]")
        run(text(there), spark)
        without_pid = [{key: row[key] for key in ("id", "square", "_gs_op")} for row in written(there)]
        assert without_pid == [{"id": id, "square": id * id, "_gs_op": "i"} for id in range(100)]
        assert without_pid == [{key: row[key] for key in ("id", "square", "_gs_op")} for row in written(here)]
        assert {row["pid"] for row in written(here)} == {os.getpid()}
        assert os.getpid() not in {row["pid"] for row in written(there)}

    @pytest.mark.parametrize("master", ["local[2]", "local-cluster[2,1,1024]"])
    def test_what_operators_measure_arrives_wherever_they_run(self, spark, tmp_path, master):
        metrics = run(text(tmp_path), spark, master).metrics
        assert metrics.value("squared", "squares", kind="whole") == 100
        assert metrics.value("last", "squares") in range(100)
        thinking = metrics.value("thinking", "squares")
        assert isinstance(thinking, Distribution)
        assert thinking.sum == 500 * thinking.count > 0

    def test_a_failing_transform_is_named_with_its_cause(self, spark, tmp_path):
        with pytest.raises(StreamlingError) as caught:
            run(text(tmp_path, transform="refuse: 57"), spark)
        assert str(caught.value) == "spreading.square transform 'squares'"
        assert list(caught.value.causes()) == ["ValueError: row 57 refused"]

    def test_a_failing_sink_is_named_with_its_cause(self, spark, tmp_path):
        with pytest.raises(StreamlingError) as caught:
            run(text(tmp_path, sink="refuse: 57"), spark)
        assert str(caught.value) == "spreading.folder sink 'out'"
        assert list(caught.value.causes()) == ["OSError: no room for 57"]


@pytest.mark.spark
def test_rows_of_one_key_keep_their_order_through_the_shuffle(spark):
    from streamling.engine.planning.placement import repartition_by_key

    frame = spark.range(0, 10_000, 1, 8).selectExpr("id AS place", "id % 7 AS `the key`")
    by_key: dict[int, list[int]] = {}
    for row in repartition_by_key(frame, ["the key"]).collect():
        by_key.setdefault(row["the key"], []).append(row["place"])
    assert len(by_key) == 7
    stream = spark.newSession()  # Spark turns adaptive execution off for streams
    stream.conf.set("spark.sql.adaptive.enabled", "false")
    stream.conf.set("spark.sql.shuffle.partitions", "50")
    divided = repartition_by_key(stream.range(100).selectExpr("id AS `the key`"), ["the key"])
    assert divided.rdd.getNumPartitions() == spark.sparkContext.defaultParallelism
    assert repartition_by_key(divided, ["the key"], 5).rdd.getNumPartitions() == 5
    assert all(places == sorted(places) for places in by_key.values())
