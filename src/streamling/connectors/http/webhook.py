"""Webhook sink: posts rows to an HTTP endpoint."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pyarrow as pa
from pydantic import Field, model_validator

from streamling.connectors.http.config import HttpConfig
from streamling.connectors.http.options import HttpCall, resolve_secret
from streamling.pipeline.document.scalars import BadValueError, redact_url
from streamling.pipeline.options import BatchOptions, DeadLetterOptions, ParallelOptions, SinkOptions
from streamling.plugins.connections import ConnectionCheck
from streamling.plugins.in_flight import InFlight
from streamling.plugins.sinks import Sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamling.connectors.http.endpoint import ErrorResponse
    from streamling.plugins.context import NodeContext


class WebhookSinkOptions(HttpCall, ParallelOptions, BatchOptions, DeadLetterOptions, SinkOptions):
    """Posts rows as JSON to an HTTP endpoint."""

    reserved_labels: ClassVar[frozenset[str]] = frozenset({"url"})

    skip_on_error: bool = Field(
        default=False, description="Skip rows for which the endpoint returns an error; they are counted and logged."
    )

    @model_validator(mode="after")
    def _one_way_to_treat_errors(self) -> Self:
        if self.skip_on_error and self.errors is not None:
            raise BadValueError(
                "drops the rows that `errors` would keep", "remove one of the two", field="skip_on_error"
            )
        return self


class WebhookSink(Sink[WebhookSinkOptions]):
    """Sends many requests at once; requests that share a key are sent one after the other."""

    Options = WebhookSinkOptions
    own_thread: ClassVar[bool] = False
    distributable = True

    def __init__(self, context: NodeContext[WebhookSinkOptions]) -> None:
        super().__init__(context)
        # so that `validate` finds a secret that is not configured
        resolve_secret(context.options, context.config.part(HttpConfig))

    @classmethod
    def connections(
        cls, context: NodeContext[WebhookSinkOptions], spark: Callable[[], SparkSession]
    ) -> Sequence[ConnectionCheck]:
        from streamling.connectors.http.probe import http_connection

        return (http_connection(context.options.url, context.network),)

    def labels(self) -> Mapping[str, str]:
        return {"url": redact_url(self.options.url)}

    def open(self) -> None:
        from streamling.connectors.http.endpoint import REFUSALS, Endpoint
        from streamling.connectors.http.payload import Payload

        self._payload = Payload.of(self.options, self.context.config.part(HttpConfig).external_http_handler)
        self._in_flight = InFlight()
        self._latest = _LatestPerKey()
        #: rows that the endpoint has refused, with the error, until this node's thread rejects them
        self._refused: deque[tuple[pa.RecordBatch, str]] = deque()
        rejects = self.context.rejected_rows is not None
        self._endpoint = Endpoint(
            self.context, skip_errors=self.options.skip_on_error, returned=REFUSALS if rejects else frozenset()
        )

    def write(self, batch: pa.RecordBatch) -> None:
        from streamling.connectors.http.payload import with_declared_types

        keys = self._keys(batch)
        for body in self._payload.bodies(with_declared_types(batch, self.context.input_schema)):
            share = keys[body.start : body.stop]
            self._latest.wait_for(share)
            self._in_flight.wait_for_slot(self._endpoint.max_calls())
            call = self._endpoint.start([body])
            call.add_done_callback(partial(self._answered, batch.slice(body.start, body.stop - body.start)))
            self._in_flight.add(call)
            self._latest.remember(share, call)
        self._reject_refused()

    def flush(self) -> None:
        self._in_flight.wait()
        self._reject_refused()
        self._latest = _LatestPerKey()
        self._endpoint.log_skipped()

    def close(self) -> None:
        self._endpoint.close()

    def _answered(self, rows: pa.RecordBatch, call: Future[list[bytes | ErrorResponse | None]]) -> None:
        """Handle a response on the client's thread, before the call is no longer in flight."""
        if call.cancelled() or call.exception() is not None:
            return  # raised by the next call of this node's thread
        (response,) = call.result()
        if isinstance(response, bytes):
            self.context.count_delivered(rows.num_rows)
        elif response is None:
            self.context.count_delivered(0, skipped=rows.num_rows)
        else:
            self._refused.append((rows, response.message))

    def _reject_refused(self) -> None:
        while self._refused:
            self.context.reject(*self._refused.popleft())

    def _keys(self, batch: pa.RecordBatch) -> list[Any]:
        """Return the key of each row; empty if there is no key."""
        columns = [batch.column(name).to_pylist() for name in self.context.primary_key]
        return list(map(repr, zip(*columns, strict=True))) if columns else []


class _LatestPerKey:
    """The last request that contained each key, so that a later request does not overtake it."""

    def __init__(self) -> None:
        self._calls: dict[str, Future[Any]] = {}

    def wait_for(self, keys: list[str]) -> None:
        wait({call for key in keys if (call := self._calls.get(key)) is not None and not call.done()})

    def remember(self, keys: list[str], call: Future[Any]) -> None:
        self._calls.update(dict.fromkeys(keys, call))
