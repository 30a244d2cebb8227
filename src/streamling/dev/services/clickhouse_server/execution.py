"""Runs the statement of a request and writes its response."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from itertools import chain

from streamling.dev.services.clickhouse_server.engine import Connection, Engine, quote_identifier
from streamling.dev.services.clickhouse_server.errors import ClickHouseError
from streamling.dev.services.clickhouse_server.faults import Fault
from streamling.dev.services.clickhouse_server.request import Request
from streamling.dev.services.clickhouse_server.response import Dropped, Response
from streamling.dev.services.clickhouse_server.statement import Insert, Statement, contains
from streamling.dev.services.clickhouse_server.stream import Stream


@dataclass(frozen=True)
class Execution:
    """One statement on its way from the request to the response, with the fault that applies to it."""

    engine: Engine
    request: Request
    statement: Statement
    connection: Connection
    response: Response
    fault: Fault | None

    def run(self) -> None:
        """Run the statement and send its output. Raises the engine's errors, also if the response has begun."""
        self._fail_before()
        _check(self.statement, self.request)
        has_output = self.connection.has_output(self.statement.head, read_only=self.request.is_get)
        with _external_tables(self.request, self.connection):
            if has_output:
                self._stream()
            elif self.statement.insert and not self._has_placeholders(self.statement.insert):
                self._insert(self.statement.insert)
            else:
                self._command()

    def _has_placeholders(self, insert: Insert) -> bool:
        """Return whether the rows are written in SQL with query parameters, which a streaming insert does not
        replace."""
        return insert.format == "Values" and bool(self.request.query_parameters)

    def _insert(self, insert: Insert) -> None:
        self.connection.set({f"param_{name}": value for name, value in self.request.query_parameters.items()})
        self.response.statistics = self.connection.insert(insert, self.statement.data)
        self._send(b"")

    def _command(self) -> None:
        text = b"".join([self.statement.text, *self.statement.body])
        output, self.response.statistics = self.connection.query(
            text, self.request.format, self.request.query_parameters
        )
        self.response.format = self.request.format if output else ""
        self._send(output)

    def _send(self, output: bytes) -> None:
        self._fail_after(iter([output]))
        self.response.send(HTTPStatus.OK, output)

    def _stream(self) -> None:
        stream = Stream(
            self.engine, self.connection, self.statement.text, self.request.format, self.request.query_parameters
        )
        try:
            chunks = chain(stream.beginning(whole=self.request.flag("wait_end_of_query")), stream.chunks())
            self.response.statistics, self.response.format = stream.statistics, stream.format
            self._fail_after(chunks)
            self.response.start()
            for chunk in chunks:
                self.response.write(chunk)
            self.response.finish()
        finally:
            stream.close()

    def _fail_before(self) -> None:
        if self.fault is None:
            return
        time.sleep(self.fault.seconds)
        if self.fault.action == "error":
            raise self.fault.error
        if self.fault.action == "close_before":
            raise Dropped

    def _fail_after(self, chunks: Iterator[bytes]) -> None:
        """Send the part of the output that a fault allows, and close the connection."""
        if self.fault is None or self.fault.action == "delay":
            return
        output = b"".join(chunks)  # the statement is run to its end
        if self.fault.action != "close_after":
            self.response.start()
            self.response.write(output[: self.fault.bytes])
        if self.fault.action == "exception":
            self.response.fail(self.fault.error, tagged=self.fault.tagged)
        raise Dropped


def _check(statement: Statement, request: Request) -> None:
    """Reject what a server rejects but this engine does not, and what this server cannot do."""
    if not statement.text.strip():
        raise ClickHouseError.of(62, "SYNTAX_ERROR", "Syntax error: failed at position 1 (end of query): Empty query.")
    if statement.insert is None and contains(statement.text, b"INTO", b"OUTFILE"):
        raise ClickHouseError.of(358, "INTO_OUTFILE_NOT_ALLOWED", "INTO OUTFILE is not allowed.")
    if statement.insert is None and contains(statement.text, b"FROM", b"INPUT"):
        raise ClickHouseError.of(48, "NOT_IMPLEMENTED", "This server does not support the function input.")
    if request.flag("compress") or request.flag("decompress"):
        raise ClickHouseError.of(48, "NOT_IMPLEMENTED", "This server does not support the native compression.")


@contextmanager
def _external_tables(request: Request, connection: Connection) -> Iterator[None]:
    """Provide temporary tables with the files of the request, while its statement runs."""
    made: list[str] = []
    try:
        for name, content in request.files.items():
            table = quote_identifier(name)
            connection.query(f"CREATE TEMPORARY TABLE {table} ({_structure(request, name)})")
            made.append(table)
            format = request.parameters.get(f"{name}_format", "TabSeparated")
            connection.insert(Insert(f"INSERT INTO {table}".encode(), format, 0), [content] if content else [])
        yield
    finally:
        for table in made:
            connection.query(f"DROP TEMPORARY TABLE {table}")


def _structure(request: Request, name: str) -> str:
    types = request.parameters.get(f"{name}_types")
    if types is not None:
        return ", ".join(f"_{number} {type}" for number, type in enumerate(types.split(","), 1))
    return request.parameters.get(f"{name}_structure", "")
