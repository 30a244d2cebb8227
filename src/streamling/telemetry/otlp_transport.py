"""Ways to hand a message to an OTLP receiver. Each `send` raises a `StreamlingError` when it did not arrive."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
from streamling.telemetry.otlp_endpoint import Endpoint

_MOST_BYTES = 64 * 1024
_MOST_SHOWN = 200
_AGENT = f"streamling/{__version__}"


class Send(Protocol):
    """Waits ``seconds`` at most for the answer."""

    def __call__(self, message: ExportMetricsServiceRequest, seconds: float) -> ExportMetricsServiceResponse: ...


@contextmanager
def transport(endpoint: Endpoint, protocol: str) -> Iterator[Send]:
    """How to send to ``endpoint`` in one of the protocols of the configuration."""
    if protocol == "grpc":
        with _grpc(endpoint) as send:
            yield send
    else:
        yield _Http(endpoint, as_json=protocol == "http/json")


# ── HTTP ─────────────────────────────────────────────────────────────────────────────────────────────────────


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """The headers are meant for the endpoint of the configuration and for nobody else."""

    def redirect_request(self, *_: object) -> None:
        return None


class _Http:
    """Protobuf or JSON. Uses what comes with Python: one request in a while needs no pool, and an attempt that hangs in
    the look-up of a name must be left behind at the end, which the client of handlers and webhooks would wait for."""

    def __init__(self, endpoint: Endpoint, *, as_json: bool) -> None:
        self._endpoint = endpoint
        self._as_json = as_json
        kind = "application/json" if as_json else "application/x-protobuf"
        self._headers = {"user-agent": _AGENT, **endpoint.headers, "content-type": kind}
        self._opener = urllib.request.build_opener(_NoRedirects)

    def __call__(self, message: ExportMetricsServiceRequest, seconds: float) -> ExportMetricsServiceResponse:
        post = urllib.request.Request(self._endpoint.url, self._body(message), self._headers, method="POST")
        try:
            with self._opener.open(post, timeout=seconds) as answer:
                return self._answer(answer.read(_MOST_BYTES))
        except urllib.error.HTTPError as error:
            with error:
                said = self._said(error)
            raise StreamlingError.transient(f"the answer was {error.code} {error.reason}{said}") from None
        except (OSError, HTTPException) as error:
            raise StreamlingError.transient(_reason(error, seconds)) from None

    def _body(self, message: ExportMetricsServiceRequest) -> bytes:
        if not self._as_json:
            return bytes(message.SerializeToString())
        text: str = json_format.MessageToJson(message, indent=None, use_integers_for_enums=True)
        return text.encode()

    def _said(self, error: urllib.error.HTTPError) -> str:
        """Why a receiver refuses, in its own words, unless it repeats what only it should know."""
        if error.headers.get_content_type() not in ("text/plain", "application/json"):
            return ""
        with suppress(OSError, HTTPException):
            text = " ".join(error.read(_MOST_BYTES).decode(errors="replace").split())
            if text and not any(secret in text for secret in self._endpoint.secrets):
                return f": {text[:_MOST_SHOWN]}"
        return ""

    def _answer(self, text: bytes) -> ExportMetricsServiceResponse:
        """Not every gateway answers with the message that the protocol asks for."""
        answer = ExportMetricsServiceResponse()
        try:
            if self._as_json:
                json_format.Parse(text or b"{}", answer, ignore_unknown_fields=True)
            else:
                answer.ParseFromString(text)
        except (json_format.ParseError, DecodeError, UnicodeDecodeError):
            return ExportMetricsServiceResponse()
        return answer


def _reason(error: OSError | HTTPException, seconds: float) -> str:
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, TimeoutError):
        return f"no answer within {seconds:g} s"
    if isinstance(cause, socket.gaierror):
        return f"the name of the host is not known ({cause.strerror})"
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__


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
    return f"no answer within {seconds:g} s" if code == "DEADLINE_EXCEEDED" else f"{code.lower()}: {details}"
