"""Three plugins that run as several instances: a source, a transform and a sink that know which instance they are.

STREAMLING__PLUGIN__PATH=partitioned_plugin.py streamling run partitioned.yaml
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
from pydantic import Field

from streamling.plugins import (
    END,
    End,
    Partitioning,
    Position,
    RoundRobin,
    Sink,
    SinkOptions,
    Source,
    SourceBatch,
    SourceOptions,
    Transform,
    TransformOptions,
    plugin,
)

#: the rows of partition p are numbered from p times this
_STRIDE = 1_000_000
_ROWS_PER_BATCH = 100


class PartitionedSourceOptions(SourceOptions):
    """Fields of `basic_plugin.partitioned_source`."""

    rows: int = Field(default=10, ge=0, le=_STRIDE, description="Rows per partition.")
    preferred_partitions: int = Field(default=2, ge=1, description="Number of partitions if `parallelism` is not set.")


@plugin("basic_plugin.partitioned_source")
class PartitionedSource(Source[PartitionedSourceOptions]):
    """Numbers, one series per partition; each instance reads one partition and has its own position."""

    Options = PartitionedSourceOptions
    bounded = True

    @classmethod
    def partitioning(cls, options: PartitionedSourceOptions) -> Partitioning:
        return Partitioning(preferred=options.preferred_partitions)

    def schema(self) -> pa.Schema:
        return pa.schema([("id", pa.int64()), ("source_partition", pa.int32())])

    def read(self, position: Position) -> SourceBatch | End:
        key, own = self.context.state_key, self.context.instance
        at = int(position.get(key, 0))
        count = min(_ROWS_PER_BATCH, self.options.rows - at)
        if count == 0:
            return END
        first = own * _STRIDE + at
        columns = [pa.array(range(first, first + count), pa.int64()), pa.array([own] * count, pa.int32())]
        return SourceBatch(pa.record_batch(columns, schema=self.schema()), {key: at + count})


@plugin("basic_plugin.partitioned_transform")
class PartitionedTransform(Transform[TransformOptions]):
    """Adds the instance that processed a row; batches are distributed round-robin."""

    Options = TransformOptions

    @classmethod
    def partitioning(cls, options: TransformOptions) -> Partitioning:
        return Partitioning(maximum=16, routing=RoundRobin())

    def output_schema(self) -> pa.Schema:
        return self.context.input_schema.append(pa.field("transform_partition", pa.int32()))

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        own = pa.repeat(pa.scalar(self.context.instance, pa.int32()), batch.num_rows)
        return pa.record_batch([*batch.columns, own], schema=self.output_schema())


class PartitionedFileSinkOptions(SinkOptions):
    """Fields of `basic_plugin.partitioned_file_sink`."""

    output_dir: Path = Field(description="Folder for one file per instance.")


@plugin("basic_plugin.partitioned_file_sink")
class PartitionedFileSink(Sink[PartitionedFileSinkOptions]):
    """One CSV file per instance, `{node}-{instance}.csv`; all rows of one key are in one file."""

    Options = PartitionedFileSinkOptions

    def open(self) -> None:
        self.options.output_dir.mkdir(parents=True, exist_ok=True)
        file = self.options.output_dir / f"{self.context.name}-{self.context.instance}.csv"
        # appends: after a crash, the rows since the last checkpoint are written again
        header = not file.exists() or file.stat().st_size == 0
        self._file = file.open("ab")
        options = csv.WriteOptions(include_header=header)
        self._writer = csv.CSVWriter(self._file, self.context.input_schema, write_options=options)

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._writer.close()
        self._file.close()
