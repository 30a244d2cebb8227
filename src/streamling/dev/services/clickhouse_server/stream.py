"""The output of a statement, sent while the engine produces it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Final

from streamling.dev.services.clickhouse_server.engine import Connection, Engine, Statistics
from streamling.dev.services.clickhouse_server.errors import ClickHouseError
from streamling.dev.services.clickhouse_server.statement import split_format

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
        """Cancel the statement if it still runs: the engine does not notice that its reader has gone."""
        os.close(self._output)
        while self._worker.is_alive():
            self._engine.cancel(["/dev/fd", f"/{self._input}'"])
            self._worker.join(0.1)
