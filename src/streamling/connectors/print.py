"""Print sink: one JSON object per row on standard output."""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import BinaryIO, ClassVar

import pyarrow as pa
from pydantic import Field

from streamling.connectors.config import PrintConfig
from streamling.observe.terminal.status_line import hide_status_line
from streamling.observe.terminal.streams import data_output
from streamling.pipeline.options import BatchOptions, ParallelOptions, SinkOptions
from streamling.plugins.context import NodeContext
from streamling.plugins.sinks import Sink
from streamling.types.row_kind import OP_COLUMN

#: row kind in front of the row, on a terminal only: a pipe into jq must see nothing but JSON
_KINDS = {"i": b"\x1b[32m+I\x1b[0m ", "u": b"\x1b[33m+U\x1b[0m ", "d": b"\x1b[31m-D\x1b[0m "}


class PrintSinkOptions(ParallelOptions, BatchOptions, SinkOptions):
    """Prints rows as JSON lines to standard output."""

    sample_every: int | None = Field(
        default=None, ge=1, description="Print only every nth row; defaults to config `print_sink.sample_every`."
    )
    num_records_before_stop: int | None = Field(
        default=None, ge=1, description="Stop the pipeline after this many rows."
    )


class PrintSink(Sink[PrintSinkOptions]):
    """Writes to the standard output of the driver; a closed pipe (``| head``) ends the pipeline quietly."""

    Options = PrintSinkOptions
    own_thread: ClassVar[bool] = False
    writes_to_stdout = True

    def __init__(self, context: NodeContext[PrintSinkOptions], output: BinaryIO | None = None) -> None:
        super().__init__(context)
        defaults = context.config.part(PrintConfig).print_sink
        self._every = self.options.sample_every or defaults.sample_every
        self.row_limit = self.options.num_records_before_stop or defaults.num_records_before_stop
        self._output = output or data_output()
        on_terminal = self._output.isatty()
        self._kinds = _KINDS if on_terminal and "NO_COLOR" not in os.environ else {}
        self._beside_status = hide_status_line if on_terminal else nullcontext
        self._seen = 0
        self._is_closed = False

    def open(self) -> None:
        # imports pyarrow.compute, which takes 30 ms: an invalid pipeline should fail without that delay, and a valid
        # one waits for Spark at this point anyway
        from streamling.types.json import json_rows

        self._json_rows = json_rows

    def write(self, batch: pa.RecordBatch) -> None:
        lines = [
            self._prefix(batch, row) + text.encode() + b"\n"
            for row, text in enumerate(self._json_rows(batch))
            if (self._seen + row) % self._every == 0
        ]
        self._seen += batch.num_rows
        printed = len(lines) if self._emit(b"".join(lines)) else 0
        self.context.count_delivered(printed, skipped=batch.num_rows - printed)

    def _prefix(self, batch: pa.RecordBatch, row: int) -> bytes:
        if not self._kinds or OP_COLUMN not in batch.schema.names:
            return b""
        return self._kinds.get(batch.column(OP_COLUMN)[row].as_py(), b"")

    def _emit(self, text: bytes) -> bool:
        """Print ``text``, unless the reader has closed the pipe."""
        if self._is_closed:
            return False
        try:
            with self._beside_status():
                self._output.write(text)
                self._output.flush()
            return True
        except BrokenPipeError:
            self._is_closed = True
            self.context.request_stop("the reader of standard output has closed the pipe", True)
            # the rest of the buffer and all later writes must not fail again
            devnull = os.open(os.devnull, os.O_WRONLY)
            os.dup2(devnull, self._output.fileno())
            os.close(devnull)
            return False
