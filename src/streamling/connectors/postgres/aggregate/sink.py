"""Postgres aggregate sink: a landing table, and a trigger that maintains an aggregate of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, field_validator

from streamling.connectors.postgres.aggregate.columns import resolve_columns
from streamling.connectors.postgres.aggregate.landing import (
    LandingRun,
    LandingTransaction,
    delete_statement,
    finalized_runs,
)
from streamling.connectors.postgres.aggregate.trigger import EPOCH_COLUMN, AggregateObjects
from streamling.connectors.postgres.connection import PostgresServer
from streamling.connectors.postgres.input_columns import PostgresColumns
from streamling.connectors.postgres.probe import postgres_connection
from streamling.connectors.postgres.table import TableColumn, TableName, check_names, prepare_table
from streamling.connectors.postgres.writer import Writer, batching
from streamling.connectors.write_plan import WritePlan, first_wins, in_rounds
from streamling.errors import BadRow, StreamlingError
from streamling.pipeline.document.scalars import BadValueError
from streamling.pipeline.options import BatchOptions, DeadLetterOptions, Options, ParallelOptions, SinkOptions
from streamling.plugins.connections import ConnectionCheck
from streamling.plugins.context import NodeContext
from streamling.plugins.sinks import Acknowledge, Sink
from streamling.types.row_kind import OP_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_OPERATION: Final = pa.field(OP_COLUMN, pa.string())
#: for rows that cannot be aggregated
_REMEDY: Final = "filter such rows out in a sql transform, or name a dead-letter sink with `errors: {to: …}`"


class GroupColumn(Options):
    """A column to group by."""

    from_: str | None = Field(
        default=None, alias="from", description="Input column; defaults to the one with the same name."
    )
    type: str | None = Field(default=None, description="Postgres type; defaults to that of the input column.")


class AggregateColumn(GroupColumn):
    """An aggregated column."""

    fn: Literal["sum", "count", "avg", "min", "max"] = Field(description="Aggregate function.")


class PostgresAggregateSinkOptions(ParallelOptions, BatchOptions, DeadLetterOptions, SinkOptions):
    """Maintains sums, counts, averages, minima and maxima inside Postgres."""

    reserved_labels: ClassVar[frozenset[str]] = frozenset({"table"})
    requires_primary_key: ClassVar[bool] = True

    schema_: str = Field(alias="schema", min_length=1, description="Schema of both tables.")
    landing_table: str = Field(min_length=1, description="Table that receives the rows.")
    agg_table: str = Field(min_length=1, description="Table with the aggregates.")
    group_by: dict[str, GroupColumn] = Field(
        default={}, description="Columns to group by; without any, there is a single row for everything."
    )
    aggregate: dict[str, AggregateColumn] = Field(description="Aggregated columns; at least one.")
    deduplicate: bool = Field(
        default=True,
        description="Write only the first row per key and operation of a batch, which is the one that counts.",
    )

    @property
    def rejecting_changes(self) -> Sequence[str]:
        return [f"aggregate.{name}.fn" for name, column in self.aggregate.items() if column.fn in ("min", "max")]

    @field_validator("group_by", mode="before")
    @classmethod
    def _columns_without_fields(cls, value: object) -> object:
        """Accept ``account:`` with nothing below it as a column with defaults."""
        if not isinstance(value, dict):
            return value
        return {name: {} if column is None else column for name, column in value.items()}

    @field_validator("aggregate")
    @classmethod
    def _at_least_one(cls, value: dict[str, AggregateColumn]) -> dict[str, AggregateColumn]:
        if not value:
            raise BadValueError("is empty", "name at least one aggregated column, such as total: {fn: count}")
        return value


class PostgresAggregateSink(Sink[PostgresAggregateSinkOptions]):
    """Writes each batch in one transaction: rows are copied into a staging table and upserted into the landing table,
    whose trigger adds the new ones to the aggregate. The `landing` module explains why no row is counted twice."""

    Options = PostgresAggregateSinkOptions
    own_thread: ClassVar[bool] = False

    def __init__(self, context: NodeContext[PostgresAggregateSinkOptions]) -> None:
        super().__init__(context)
        options = self.options
        self._landing = TableName(options.schema_, options.landing_table)
        self._aggregate = TableName(options.schema_, options.agg_table)
        self._key = [*context.primary_key, OP_COLUMN]
        self._input = PostgresColumns(context.input_schema)
        self._resolve()
        self._writer = Writer(context, self._landing)
        self._columns: dict[str, TableColumn] = {}
        self._run = LandingRun(context.name)
        self._warned_about_updates = False

    @classmethod
    def connections(
        cls, context: NodeContext[PostgresAggregateSinkOptions], spark: Callable[[], SparkSession]
    ) -> Sequence[ConnectionCheck]:
        return (postgres_connection(PostgresServer.of_sink(context.config, context.name)),)

    def labels(self) -> Mapping[str, str]:
        return {"table": self.options.agg_table}

    def batching(self) -> tuple[int | None, float | None]:
        return batching(self.context)

    def open(self) -> None:
        try:
            self._prepare()
            self._delete_finalized()
        except BaseException:
            self._writer.close()
            raise

    def write(self, batch: pa.RecordBatch) -> None:
        if self._input.update(batch.schema):
            self._resolve()
            self._prepare()
        operations = _operations(batch)
        good, rejected = self._split_rejected_rows(batch, operations)
        if rejected and self.context.rejected_rows is None:
            raise BadRow.user(rejected[0][1], remedy=_REMEDY)
        self._put(batch.filter(good), operations.filter(good))
        # last: if writing the others fails, the whole batch is retried in smaller parts
        for rows, reason in rejected:
            self.context.reject(rows, reason)

    def on_first_marker(self, epoch: int) -> None:
        self._run.begin_epoch_after(epoch)

    def marker(self, epoch: int, acknowledge: Acknowledge) -> None:
        self._run.begin_epoch_after(epoch)
        acknowledge(self._run.state_entries(epoch))

    def finalized(self, epoch: int) -> None:
        marks = self._run.finalized(epoch)
        if marks is None:
            return
        try:
            self._writer.attempt(partial(self._remove, marks))
            self._run.record_removed(epoch)
        except StreamlingError as error:  # harmless: the next epoch or the next start removes them
            self.context.log.debug("rows of table %s are kept for now: %s", self._landing, error)

    def close(self) -> None:
        self._writer.close()

    # ── tables ───────────────────────────────────────────────────────────────────────────────────────────────

    def _resolve(self) -> None:
        """Resolve the options against the input columns."""
        if EPOCH_COLUMN in self._input.names:
            raise StreamlingError.user(
                f"the input has a column '{EPOCH_COLUMN}', which is reserved for the landing table",
                remedy="drop or rename it in a sql transform",
            )
        if missing := [name for name in self.context.primary_key if name not in self._input.names]:
            raise StreamlingError.user(f"the input has no column '{missing[0]}', which is part of the primary key")
        self._aggregates = resolve_columns(self._input.fields, self.options.group_by, self.options.aggregate)
        check_names(self._landing, self._input.names)
        check_names(self._aggregate, self._aggregates.names)

    def _prepare(self) -> None:
        """Create missing database objects, and recreate the trigger."""
        fields = [*self._input.fields, _OPERATION]
        objects = AggregateObjects(self._landing, self._aggregate, self._aggregates)

        def prepare() -> dict[str, TableColumn]:
            with self._writer.session.exchange() as connection:
                columns = prepare_table(
                    connection, self._landing, fields, self._key, add_columns=None, log=self.context.log
                )
                objects.create(connection)
                return columns

        columns = self._writer.with_retry(prepare)
        self._columns = {field.name: columns[field.name] for field in fields}

    def _delete_finalized(self) -> None:
        """Delete rows of earlier runs whose positions are stored: they will not be replayed."""
        for key, marks in finalized_runs(self.context.name, self.context.state):
            self._writer.with_retry(partial(self._remove, marks))
            self.context.state.remove(key)

    def _remove(self, marks: tuple[int, int]) -> None:
        with self._writer.session.exchange() as connection:
            connection.execute(delete_statement(self._landing, marks))

    # ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _put(self, batch: pa.RecordBatch, operations: pa.Array) -> None:
        if not batch.num_rows:
            return
        plan = self._plan(batch, operations)
        rows = self._input.rows(batch, self._columns).append_column(_OPERATION, operations)
        rows = rows if plan.rows is None else rows.take(plan.rows)
        if plan.steps_of_rows is not None:
            rows = rows.append_column(EPOCH_COLUMN, plan.steps_of_rows)
        transaction = LandingTransaction(
            self._landing,
            list(self._columns.values()),
            self._key,
            self._writer.statement_timeout_ms,
            with_steps=plan.steps_of_rows is not None,
            epoch_tag=self._run.epoch_tag,
        )
        self._run.begin_write()
        self._writer.with_retry(lambda: self._writer.transact(transaction, rows, plan.steps), rows)
        self.context.count_delivered(rows.num_rows, deduplicated=batch.num_rows - rows.num_rows)

    def _plan(self, batch: pa.RecordBatch, operations: pa.Array) -> WritePlan:
        """Plan what to write. The first row of each key and operation counts, also across batches; later rows only
        change the landing table."""
        keys = self._input.keys(batch, self.context.primary_key, self._columns)
        keys = keys.append_column("operation", operations)
        return first_wins(keys, None) if self.options.deduplicate else in_rounds(keys, None)

    def _split_rejected_rows(
        self, batch: pa.RecordBatch, operations: pa.Array
    ) -> tuple[pa.Array, list[tuple[pa.RecordBatch, str]]]:
        """Return which rows can be aggregated, and the rejected rows with a reason each."""
        good, rejected = pa.repeat(True, batch.num_rows), []
        for mask, reason in self._find_rejected_rows(batch, operations):
            rejected.append((batch.filter(pc.and_(good, mask)), reason))
            good = pc.and_not(good, mask)
        return good, [(rows, reason) for rows, reason in rejected if rows.num_rows]

    def _find_rejected_rows(self, batch: pa.RecordBatch, operations: pa.Array) -> Iterator[tuple[pa.Array, str]]:
        """Yield masks of rows that cannot be aggregated, with the reason."""
        for name in self.context.primary_key:
            if batch.column(name).null_count:
                yield batch.column(name).is_null(), f"column '{name}' of the primary key is NULL"
        for group in self._aggregates.groups:
            if batch.column(group.source).null_count:
                reason = f"column '{group.source}', used by `group_by.{group.name}`, is NULL"
                yield batch.column(group.source).is_null(), reason
        changed = pc.not_equal(operations, "i")
        if not pc.any(changed).as_py():
            return
        if self._aggregates.extremes:
            extreme = self._aggregates.extremes[0]
            aggregate = f"`aggregate.{extreme.output_name}` ({extreme.fn})"
            yield changed, f"the row is an update or delete, and {aggregate} cannot subtract values"
        elif self._aggregates.sums and not self._warned_about_updates and pc.any(pc.equal(operations, "u")).as_py():
            self._warned_about_updates = True
            self.context.log.warning(
                "an update does not carry the old value: `aggregate.%s` adds the new value on top of it; deletes "
                "and inserts are exact",
                self._aggregates.sums[0].output_name,
            )


def _operations(batch: pa.RecordBatch) -> pa.Array:
    """Return ``i``, ``u`` or ``d`` for each row; anything that is neither update nor delete is an insert."""
    if OP_COLUMN not in batch.schema.names:
        return pa.repeat("i", batch.num_rows)
    kinds = batch.column(OP_COLUMN)
    return pc.if_else(pc.is_in(kinds, pa.array(["u", "d"], kinds.type)), kinds, "i")
