"""Encodes rows as request bodies.

| `payload_version` | a row |
|---|---|
| 0 | `{"id": 1, "_gs_op": "i"}` |
| 1 | `{"metadata": {"op": "i"}, "data": {"id": 1, "_gs_op": "i"}}` |

A request carries an array of rows, or one row alone with `one_row_per_request`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from json.encoder import encode_basestring
from typing import Final

import pyarrow as pa

from streamling.connectors.http.config import HttpHandlerSettings
from streamling.connectors.http.options import HttpCall
from streamling.errors import StreamlingError
from streamling.types.json import json_rows
from streamling.types.row_kind import OP_COLUMN

#: rows encoded at a time
_STEP: Final = 2000
#: one-row requests that are handed over at a time
_GROUP: Final = 25


@dataclass(frozen=True)
class Body:
    """One request: its body and the rows of the batch that it contains."""

    text: bytes
    start: int
    stop: int


@dataclass(frozen=True)
class Payload:
    """How rows are encoded."""

    version: int
    one_row: bool
    max_rows: int
    max_bytes: int

    @classmethod
    def of(cls, options: HttpCall, settings: HttpHandlerSettings) -> Payload:
        return cls(
            options.payload_version,
            options.one_row_per_request,
            settings.trigger_max_count,
            settings.max_request_bytes,
        )

    def bodies(self, batch: pa.RecordBatch) -> Iterator[Body]:
        """Encode all rows of ``batch`` in order, split into requests."""
        if self.one_row:
            for number, text in enumerate(self._checked(batch)):
                yield Body(text, number, number + 1)
            return
        start, texts, size = 0, list[bytes](), 0
        for number, text in enumerate(self._checked(batch)):
            if texts and (len(texts) == self.max_rows or size + len(text) > self.max_bytes):
                yield Body(_array(texts), start, number)
                start, texts, size = number, [], 0
            texts.append(text)
            size += len(text) + len(_BETWEEN)
        if texts:
            yield Body(_array(texts), start, batch.num_rows)

    def groups(self, batch: pa.RecordBatch) -> Iterator[list[Body]]:
        """Yield the `bodies` in groups that are handed over together, which is cheaper for one-row requests."""
        bodies = self.bodies(batch)
        while group := list(islice(bodies, self.group_size(batch))):
            yield group

    def group_size(self, batch: pa.RecordBatch) -> int:
        """Return the number of requests in each group; the last group may be smaller."""
        return min(_GROUP, batch.num_rows) if self.one_row else 1

    def _checked(self, batch: pa.RecordBatch) -> Iterator[bytes]:
        for text in self._rows(batch):
            if len(text) > self.max_bytes:
                raise StreamlingError.user(
                    f"a row takes {len(text)} bytes as JSON, but a request is limited to {self.max_bytes}: "
                    f"{text[:100]!r}…",
                    remedy="select fewer columns, or raise external_http_handler.max_request_bytes",
                )
            yield text

    def _rows(self, batch: pa.RecordBatch) -> Iterator[bytes]:
        for start in range(0, batch.num_rows, _STEP):
            part = batch.slice(start, _STEP)
            if self.version == 0:
                yield from (row.encode() for row in json_rows(part))
            else:
                for operation, row in zip(operations(part), json_rows(part), strict=True):
                    yield f'{{"metadata":{{"op":{encode_basestring(operation)}}},"data":{row}}}'.encode()


_BETWEEN: Final = b",\n"


def _array(texts: Sequence[bytes]) -> bytes:
    return b"[" + _BETWEEN.join(texts) + b"]\n"


def with_declared_types(batch: pa.RecordBatch, declared: pa.Schema) -> pa.RecordBatch:
    """Return ``batch`` with the declared field metadata: Spark delivers wide integers as plain bytes."""
    if batch.schema.names != declared.names or batch.schema.types != declared.types:
        return batch  # a source may add columns while it runs
    return pa.RecordBatch.from_arrays(batch.columns, schema=declared)


def operations(batch: pa.RecordBatch) -> list[str]:
    """Return the row kind of each row; a row without one is an insert."""
    if OP_COLUMN not in batch.schema.names:
        return ["i"] * batch.num_rows
    return [operation or "i" for operation in batch.column(OP_COLUMN).to_pylist()]
