"""Sends messages to an OTLP receiver. Each `send` raises a `StreamlingError` if the message did not arrive."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from typing import Protocol

from google.protobuf import json_format
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from streamling import __version__
from streamling.errors import StreamlingError
from streamling.http.blocking import HttpResponse, reason_of, send_request
from streamling.http.errors import ResponseTooLargeError
from streamling.output.redaction import excerpt
from streamling.telemetry.otlp_endpoint import Endpoint

_MOST_BYTES = 64 * 1024
_MOST_SHOWN = 200
_AGENT = f"streamling/{__version__}"


class Send(Protocol):
    """Waits at most ``seconds`` for the response."""

    def __call__(self, message: ExportMetricsServiceRequest, seconds: float) -> ExportMetricsServiceResponse: ...


@contextmanager
def transport(endpoint: Endpoint, protocol: str) -> Iterator[Send]:
    """The sender for ``endpoint`` and one of the protocols of the configuration."""
    if protocol == "grpc":
        with _grpc(endpoint) as send:
            yield send
    else:
        yield _Http(endpoint, as_json=protocol == "http/json")


# ── HTTP ─────────────────────────────────────────────────────────────────────────────────────────────────────


class _Http:
    """Protobuf or JSON over HTTP. Uses Python's own client: occasional requests need no pool, and an attempt that hangs
    in a DNS lookup must not delay the exit, which the client of handlers and webhooks would wait for."""

    def __init__(self, endpoint: Endpoint, *, as_json: bool) -> None:
        self._endpoint = endpoint
        self._as_json = as_json
        kind = "application/json" if as_json else "application/x-protobuf"
        self._headers = {"user-agent": _AGENT, **endpoint.headers, "content-type": kind}

    def __call__(self, message: ExportMetricsServiceRequest, seconds: float) -> ExportMetricsServiceResponse:
        try:
            reply = send_request(
                self._endpoint.url,
                headers=self._headers,
                data=self._body(message),
                seconds=seconds,
                max_bytes=_MOST_BYTES,
            )
        except ResponseTooLargeError:
            raise StreamlingError.transient(f"the response has more than {_MOST_BYTES} bytes") from None
        except (OSError, HTTPException) as error:
            raise StreamlingError.transient(reason_of(error)) from None
        if 200 <= reply.status < 300:
            return self._answer(reply.body)
        raise StreamlingError.transient(f"the response was {reply.status} {reply.reason}{self._explanation(reply)}")

    def _body(self, message: ExportMetricsServiceRequest) -> bytes:
        if not self._as_json:
            return bytes(message.SerializeToString())
        text: str = json_format.MessageToJson(message, indent=None, use_integers_for_enums=True)
        return text.encode()

    def _explanation(self, reply: HttpResponse) -> str:
        """The receiver's explanation, unless it contains a secret."""
        if reply.content_type not in ("text/plain", "application/json"):
            return ""
        text = reply.body.decode(errors="replace")
        if any(secret in text for secret in self._endpoint.secrets):
            return ""
        said = excerpt(text, _MOST_SHOWN)
        return f": {said}" if said else ""

    def _answer(self, text: bytes) -> ExportMetricsServiceResponse:
        """Not every gateway responds with the message that the protocol requires."""
        answer = ExportMetricsServiceResponse()
        try:
            if self._as_json:
                json_format.Parse(text or b"{}", answer, ignore_unknown_fields=True)
            else:
                answer.ParseFromString(text)
        except (json_format.ParseError, DecodeError, UnicodeDecodeError):
            return ExportMetricsServiceResponse()
        return answer


# ── gRPC ─────────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _grpc(endpoint: Endpoint) -> Iterator[Send]:
    import grpc
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import MetricsServiceStub

    options = [("grpc.primary_user_agent", _AGENT), ("grpc.max_reconnect_backoff_ms", 10_000)]
    if endpoint.secure:
        channel = grpc.secure_channel(endpoint.host, grpc.ssl_channel_credentials(), options)
    else:
        channel = grpc.insecure_channel(endpoint.host, options)

    def send(message: ExportMetricsServiceRequest, seconds: float) -> ExportMetricsServiceResponse:
        try:
            answer: ExportMetricsServiceResponse = stub.Export(message, seconds, list(endpoint.headers.items()))
        except grpc.RpcError as error:
            raise StreamlingError.transient(_status(error.code().name, error.details(), seconds)) from None
        return answer

    with channel:
        stub = MetricsServiceStub(channel)  # type: ignore[no-untyped-call]
        yield send


def _status(code: str, details: str, seconds: float) -> str:
    return f"no response within {seconds:g} s" if code == "DEADLINE_EXCEEDED" else f"{code.lower()}: {details}"
