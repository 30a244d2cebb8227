"""Runs Arrow batches through a script: split into calls, limited in time and memory, with errors in the user's terms.

Every batch starts with the sandbox as it was after the script had been loaded, so that nothing a batch leaves behind
affects the next one. QuickJS restores the memory of its sandbox; a new one would cost 4 ms per batch.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from streamling.errors import StreamlingError
from streamling.transforms.script.codecs import Codec, codec_for, nulls_of
from streamling.transforms.script.console import Console
from streamling.transforms.script.encoded_columns import PARTS, ROWS, EncodedOutput, InvalidValue
from streamling.transforms.script.engine import Cause, Limits, Sandbox, ScriptEngine, ScriptFailed, Value
from streamling.transforms.script.errors import (
    caught_failure,
    invalid_value_error,
    script_error,
    unreadable_input_error,
    with_error_line,
)
from streamling.transforms.script.program import CURRENT_ROW, RESEED, RESEND_AS_JSON, Program, ScriptColumn
from streamling.types.json import json_rows

#: Maximum rows and bytes of one call. Its data must fit into the sandbox several times: as bytes, as values, and as the
#: resulting rows.
_MAX_ROWS = 5_000
_MAX_BYTES = 2 << 20
#: maximum length of the row shown with an error
_SHOWN = 1_000
#: seconds to ask a sandbox that has run out of time for its current row
_CURRENT_ROW_SECONDS = 1.0

_NUMBERS = ("int", "float")
_FIXED = (*_NUMBERS, "bool")


@dataclass(frozen=True)
class _Column:
    field: pa.Field
    codec: Codec


class Runner:
    """Runs a script for one node: ``columns`` of every batch in, ``schema`` out, `_gs_op` copied from the input."""

    def __init__(
        self,
        text: str,
        *,
        inputs: pa.Schema,
        outputs: pa.Schema,
        copied: str,
        engine: ScriptEngine,
        limits: Limits,
        console: Console,
        on_unknown: Callable[[Sequence[str]], None] = lambda names: None,
    ) -> None:
        """``on_unknown`` receives columns that the script returns but ``outputs`` lacks."""
        self._inputs = [_Column(field, codec_for(field)) for field in inputs]
        self._outputs = [_Column(field, codec_for(field)) for field in outputs if field.name != copied]
        self._schema = outputs
        self._copied = copied
        self._engine = engine
        self._limits = limits
        self._console = console
        self._on_unknown = on_unknown
        self._kept: tuple[Sandbox, Value] | None = None
        self._program = Program(
            text,
            tuple(ScriptColumn(column.field.name, column.codec.reads) for column in self._inputs),
            tuple(ScriptColumn(column.field.name, column.codec.writes) for column in self._outputs),
        )

    def check(self) -> None:
        """Load the script; raises `ScriptFailed` if it cannot be run at all."""
        sandbox = self._engine.sandbox()
        try:
            self._program.start(sandbox, self._limits.seconds)
        except ScriptFailed as failure:
            raise with_error_line(failure, self._program.text) from None
        finally:
            sandbox.close()

    def run(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Run the script on ``batch``; a failure is a user error that shows the row."""
        deadline = time.monotonic() + self._limits.seconds
        try:
            with self._loaded_sandbox() as (sandbox, program):
                parts = [
                    self._part(_Call(sandbox, program, deadline, batch, first), rows)
                    for first, rows in _split_batch(batch)
                ]
        except ScriptFailed as failure:
            raise script_error(with_error_line(failure, self._program.text), self._limits) from None
        return parts[0] if len(parts) == 1 else pa.concat_batches(parts)

    def close(self) -> None:
        if self._kept is not None:
            self._kept[0].close()
            self._kept = None

    @contextmanager
    def _loaded_sandbox(self) -> Iterator[tuple[Sandbox, Value]]:
        """Provide a sandbox and the program in it, as `Program.start` leaves them. It is kept unless the batch
        fails."""
        if self._kept is not None and not self._kept[0].restore():
            self.close()
        kept, self._kept = self._kept, None
        sandbox = self._engine.sandbox() if kept is None else kept[0]
        try:
            if kept is None:
                kept = sandbox, self._program.start(sandbox, self._limits.seconds)
                sandbox.save()
            else:  # otherwise every batch would get the same random numbers
                sandbox.exchange(kept[1], b"", RESEED + secrets.token_hex(16).encode(), self._limits.seconds)
            yield kept
        except BaseException:
            sandbox.close()
            raise
        self._kept = kept

    def _part(self, call: _Call, rows: pa.RecordBatch) -> pa.RecordBatch:
        try:
            data, text = call.exchange(*self._pack(call, rows))
        except ScriptFailed as failure:
            row = call.current_row() if failure.cause in (Cause.TIME, Cause.THROWN) else None
            raise self._locate_error(failure, call, rows, row) from None
        if text.startswith("!"):
            raise self._thrown(json.loads(text[1:]), call, rows)
        try:
            return self._unpack(call, rows, data, text)
        except (ValueError, KeyError, TypeError, pa.ArrowException) as error:
            # only a script that has replaced built-in functions gets here
            raise StreamlingError.user("the script has corrupted its sandbox", cause=error) from error

    # ── in ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _pack(self, call: _Call, rows: pa.RecordBatch) -> tuple[bytes, bytes]:
        try:
            return self._pack_columns(rows)
        except (ArithmeticError, ValueError, pa.ArrowException):
            for row in range(rows.num_rows):
                self._check_encodable(call, rows, row)
            raise

    def _check_encodable(self, call: _Call, rows: pa.RecordBatch, row: int) -> None:
        for column in self._inputs:
            try:
                column.codec.encode(rows.column(column.field.name).slice(row, 1))
            except (ArithmeticError, ValueError, pa.ArrowException) as error:
                raise call.at(row, unreadable_input_error(column.field, str(error), call.shown(row))) from None

    def _pack_columns(self, rows: pa.RecordBatch) -> tuple[bytes, bytes]:
        """Pack the columns, numbers first, because they must be aligned to eight bytes."""
        encoded = [column.codec.encode(rows.column(column.field.name)) for column in self._inputs]
        shapes: list[list[Any]] = [[column_data.mode, -1, -1] for column_data in encoded]
        blocks, texts, at = [], [b""], 0
        for mode in ("number", "bool"):
            for shape, column_data in zip(shapes, encoded, strict=True):
                if column_data.mode == mode:
                    shape[1] = at
                    blocks.append(column_data.data)
                    at += len(column_data.data)
        for shape, column_data, column in zip(shapes, encoded, self._inputs, strict=True):
            if column_data.text is not None:
                shape[1] = len(texts)
                texts.append(column_data.text)
            if nulls := nulls_of(rows.column(column.field.name)):
                shape[2] = at
                blocks.append(nulls)
                at += len(nulls)
        texts[0] = json.dumps({"rows": rows.num_rows, "columns": shapes}).encode()
        return b"".join(blocks), PARTS.encode().join(texts)

    # ── out ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _unpack(self, call: _Call, rows: pa.RecordBatch, data: bytes, text: str) -> pa.RecordBatch:
        header, *parts = text.split(PARTS)
        meta = json.loads(header)
        count = meta["rows"]
        for line in meta["lines"]:
            self._console.write(line)
        self._console.drop(meta["dropped"])
        if meta["unknown"]:
            self._on_unknown(meta["unknown"])
        texts = iter(self._texts(call, parts, count))
        reader = _Reader(data, count)
        numbers = {n: reader.take(8) for n, column in enumerate(self._outputs) if column.codec.writes in _NUMBERS}
        source = pa.Array.from_buffers(pa.uint32(), count, [None, pa.py_buffer(reader.take(4))])
        flags = {n: reader.take(1) for n, column in enumerate(self._outputs) if column.codec.writes == "bool"}
        found: dict[str, pa.Array] = {}
        for n, column in enumerate(self._outputs):
            fixed = column.codec.writes in _FIXED
            wide = [(row, int(digits)) for of, row, digits in meta["wide"] if of == n]
            output = EncodedOutput(
                count, reader.take(1), numbers.get(n, flags.get(n, b"")), () if fixed else next(texts), wide
            )
            try:
                found[column.field.name] = column.codec.decode(output, column.field.type)
            except InvalidValue as error:
                row, found_text = source[error.index].as_py(), f"'{error.shown[:200]}'"
                raise call.at(
                    row, invalid_value_error(column.field, found_text, error.reason, call.shown(row))
                ) from None
        if self._copied in self._schema.names:
            found[self._copied] = self._operations(rows, source)
        return pa.record_batch([found[name] for name in self._schema.names], schema=self._schema)

    def _texts(self, call: _Call, parts: Sequence[str], rows: int) -> list[list[str]]:
        """Return the rows of every text column. A text that contains a separator makes the count wrong: then request
        them as JSON."""
        expected = sum(column.codec.writes not in _FIXED for column in self._outputs)
        split = [part.split(ROWS) if rows else [] for part in parts]
        if len(split) == expected and all(len(texts) == rows for texts in split):
            return split
        _, text = call.exchange(b"", RESEND_AS_JSON)
        return [[_well_formed(text) for text in column] for column in json.loads(text)]

    def _operations(self, rows: pa.RecordBatch, source: pa.Array) -> pa.Array:
        if self._copied in rows.schema.names:
            return rows.column(self._copied).take(source)
        return pa.array(["i"] * len(source), pa.string())

    # ── failures ─────────────────────────────────────────────────────────────────────────────────────────────

    def _thrown(self, fields: Sequence[str], call: _Call, rows: pa.RecordBatch) -> StreamlingError:
        number, kind, column, name, message, stack = fields
        row = int(number)
        if not kind:  # not about a value
            return self._locate_error(caught_failure(name, message, stack), call, rows, row)
        return call.at(row, invalid_value_error(self._schema.field(column), f"{kind}: {message}", "", call.shown(row)))

    def _locate_error(
        self, failure: ScriptFailed, call: _Call, rows: pa.RecordBatch, row: int | None
    ) -> StreamlingError:
        """Add the row if it is known: not if the sandbox did not survive a timeout, or if all rows were processed."""
        failure = with_error_line(failure, self._program.text)
        if row is None and failure.cause is not Cause.TIME:
            row = self._find_failing_row(call, rows)
        if row is not None and row < rows.num_rows:
            return call.at(row, script_error(failure, self._limits, call.shown(row)))
        error = script_error(failure, self._limits)
        return error.context(f"somewhere in rows {call.first + 1} to {call.first + rows.num_rows} of the batch")

    def _find_failing_row(self, call: _Call, rows: pa.RecordBatch) -> int | None:
        """Find the row that crashes a sandbox by running all rows again, one by one, in the time that is left."""
        sandbox = self._engine.sandbox()
        row = 0
        try:
            again = replace(call, sandbox=sandbox, program=self._program.start(sandbox, call.seconds_left))
            for row in range(rows.num_rows):
                again.exchange(*self._pack_columns(rows.slice(row, 1)))
        except ScriptFailed as failure:
            return None if failure.cause is Cause.TIME else row
        finally:
            sandbox.close()
        return None


