"""Writes batches to Postgres: one transaction per batch, retried until it succeeds. Shared by all Postgres sinks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pyarrow as pa

from streamling.connectors.postgres.config import PostgresConfig
from streamling.connectors.postgres.connection import PostgresServer
from streamling.connectors.postgres.copy_text import csv_chunks
from streamling.connectors.postgres.errors import ErrorTranslator
from streamling.connectors.postgres.session import Session
from streamling.connectors.postgres.statements import Steps, Transaction
from streamling.connectors.postgres.table import TableName
from streamling.plugins.context import NodeContext

ResultT = TypeVar("ResultT")


class Writer:
    """The connection of one sink instance. It connects on the first call."""

    def __init__(self, context: NodeContext[Any], table: TableName) -> None:
        settings = context.config.part(PostgresConfig).postgres_connection(context.name)
        server = PostgresServer.of_sink(context.config, context.name)
        self.statement_timeout_ms = int(settings.statement_timeout_secs * 1000)
        self._context = context
        #: runs the statements, on a connection that is replaced when it breaks
        self.session = Session(
            server,
            application_name=f"streamling {context.name}",
            connect_timeout=settings.pool_acquire_timeout_secs,
            time_limit=2 * settings.statement_timeout_secs,
            idle_timeout=settings.pool_idle_timeout_secs,
            lifetime=settings.pool_max_lifetime_secs,
            shared=context.shared,
        )
        self._error_translator = ErrorTranslator(table, server)

    def transact(self, transaction: Transaction, rows: pa.Table, steps: Steps = ()) -> None:
        """Write ``rows``, already converted to printable columns, in one transaction."""
        with self.session.exchange() as connection:
            connection.execute(transaction.begin)
        with (
            self.session.exchange() as connection,
            connection.cursor() as cursor,
            cursor.copy(transaction.copy) as copy,
        ):
            for piece in csv_chunks(rows):
                copy.write(piece)
        if statements := transaction.apply(steps):
            with self.session.exchange() as connection:
                connection.execute(statements)
        with self.session.exchange() as connection:
            connection.execute(b"COMMIT")

    def attempt(self, work: Callable[[], ResultT], rows: pa.Table | None = None) -> ResultT:
        """Call ``work``. If it fails, discard the connection and translate the error."""
        try:
            self.session.renew()
            return work()
        except Exception as error:
            self.session.discard()
            raise self._error_translator.translate(error, rows, connected=self.session.has_connected) from None

    def with_retry(self, work: Callable[[], ResultT], rows: pa.Table | None = None) -> ResultT:
        """Call ``work`` until it succeeds: transient errors are retried on a new connection."""
        return self._context.retry(lambda: self.attempt(work, rows))

    def close(self) -> None:
        self.session.close()


def batching(context: NodeContext[Any]) -> tuple[int | None, float | None]:
    """Return the batch settings of the node, or else those that the user configured. The built-in defaults do not
    count: they suit multi-row INSERTs, and small batches only cost time with COPY."""
    rows, interval = context.options.rows_per_batch, context.options.flush_interval
    settings = context.config.part(PostgresConfig).postgres_sink
    if rows is None and "batch_size" in settings.model_fields_set:
        rows = settings.batch_size
    if interval is None and "batch_flush_interval" in settings.model_fields_set:
        interval = settings.batch_flush_interval
    return rows, interval
