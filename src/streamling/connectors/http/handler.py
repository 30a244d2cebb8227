"""Handler transform: sends rows to an HTTP endpoint and replaces them with its response."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from pydantic import Field

from streamling.connectors.http.config import HttpConfig
from streamling.connectors.http.options import HttpCall, resolve_secret
from streamling.errors import BadRow, StreamlingError
from streamling.pipeline.document.scalars import PrimaryKey, redact_url
from streamling.pipeline.options import (
    BatchOptions,
    DeadLetterOptions,
    ParallelOptions,
    TransformOptions,
    UpstreamOptions,
)
from streamling.pipeline.typenames import TypeName, parse_type
from streamling.plugins.connections import ConnectionCheck
from streamling.plugins.rejects import reject_failing_rows
from streamling.plugins.transforms import AsyncCalls, Transform
from streamling.types.row_kind import OP_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamling.connectors.http.endpoint import ErrorResponse
    from streamling.connectors.http.payload import Body
    from streamling.plugins.context import NodeContext

    #: a request and its outcome: the response body, or the error that rejects its rows
    Response = tuple[Body, bytes | ErrorResponse | None]


_UNDECLARED_COLUMNS = "the endpoint returns columns that are not part of the output (declare them in 'schema_override')"


class HandlerTransformOptions(
    HttpCall, ParallelOptions, BatchOptions, DeadLetterOptions, UpstreamOptions, TransformOptions
):
    """Enriches rows over HTTP."""

    primary_key: PrimaryKey = Field(description="Key columns of the response, comma-separated.")
    schema_override: dict[str, TypeName | None] = Field(
        default={}, description="Columns that the response adds or changes, with their types; null removes a column."
    )


class HandlerTransform(Transform[HandlerTransformOptions]):
    """A batch becomes one or more requests. Their responses together form the output batch."""

    Options = HandlerTransformOptions
    own_thread: ClassVar[bool] = False

    def __init__(self, context: NodeContext[HandlerTransformOptions]) -> None:
        super().__init__(context)
        # so that `validate` finds a secret that is not configured
        resolve_secret(context.options, context.config.part(HttpConfig))

    @classmethod
    def connections(
        cls, context: NodeContext[HandlerTransformOptions], spark: Callable[[], SparkSession]
    ) -> Sequence[ConnectionCheck]:
        from streamling.connectors.http.probe import http_connection

        return (http_connection(context.options.url, context.network),)

    def labels(self) -> Mapping[str, str]:
        return {"url": redact_url(self.options.url)}

    def output_schema(self) -> pa.Schema:
        """Return the input columns changed by `schema_override`; new columns come last, before the row kind."""
        override, incoming = self.options.schema_override, self.context.input_schema
        if OP_COLUMN in override:
            raise StreamlingError.user(
                f"schema_override names '{OP_COLUMN}', which every row has", remedy="leave it out"
            )
        unknown = [name for name, kind in override.items() if kind is None and name not in incoming.names]
        if unknown:
            raise StreamlingError.user(
                f"schema_override removes '{unknown[0]}', but '{self.options.from_}' has no such column",
                remedy=f"use one of {', '.join(incoming.names)}",
            )
        kept = [field for field in incoming if field.name not in override and field.name != OP_COLUMN]
        types = {name: parse_type(kind) for name, kind in override.items() if kind is not None}
        # the endpoint may leave out every column except the key
        fields = [
            pa.field(field.name, types.pop(field.name)) if field.name in types else field.with_nullable(True)
            for field in incoming
            if field in kept or field.name in types
        ]
        added = [pa.field(name, kind) for name, kind in types.items()]
        return pa.schema([*fields, *added, pa.field(OP_COLUMN, pa.string(), nullable=False)])

    def open(self) -> None:
        from streamling.connectors.http.endpoint import ROW_ERRORS, Endpoint
        from streamling.connectors.http.payload import Payload

        self._schema = self.output_schema()
        self._payload = Payload.of(self.options, self.context.config.part(HttpConfig).external_http_handler)
        rejects = self.context.rejected_rows is not None
        self._endpoint = Endpoint(self.context, returned=ROW_ERRORS if rejects else frozenset())

    def process(self, batch: pa.RecordBatch) -> AsyncCalls[list[bytes | ErrorResponse | None]]:
        sent: list[Body] = []
        return AsyncCalls(
            self._starts(batch, sent),
            lambda responses: self._result(batch, list(zip(sent, chain.from_iterable(responses), strict=True))),
            max_in_flight=self._endpoint.max_calls(self._payload.group_size(batch)),
        )

    def close(self) -> None:
        self._endpoint.close()

    def _starts(
        self, batch: pa.RecordBatch, sent: list[Body]
    ) -> Iterator[Callable[[], Future[list[bytes | ErrorResponse | None]]]]:
        from streamling.connectors.http.payload import with_declared_types

        for bodies in self._payload.groups(with_declared_types(batch, self.context.input_schema)):
            sent += bodies
            yield partial(self._endpoint.start, bodies)

    def _result(self, batch: pa.RecordBatch, responses: Sequence[Response]) -> pa.RecordBatch:
        try:
            return self._rows(batch, responses)
        except BadRow:
            if self.context.rejected_rows is None:
                raise
        parts = [part for body, text in responses for part in self._split_rejected(batch, body, text)]
        return pa.concat_batches([self._rows(batch, ()), *parts])

    def _rows(self, batch: pa.RecordBatch, responses: Sequence[Response]) -> pa.RecordBatch:
        from streamling.connectors.http.payload import operations
        from streamling.connectors.http.responses import ResponseRows

        kinds = operations(batch)
        response_rows = ResponseRows(
            self._schema,
            version=self.options.payload_version,
            key=self.context.primary_key,
            max_values=self.context.config.part(HttpConfig).external_http_handler.max_response_values,
        )
        for body, text in responses:
            if isinstance(text, StreamlingError):
                raise BadRow.user(text.message, remedy=text.remedy)
            response_rows.add(text or b"", kinds[body.start : body.stop])
        removed = self.options.schema_override
        self.context.report_dropped_columns(
            _UNDECLARED_COLUMNS, (name for name in response_rows.undeclared_columns if name not in removed)
        )
        return response_rows.batch()

    # ── with a dead-letter sink ──────────────────────────────────────────────────────────────────────────────

    def _split_rejected(
        self, batch: pa.RecordBatch, body: Body, text: bytes | ErrorResponse | None
    ) -> list[pa.RecordBatch]:
        """Return the rows of one response. If it is bad, resend its rows in smaller parts until the rows that cause the
        error are found."""
        rows = batch.slice(body.start, body.stop - body.start)
        try:
            return [self._rows(batch, [(body, text)])]
        except BadRow as bad:
            if rows.num_rows == 1:
                self.context.reject(rows, bad.reason)
                return []
        results: list[pa.RecordBatch] = []
        reject_failing_rows(
            lambda part: results.append(self._rows(part, self._resend(part))), rows, self.context.reject
        )
        return results

    def _resend(self, rows: pa.RecordBatch) -> list[Response]:
        sent: list[Body] = []
        calls = [start() for start in self._starts(rows, sent)]
        return list(zip(sent, chain.from_iterable(call.result() for call in calls), strict=True))
