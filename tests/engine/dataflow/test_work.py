"""What a lane does with the results of a transform."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pyarrow as pa
from tests.harness.pipelines import eventually, finish, start_run

from streamling.dev.contracts.harness import BatchListSource
from streamling.engine.run.run import PipelineRun
from streamling.pipeline.config import AppConfig
from streamling.pipeline.model import NodeKind
from streamling.pipeline.options import BatchOptions, SinkOptions, TransformOptions, UpstreamOptions
from streamling.plugins.registry import Registry
from streamling.plugins.sinks import FrameSink, Sink
from streamling.plugins.transforms import Transform

ROWS = 400
PIPELINE = """
sources:
  given: {type: given}
transforms:
  same: {type: same, from: given, primary_key: id, BATCHING}
sinks:
  spark: {type: by_spark, from: same}
"""


class SameOptions(BatchOptions, UpstreamOptions, TransformOptions):
    pass


class Same(Transform[SameOptions]):
    Options = SameOptions

    def output_schema(self):
        return self.context.input_schema

    def process(self, batch):
        return batch


class BySpark(FrameSink[SinkOptions]):
    """Notes the ids of each batch."""

    Options = SinkOptions
    batches: list[list[int]]

    def write_arrow(self, batches):
        self.batches.extend(batch["id"].to_pylist() for batch in batches)
        return True

    def write_frame(self, frame):
        raise AssertionError("the rows are in Python")


class ByPython(Sink[SinkOptions]):
    Options = SinkOptions
    batches: list[list[int]]

    def write(self, batch):
        self.batches.append(batch["id"].to_pylist())


def started(batching: str, sink: type[Any], **source: Any) -> tuple[PipelineRun, list[list[int]]]:
    batches: list[list[int]] = []
    given = {"batches": [pa.record_batch({"id": range(ROWS)})], "on_read": lambda number: None, **source}
    registry = Registry.builtin()
    registry.register(NodeKind.SOURCE, "given", type("Given", (BatchListSource,), given))
    registry.register(NodeKind.TRANSFORM, "same", Same)
    registry.register(NodeKind.SINK, "by_spark", type("Noting", (sink,), {"batches": batches}))
    text = PIPELINE.replace("BATCHING", batching)
    return start_run(text, registry, config=AppConfig(checkpoint_interval_sec=60)), batches


def test_results_of_one_batch_are_joined_for_spark() -> None:
    run, batches = started("batch_size: 1", BySpark)
    finish(run)
    assert list(chain.from_iterable(batches)) == list(range(ROWS))
    assert len(batches) < ROWS / 2


def test_results_for_a_node_in_python_stay_as_they_are() -> None:
    run, batches = started("batch_size: 1", ByPython)
    finish(run)
    assert batches == [[id] for id in range(ROWS)]


def test_results_do_not_wait_for_rows_that_may_never_come() -> None:
    run, batches = started("batch_size: 300, batch_flush_interval: 50ms", BySpark, bounded=False)
    eventually(lambda: list(chain.from_iterable(batches)) == list(range(ROWS)))
    run.stop("all rows are there")
    finish(run)
