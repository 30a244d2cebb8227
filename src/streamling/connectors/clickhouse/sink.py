"""ClickHouse sink: inserts rows into a table."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import pyarrow as pa
from pydantic import AliasChoices, ConfigDict, Field, field_validator, model_validator

from streamling.connectors.clickhouse.column_overrides import check_overrides
from streamling.connectors.clickhouse.compression import level_problem
from streamling.connectors.clickhouse.config import ClickHouseConfig
from streamling.connectors.clickhouse.insert_log import MARKER_SECONDS, InsertLog, PendingMarker, RowsAhead
from streamling.connectors.clickhouse.probe import clickhouse_connection
from streamling.connectors.clickhouse.server import ClickHouseServer
from streamling.connectors.clickhouse.table_writer import SECTION, TableWriter
from streamling.connectors.input_columns import InputColumns
from streamling.errors import StreamlingError
from streamling.pipeline.document.scalars import BadValueError, PrimaryKey
from streamling.pipeline.options import BatchOptions, DeadLetterOptions, ParallelOptions, SinkOptions
from streamling.plugins.connections import ConnectionCheck
from streamling.plugins.context import NodeContext, NodeState
from streamling.plugins.sinks import Acknowledge, Sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _both_spellings(schema: dict[str, Any]) -> None:
    schema["properties"]["schema_overrides"] = {**schema["properties"]["schema_override"], "deprecated": True}


class ClickHouseSinkOptions(ParallelOptions, BatchOptions, DeadLetterOptions, SinkOptions):
    """Writes rows to a ClickHouse table, which is created if it does not exist; by default 100 000 rows per insert, or
    what has arrived within a second."""

    model_config = ConfigDict(json_schema_extra=_both_spellings)

    reserved_labels: ClassVar[frozenset[str]] = frozenset({"table"})
    has_fixed_columns: ClassVar[bool] = True
    upserts: ClassVar[bool] = True

    table: str = Field(min_length=1, description="Table to write to, as `table` or `database.table`.")
    primary_key: PrimaryKey = Field(description="Key columns, comma-separated.")
    version_column_name: str | None = Field(
        default=None, description="Column that decides which of two rows with the same key is newer."
    )
    append_only_mode: bool = Field(
        default=True, description="Write deletes as rows of a ReplacingMergeTree instead of deleting."
    )
    deduplicate: bool = Field(default=True, description="Write only the last row per key of a batch.")
    schema_override: dict[str, str] = Field(
        default={},
        alias="schema_override",
        validation_alias=AliasChoices("schema_override", "schema_overrides"),
        description="ClickHouse types of new columns for which the default does not fit, also with a CODEC.",
    )
    compression: Literal["none", "gzip", "zstd", "lz4"] | None = Field(
        default=None, description="Compression of requests; defaults to config `clickhouse_sink.compression`."
    )
    compression_level: int | None = Field(
        default=None,
        description="0 to 9 for gzip, 1 to 22 for zstd, 1 to 12 for lz4; defaults to config "
        "`clickhouse_sink.compression_level`.",
    )

    @field_validator("schema_override")
    @classmethod
    def _valid_types(cls, overrides: dict[str, str]) -> dict[str, str]:
        check_overrides(overrides)
        return overrides

    @model_validator(mode="after")
    def _level_in_range(self) -> Self:
        problem = level_problem(self.compression or "", self.compression_level)
        if problem is not None:
            raise BadValueError(problem, field="compression_level")
        return self

    def ineffective(self) -> Mapping[str, str]:
        reasons = dict(super().ineffective())
        if self.version_column_name is not None and not self.append_only_mode:
            reasons["version_column_name"] = "versions are compared in append-only mode only"
        return reasons


class ClickHouseSink(Sink[ClickHouseSinkOptions]):
    """Inserts each batch as one block. In append-only mode a delete is a row of it; otherwise rows are deleted by
    key."""

    Options = ClickHouseSinkOptions
    own_thread: ClassVar[bool] = False
    distributable = True
    #: seconds for which a marker waits for the rest of a block of a replay
    marker_seconds: ClassVar[float] = MARKER_SECONDS

    def __init__(self, context: NodeContext[ClickHouseSinkOptions]) -> None:
        super().__init__(context)
        self._input = InputColumns(context.input_schema)
        #: encodes and inserts blocks
        self.writer = TableWriter(context)
        self.writer.check(self._input.fields)
        self._log = InsertLog(_log_state(context), context.name, context.instance, context.instances)
        #: columns of the batches that arrive
        self._schema: pa.Schema | None = None
        self._pending = PendingMarker(self.marker_seconds)
        #: a pending marker is given up by a thread of its own, which may fail
        self._lock = threading.RLock()
        self._failure: StreamlingError | None = None

    @classmethod
    def connections(
        cls, context: NodeContext[ClickHouseSinkOptions], spark: Callable[[], SparkSession]
    ) -> Sequence[ConnectionCheck]:
        config = context.config.part(ClickHouseConfig).clickhouse_sink
        return (clickhouse_connection(ClickHouseServer.of(config, SECTION, context.network)),)

    def labels(self) -> Mapping[str, str]:
        return {"table": self.options.table}

    def batching(self) -> tuple[int | None, float | None]:
        settings = self.context.config.part(ClickHouseConfig).clickhouse_sink
        rows, interval = self.options.batch_size, self.options.batch_flush_interval
        if rows == 0:  # batches as they arrive
            return None, interval
        return (
            settings.batch_size if rows is None else rows,
            settings.batch_flush_interval if interval is None else interval,
        )

    def open(self) -> None:
        try:
            table = self.writer.prepare(self._input.fields)
            self._log.open(table.identity, is_empty=table.is_empty)
        except BaseException:
            self.writer.close()
            raise

    def write(self, batch: pa.RecordBatch) -> None:
        with self._lock:
            self._raise_failure()
            if self._schema is None or not batch.schema.equals(self._schema):
                self._take_up_columns(batch.schema)
            for part in self._log.cut(batch):
                self._write(part)
                if self._pending.is_set:
                    self.writer.wait()
                    self._pending.release(part)

    def flush(self) -> None:
        with self._lock:
            for part in self._log.drain():
                self._write(part)
            self.writer.wait()
            self._pending.release()

    def marker(self, epoch: int, acknowledge: Acknowledge) -> None:
        with self._lock:
            self._raise_failure()
            self._pending.set(lambda after: self._acknowledge(epoch, acknowledge, after), self._log.waiting_rows)
            if self._log.waiting_rows and not self.context.stopping.is_set():
                self._pending.give_up_later(self._give_up)
            else:
                self.flush()

    def finalized(self, epoch: int) -> None:
        with self._lock:
            self._log.finalized(epoch)

    def close(self) -> None:
        with self._lock:
            self._pending.cancel()
            self.writer.close()

    # ── helpers ─────────────────────────────────────────────────────────────────────────────────────────────

    def _take_up_columns(self, schema: pa.Schema) -> None:
        self.flush()
        self._schema = schema
        if self._input.update(schema):
            self.writer.check(self._input.fields)
            self.writer.prepare(self._input.fields)

    def _write(self, batch: pa.RecordBatch) -> None:
        block = self.writer.encode(batch)
        token = self._log.begin(batch.num_rows, block.content)
        if token is None:
            self.context.count_delivered(0, skipped=batch.num_rows)
            return
        self.writer.wait()  # a block in the log says that the one before has arrived
        self.context.retry(self._log.store)
        self.writer.start(block, token, batch.num_rows)
        if self.context.rejected_rows is not None:  # the engine has to know which rows the server rejects
            self.writer.wait()

    def _acknowledge(self, epoch: int, acknowledge: Acknowledge, after: pa.RecordBatch | None) -> None:
        """Acknowledge a marker; the rows ``after`` it have become durable too."""
        ahead = None
        if after is not None and after.num_rows:
            ahead = RowsAhead(after.num_rows, self.writer.encode(after).content)
        acknowledge(self._log.marker(epoch, ahead))

    def _give_up(self) -> None:
        """Insert the first rows of a block again whose rest has not arrived, so that the marker can go on."""
        with self._lock:
            if not self._pending.is_set:
                return
            self.context.log.warning(
                "the source does not deliver the same rows as before the restart; %d rows may be inserted twice",
                self._log.waiting_rows,
            )
            try:
                self.flush()
            except StreamlingError as error:
                self._failure = error
                self.context.report_retry(error)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


def _log_state(context: NodeContext[ClickHouseSinkOptions]) -> NodeState | None:
    """Return the state for the log of inserts. There is none on executors and where several instances of the pipeline
    share a state. With a dead-letter sink, rows must not wait for others: the engine looks for bad ones among those it
    has just passed."""
    return context.state if context.state.is_exclusive and context.rejected_rows is None else None