@dataclass(frozen=True)
class _Call:
    """Some rows of a batch that pass through the sandbox."""

    sandbox: Sandbox
    program: Value
    deadline: float
    batch: pa.RecordBatch
    first: int

    def exchange(self, data: bytes, text: bytes) -> tuple[bytes, str]:
        return self.sandbox.exchange(self.program, data, text, self.seconds_left)

    @property
    def seconds_left(self) -> float:
        return self.deadline - time.monotonic()

    def current_row(self) -> int | None:
        """Return the row at which the script was stopped, or None if the sandbox did not survive."""
        try:
            return int(self.sandbox.exchange(self.program, b"", CURRENT_ROW, _CURRENT_ROW_SECONDS)[1])
        except (ScriptFailed, ValueError):
            return None

    def at(self, row: int, error: StreamlingError) -> StreamlingError:
        return error.context(f"row {self.first + row + 1} of the batch")

    def shown(self, row: int) -> str:
        text = next(json_rows(self.batch.slice(self.first + row, 1)))
        return f"\n  input: {text[:_SHOWN]}{'…' if len(text) > _SHOWN else ''}"


class _Reader:
    """The bytes of a result, column after column."""

    def __init__(self, data: bytes, rows: int) -> None:
        self._data = data
        self._rows = rows
        self._at = 0

    def take(self, width: int) -> bytes:
        start, self._at = self._at, self._at + width * self._rows
        return self._data[start : self._at]


def _split_batch(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Split the batch into calls, each with the index of its first row."""
    per_row = max(1, batch.nbytes // max(1, batch.num_rows))
    size = max(1, min(_MAX_ROWS, _MAX_BYTES // per_row))
    for first in range(0, batch.num_rows, size):
        yield first, batch.slice(first, size)


def _well_formed(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot represent."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
