"""Small plugins that the example pipelines name."""

from __future__ import annotations

import pyarrow as pa
from pydantic import Field

from streamling.pipeline.model import NodeKind
from streamling.pipeline.options import FreeFormOptions, SinkOptions, SourceOptions
from streamling.plugins.registry import Registry
from streamling.plugins.sinks import Sink
from streamling.plugins.sources import END, End, Position, Source, SourceBatch, Wait
from streamling.plugins.transforms import Transform

_SCHEMA = pa.schema([("num_field", pa.int32()), ("alphanumeric_field", pa.string())])


class RandomSourceOptions(SourceOptions):
    max_rows: int = Field(default=100, ge=0, description="Total number of rows.")
    record_batch_size: int = Field(default=10, ge=1, description="Rows per batch.")


class RandomSource(Source[RandomSourceOptions]):
    Options = RandomSourceOptions

    def schema(self) -> pa.Schema:
        return _SCHEMA

    def read(self, position: Position) -> SourceBatch | Wait | End:
        return END


class PollingSourceOptions(SourceOptions, FreeFormOptions):
    poll_interval_ms: int = Field(default=1000, ge=1, description="Pause between two polls.")


class PollingSource(Source[PollingSourceOptions]):
    Options = PollingSourceOptions

    def schema(self) -> pa.Schema:
        return _SCHEMA

    def read(self, position: Position) -> SourceBatch | Wait | End:
        return Wait(self.options.poll_interval_ms / 1000)


class FilterTransform(Transform[FreeFormOptions]):
    """Any `column: value` is a condition."""

    def output_schema(self) -> pa.Schema:
        return self.context.input_schema

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch


class BatchSinkOptions(SinkOptions):
    mode: str = Field(default="row", description="row or batch.")
    columns: list[str] = Field(default=[], description="Columns to show.")


class BatchSink(Sink[BatchSinkOptions]):
    Options = BatchSinkOptions

    def write(self, batch: pa.RecordBatch) -> None:
        print(batch.num_rows)


def registry_with_plugins() -> Registry:
    registry = Registry.builtin()
    registry.register(NodeKind.SOURCE, "basic_plugin.random_source", RandomSource)
    registry.register(NodeKind.SOURCE, "acme_api.orders_source", PollingSource)
    registry.register(NodeKind.SOURCE, "dataset", PollingSource)
    registry.register(NodeKind.TRANSFORM, "basic_plugin.filter_transform", FilterTransform)
    registry.register(NodeKind.SINK, "print_sink", BatchSink)
    return registry
