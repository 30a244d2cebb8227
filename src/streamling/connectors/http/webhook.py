"""Webhook sink: posts rows to an HTTP endpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from pydantic import Field

from streamling.connectors.http.config import HttpConfig
from streamling.connectors.http.options import HttpCall, resolve_secret
from streamling.document.scalars import redact_url
from streamling.pipeline.options import BatchOptions, ParallelOptions, SinkOptions
from streamling.plugins.connections import ConnectionCheck
from streamling.plugins.in_flight import InFlight
from streamling.plugins.sinks import Sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamling.plugins.context import NodeContext


#: rows with a request each that are counted as written together
_ROWS_PER_WRITE = 100


class WebhookSinkOptions(HttpCall, ParallelOptions, BatchOptions, SinkOptions):
    """Posts rows as JSON to an HTTP endpoint."""

    reserved_labels: ClassVar[frozenset[str]] = frozenset({"url"})

    skip_on_error: bool = Field(
        default=False, description="Count rows as delivered when the endpoint returns an error."
    )


class WebhookSink(Sink[WebhookSinkOptions]):
    """Sends many requests at once; requests that share a key are sent one after the other."""

    Options = WebhookSinkOptions
    distributable = True

    def __init__(self, context: NodeContext[WebhookSinkOptions]) -> None:
        super().__init__(context)
        if context.options.one_row_per_request:
            self.rows_per_write = _ROWS_PER_WRITE
        # so that `validate` finds a secret that is not configured
        resolve_secret(context.options, context.config.part(HttpConfig))

    @classmethod
    def connections(
        cls, context: NodeContext[WebhookSinkOptions], spark: Callable[[], SparkSession]
    ) -> Sequence[ConnectionCheck]:
        from streamling.connectors.http.probe import http_connection

        network = context.config.part(HttpConfig).network
        return (http_connection(context.options.url, deny_private=network.deny_private),)

    def labels(self) -> Mapping[str, str]:
        return {"url": redact_url(self.options.url)}

    def open(self) -> None:
        from streamling.connectors.http.endpoint import Endpoint
        from streamling.connectors.http.payload import Payload

        self._payload = Payload.of(self.options, self.context.config.part(HttpConfig).external_http_handler)
        self._in_flight = InFlight()
        self._latest = _LatestPerKey()
        self._endpoint = Endpoint(self.context, skip_errors=self.options.skip_on_error)

    def write(self, batch: pa.RecordBatch) -> None:
        from streamling.connectors.http.payload import with_declared_types

        keys = self._keys(batch)
        for body in self._payload.bodies(with_declared_types(batch, self.context.input_schema)):
            share = keys[body.start : body.stop]
            self._latest.wait_for(share)
            self._in_flight.wait_for_slot(self._endpoint.max_calls())
            call = self._endpoint.start([body])
            self._in_flight.add(call)
            self._latest.remember(share, call)

    def flush(self) -> None:
        self._in_flight.wait()
        self._latest = _LatestPerKey()
        self._endpoint.log_skipped()

    def close(self) -> None:
        self._endpoint.close()

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
