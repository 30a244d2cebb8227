"""Blackhole sink: computes every row and discards it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from streamling.pipeline.options import BatchOptions, ParallelOptions, SinkOptions
from streamling.plugins.sinks import FrameSink
from streamling.spark.counting import report_counts
from streamling.spark.java import java_class
from streamling.types.row_kind import OP_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class BlackholeSinkOptions(ParallelOptions, BatchOptions, SinkOptions):
    """Discards its rows. For benchmarks and for trying out a pipeline."""

    def ineffective(self) -> Mapping[str, str]:
        fields = ("batch_size", "batch_flush_interval", "parallelism")
        unused = {field: "Spark discards the rows of a batch" for field in fields if getattr(self, field) is not None}
        return {**super().ineffective(), **unused}


class BlackholeSink(FrameSink[BlackholeSinkOptions]):
    """Runs the whole plan inside the JVM; no row leaves it. The row kind is ignored."""

    Options = BlackholeSinkOptions
    counts_rows: ClassVar[bool] = True

    def prepare(self, frame: DataFrame) -> DataFrame:
        return frame.drop(OP_COLUMN)

    def write_frame(self, frame: DataFrame) -> int:
        execution: Any = frame._jdf.queryExecution()
        rows = int(execution.toRdd().count())
        report_counts(execution)
        return rows

    def prepare_local(self, frame: DataFrame) -> DataFrame:
        return self.prepare(frame)

    def local_writer(self, spark: SparkSession) -> Any:
        return java_class(spark._jvm, "streamling.plan.RowSink").discard()

    def needs_job(self, columns: pa.Schema) -> None:
        return None

    def write_arrow(self, batches: Sequence[pa.RecordBatch]) -> bool:
        return True
