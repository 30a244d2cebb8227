"""Postgres sink: rows are upserted into a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Literal, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from streamling.errors import StreamlingError
from streamling.pipeline.options import Parallel, Rebatched, Rejecting, SinkOptions
from streamling.plugins.context import NodeContext
from streamling.plugins.operators import Sink
from streamling.postgres.connection import Server
from streamling.postgres.errors import is_transient
from streamling.postgres.session import Session
from streamling.retry import retried
from streamling.sinks._postgres_changes import Plan, first_wins, in_rounds, last_wins
from streamling.sinks._postgres_failures import Failures
from streamling.sinks._postgres_inserts import Hope, Inserting, said_to_be_new
from streamling.sinks._postgres_statements import STEP, Appending, Staged, Steps, Transaction
from streamling.sinks._postgres_table import Column, TableName, check_names, prepare_table
from streamling.sinks._postgres_text import csv_pieces, printable
from streamling.types.row_kind import OP_COLUMN

Comparison = Literal["=", ">", ">=", "<", "<=", "!=", "<>"]
ResultT = TypeVar("ResultT")


class PostgresSinkOptions(Parallel, Rebatched, Rejecting, SinkOptions):
    """Rows in a Postgres table, created when it does not exist."""

    reserved_labels: ClassVar[frozenset[str]] = frozenset({"table"})

    table: str = Field(min_length=1, description="Table to write to.")
    schema_: str = Field(alias="schema", min_length=1, description="Schema of the table.")
    on_conflict: Literal["update", "nothing"] = Field(
        default="update", description="What happens to a row whose key exists."
    )
    update_where: dict[str, Comparison] = Field(
        default={},
        description="Update only where the new value of the column compares so with the stored one.",
    )
    deduplicate: bool = Field(default=True, description="Write only the last row per key of a batch.")
    evolve: Literal["none", "add_columns"] = Field(
        default="none", description="What happens when the table lacks a column: an error, or it is added."
    )


class PostgresSink(Sink[PostgresSinkOptions]):
    """Each batch is one transaction: rows are copied into a staging table, then upserted and deleted from there.
    Batches of nothing but inserts are copied into the table itself, as long as their keys are new."""

    Options = PostgresSinkOptions
    distributable = True

    def __init__(self, context: NodeContext[PostgresSinkOptions]) -> None:
        super().__init__(context)
        options, settings = self.options, context.config.postgres_connection(context.name)
        self._name = TableName(options.schema_, options.table)
        self._fields = [field for field in context.input_schema if field.name != OP_COLUMN]
        self._key = context.primary_key
        self._check_fields()
        server = Server(
            settings.host,
            settings.port,
            settings.db,
            settings.user,
            settings.pass_,
            settings.sslmode,
            settings.sslrootcert,
        )
        self._statement_timeout = settings.statement_timeout_secs
        self._session = Session(
            server,
            application_name=f"streamling {context.name}",
            connect_timeout=settings.pool_acquire_timeout_secs,
            time_limit=2 * settings.statement_timeout_secs,
            idle_timeout=settings.pool_idle_timeout_secs,
            lifetime=settings.pool_max_lifetime_secs,
        )
        self._failures = Failures(self._name, server)
        self._columns: dict[str, Column] = {}
        #: of the last batch
        self._arriving: pa.Schema | None = None
        self._skipped_deletes = 0
        self._hope = Hope()

    def labels(self) -> Mapping[str, str]:
        return {"table": self.options.table}

    def batching(self) -> tuple[int | None, float | None]:
        """What the node says, else what the user's configuration says. Its built-in defaults do not count: they suit
        multi-row INSERTs, and small batches only cost when rows are copied."""
        rows, interval = super().batching()
        settings = self.context.config.postgres_sink
        if rows is None and "batch_size" in settings.model_fields_set:
            rows = settings.batch_size
        if interval is None and "batch_flush_interval" in settings.model_fields_set:
            interval = settings.batch_flush_interval
        return rows, interval

    def open(self) -> None:
        try:
            self._take_aim()
        except BaseException:
            self._session.close()
            raise

    def write(self, batch: pa.RecordBatch) -> None:
        if self._arriving is None or not batch.schema.equals(self._arriving):
            self._follow(batch.schema)
        deleted = _deleted(batch)
        if self._key:
            if deleted is not None or not self._inserted(batch):
                self._merge(batch, deleted)
        else:
            self._append(batch if deleted is None else self._without_deletes(batch, deleted))

    def close(self) -> None:
        self._session.close()

    # ── the columns ──────────────────────────────────────────────────────────────────────────────────────────

    def _take_aim(self) -> None:
        """Make the table fit the columns, and the statements fit the table."""
        columns = self._durably(self._prepare)
        self._columns = {field.name: columns[field.name] for field in self._fields}
        timeout_ms = int(self._statement_timeout * 1000)
        self._appending = Appending(self._name, list(self._columns.values()), timeout_ms)
        self._inserting = Inserting(self._name, list(self._columns.values()), timeout_ms, self._key)
        self._staged = {
            with_steps: Staged(
                self._name,
                list(self._columns.values()),
                self._key,
                keep_existing=self.options.on_conflict == "nothing",
                update_where=self.options.update_where,
                statement_timeout_ms=timeout_ms,
                with_steps=with_steps,
            )
            for with_steps in (False, True)
        }

    def _follow(self, schema: pa.Schema) -> None:
        """Columns may come, go and change while a source runs. What was declared counts as long as nothing changed:
        some types, such as times, come out of Spark as others."""
        declared = {field.name: field for field in self._fields}
        before = {} if self._arriving is None else {field.name: field.type for field in self._arriving}
        fields = [
            field if before.get(field.name, field.type) != field.type else declared.get(field.name, field)
            for field in schema
            if field.name != OP_COLUMN
        ]
        self._arriving = schema
        if fields != self._fields:
            self._fields = fields
            self._check_fields()
            self._take_aim()

    # ── one transaction ──────────────────────────────────────────────────────────────────────────────────────

    def _append(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            rows = self._printable(batch)
            self._durably(lambda: self._transact(self._appending, rows), rows)

    def _inserted(self, batch: pa.RecordBatch) -> bool:
        """Whether the rows are in the table; they are not when one of them was there already."""
        if not said_to_be_new(batch, self._key, OP_COLUMN) or not self._hope.tries():
            return False
        rows = self._printable(batch)
        if self._durably(lambda: self._insert(rows), rows):
            self._hope.fulfilled()
            return True
        self._hope.disappointed()
        return False

    def _insert(self, rows: pa.Table) -> bool:
        import psycopg

        try:
            self._transact(self._inserting, rows)
            return True
        except psycopg.Error as error:
            if is_transient(error):
                raise
            # a key that exists, or what only an upsert may do or can explain
            with self._session.answering() as connection:
                connection.execute("ROLLBACK")
            return False

    def _merge(self, batch: pa.RecordBatch, deleted: pa.Array | None) -> None:
        plan = self._plan(batch, deleted)
        rows = self._printable(batch if plan.rows is None else batch.take(plan.rows))
        if plan.steps_of_rows is not None:
            rows = rows.append_column(STEP, plan.steps_of_rows)
        transaction = self._staged[plan.steps_of_rows is not None]
        self._durably(lambda: self._transact(transaction, rows, plan.steps), rows)

    def _transact(self, transaction: Transaction, rows: pa.Table, steps: Steps = ()) -> None:
        with self._session.answering() as connection:
            connection.execute(transaction.begin)
        with (
            self._session.answering() as connection,
            connection.cursor() as cursor,
            cursor.copy(transaction.copy) as copy,
        ):
            for piece in csv_pieces(rows):
                copy.write(piece)
        with self._session.answering() as connection:
            connection.execute(transaction.end(steps))

    def _prepare(self) -> dict[str, Column]:
        with self._session.answering() as connection:
            return prepare_table(
                connection,
                self._name,
                self._fields,
                self._key,
                add_columns=self.options.evolve == "add_columns",
                log=self.context.log,
            )

    def _durably(self, work: Callable[[], ResultT], rows: pa.Table | None = None) -> ResultT:
        """``work`` until it succeeds: what passes by itself is tried again on a new connection."""

        def attempt() -> ResultT:
            try:
                self._session.renew()
                return work()
            except Exception as error:
                self._session.discard()
                raise self._failures.explained(error, rows) from None

        return retried(attempt, stopping=self.context.stopping, log=self.context.log)

    # ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _plan(self, batch: pa.RecordBatch, deleted: pa.Array | None) -> Plan:
        fields = {field.name: field for field in self._fields}
        keys = pa.table({f"k{n}": _comparable(self._column(batch, fields[name])) for n, name in enumerate(self._key)})
        compares = bool(self.options.update_where) and self.options.on_conflict == "update"
        if compares or not self.options.deduplicate:
            return in_rounds(keys, deleted)
        return first_wins(keys, deleted) if self.options.on_conflict == "nothing" else last_wins(keys, deleted)

    def _printable(self, batch: pa.RecordBatch) -> pa.Table:
        return pa.table({field.name: self._column(batch, field) for field in self._fields})

    def _column(self, batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
        return printable(batch.column(field.name), field, self._columns[field.name].internal)

    def _without_deletes(self, batch: pa.RecordBatch, deleted: pa.Array) -> pa.RecordBatch:
        if not self._skipped_deletes:
            self.context.log.warning("deletes are skipped: without a primary key nobody knows what they are about")
        kept = batch.filter(pc.invert(deleted))
        self._skipped_deletes += batch.num_rows - kept.num_rows
        return kept

    def _check_fields(self) -> None:
        check_names(self._name, self._fields)
        names = [field.name for field in self._fields]
        asked = {**dict.fromkeys(self._key, "primary_key"), **dict.fromkeys(self.options.update_where, "update_where")}
        for column, option in asked.items():
            if column not in names:
                raise StreamlingError.user(
                    f"postgres sink '{self.context.name}': `{option}` names the column '{column}', which is not"
                    f" among ({', '.join(names)})"
                )


def _comparable(key: pa.Array) -> pa.Array:
    """A key column in which Arrow sees the same values as equal that Postgres does: −0 is 0, and NaN is itself."""
    return pc.cast(pc.add(key, 0), pa.string()) if pa.types.is_floating(key.type) else key


def _deleted(batch: pa.RecordBatch) -> pa.Array | None:
    """Which rows are deletes; None when none is. Whatever is no delete is an insert."""
    if OP_COLUMN not in batch.schema.names:
        return None
    deleted = pc.equal(batch.column(OP_COLUMN), "d").fill_null(False)
    return deleted if pc.any(deleted).as_py() else None
