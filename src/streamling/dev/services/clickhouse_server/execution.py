"""Runs the statement of a request and writes its response."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from itertools import chain
from typing import Final

from streamling.dev.services.clickhouse_server.engine import Connection, Engine, Statistics, quote_identifier
from streamling.dev.services.clickhouse_server.errors import ClickHouseError
from streamling.dev.services.clickhouse_server.faults import Fault
from streamling.dev.services.clickhouse_server.request import Request
from streamling.dev.services.clickhouse_server.response import Dropped, Response
from streamling.dev.services.clickhouse_server.statement import Insert, Statement, contains, split_format


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


# ── output, sent while the engine produces it ────────────────────────────────────────────────────────────────────

_PIPE_BYTES: Final = 1 << 20
_SET_PIPE_SIZE: Final = getattr(fcntl, "F_SETPIPE_SZ", None)  # Linux only
#: output that is held back, so that an early error gets a status of its own
_HELD_BYTES: Final = 1 << 20
_HELD_SECONDS: Final = 0.2


class Stream:
    """A running statement with output.

    The engine writes the output into a pipe with INTO OUTFILE, and waits while the pipe is full. Its own streaming
    interface makes a complete document of each block, which cannot be joined for formats such as JSON and Arrow.
    """

    def __init__(
        self,
        engine: Engine,
        connection: Connection,
        statement: bytes,
        format: str,
        parameters: Mapping[str, str],
    ) -> None:
        before, own_format, after = split_format(statement)
        self._engine = engine
        self.format = own_format or format
        self.statistics = Statistics()
        self._connection = connection
        self._parameters = parameters
        self._error: ClickHouseError | None = None
        self._output, self._input = os.pipe()
        if _SET_PIPE_SIZE is not None:
            with contextlib.suppress(OSError):  # the user's limit is reached
                fcntl.fcntl(self._output, _SET_PIPE_SIZE, _PIPE_BYTES)
        target = f"\nINTO OUTFILE '/dev/fd/{self._input}' TRUNCATE FORMAT {self.format} "
        self._worker = threading.Thread(target=self._run, args=[before + target.encode() + after], daemon=True)
        self._worker.start()

    def _run(self, statement: bytes) -> None:
        try:
            _, self.statistics = self._connection.query(statement, self.format, self._parameters, self._report)
        except Exception as error:  # whatever it is, an incomplete output must not look complete
            self._error = error if isinstance(error, ClickHouseError) else ClickHouseError.from_engine(error)
        finally:
            os.close(self._input)

    def _report(self, statistics: Statistics) -> None:
        self.statistics = statistics

    def chunks(self) -> Iterator[bytes]:
        """Yield the output in pieces of at most 1 MiB; raises the engine's error after the last one."""
        while chunk := os.read(self._output, _PIPE_BYTES):
            yield chunk
        self._worker.join()
        if self._error is not None:
            raise self._error

    def beginning(self, *, whole: bool) -> list[bytes]:
        """Return the output that decides about the status: what the engine produces at once, or all. Raises its
        error."""
        deadline = time.monotonic() + _HELD_SECONDS
        size = 0
        held: list[bytes] = []
        chunks = self.chunks()
        while whole or not held or (size < _HELD_BYTES and self._has_more(deadline - time.monotonic())):
            if not (chunk := next(chunks, b"")):
                break
            held.append(chunk)
            size += len(chunk)
        return held

    def _has_more(self, seconds: float) -> bool:
        waiting = select.poll()
        waiting.register(self._output, select.POLLIN)
        return seconds > 0 and bool(waiting.poll(seconds * 1000))

    def close(self) -> None:
        """Cancel the statement if it still runs: the engine ignores that nobody reads what it writes."""
        os.close(self._output)
        while self._worker.is_alive():
            self._engine.cancel(["/dev/fd", f"/{self._input}'"])
            self._worker.join(0.1)
