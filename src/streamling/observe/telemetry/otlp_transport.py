"""Sends messages to an OTLP receiver. Each `send` raises a `StreamlingError` if the message did not arrive."""

from __future__ import annotations

import json
import socket
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, Generic, Protocol, TypeVar

from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message

from streamling import __version__
from streamling.errors import StreamlingError
from streamling.network.http.blocking import HttpResponse, reason_of, send_request
from streamling.network.http.errors import ResponseTooLargeError
from streamling.network.policy import NetworkPolicy
from streamling.observe.telemetry.otlp_endpoint import Collector
from streamling.redaction import excerpt

_MOST_BYTES = 64 * 1024
_MOST_SHOWN = 200
_IDS = ("traceId", "spanId", "parentSpanId")
_AGENT = f"streamling/{__version__}"


AnswerT = TypeVar("AnswerT", bound=Message)
AnswerT_co = TypeVar("AnswerT_co", bound=Message, covariant=True)


class Send(Protocol[AnswerT_co]):
    """Waits at most ``seconds`` for the response."""

    def __call__(self, message: Message, seconds: float) -> AnswerT_co: ...


@dataclass(frozen=True)
class Service(Generic[AnswerT]):
    """A service of the protocol: its name for gRPC, and the type of its responses."""

    name: str
    answer: type[AnswerT]


@contextmanager
def transport(
    endpoint: Collector, protocol: str, service: Service[AnswerT], network: NetworkPolicy
) -> Iterator[Send[AnswerT]]:
    """Provide the sender for ``endpoint`` and one of the protocols of the configuration; it connects as ``network``
    allows."""
    if protocol == "grpc":
        with _grpc(endpoint, service, network) as send:
            yield send
    else:
        yield _Http(endpoint, service, network, as_json=protocol == "http/json")


# ── HTTP ─────────────────────────────────────────────────────────────────────────────────────────────────────


class _Http(Generic[AnswerT]):
    """Protobuf or JSON over HTTP. Uses Python's own client: occasional requests need no pool, and an attempt that hangs
    in a DNS lookup must not delay the exit, which the client of handlers and webhooks would wait for."""

    def __init__(
        self, endpoint: Collector, service: Service[AnswerT], network: NetworkPolicy, *, as_json: bool
    ) -> None:
        self._endpoint = endpoint
        self._network = network
        self._service = service
        self._as_json = as_json
        kind = "application/json" if as_json else "application/x-protobuf"
        self._headers = {"user-agent": _AGENT, **endpoint.headers, "content-type": kind}

    def __call__(self, message: Message, seconds: float) -> AnswerT:
        try:
            reply = send_request(
                self._endpoint.url,
                headers=self._headers,
                data=self._body(message),
                seconds=seconds,
                max_bytes=_MOST_BYTES,
                network=self._network,
            )
        except ResponseTooLargeError:
            raise StreamlingError.transient(f"the response has more than {_MOST_BYTES} bytes") from None
        except (OSError, HTTPException) as error:
            raise StreamlingError.transient(reason_of(error)) from None
        if 200 <= reply.status < 300:
            return self._answer(reply.body)
        raise StreamlingError.transient(f"the response was {reply.status} {reply.reason}{self._explanation(reply)}")

    def _body(self, message: Message) -> bytes:
        if not self._as_json:
            return bytes(message.SerializeToString())
        return json.dumps(_with_hex_ids(json_format.MessageToDict(message, use_integers_for_enums=True))).encode()

    def _explanation(self, reply: HttpResponse) -> str:
        """Return the receiver's explanation, unless it contains a secret."""
        if reply.content_type not in ("text/plain", "application/json"):
            return ""
        text = reply.body.decode(errors="replace")
        if any(secret in text for secret in self._endpoint.secrets):
            return ""
        said = excerpt(text, _MOST_SHOWN)
        return f": {said}" if said else ""

    def _answer(self, text: bytes) -> AnswerT:
        """Parse the response: not every gateway responds with the message that the protocol requires."""
        answer: AnswerT = self._service.answer()
        try:
            if self._as_json:
                json_format.Parse(text or b"{}", answer, ignore_unknown_fields=True)
            else:
                answer.ParseFromString(text)
        except (json_format.ParseError, DecodeError, UnicodeDecodeError):
            answer = self._service.answer()
        return answer


def _with_hex_ids(value: Any) -> Any:
    """Write the ids of traces and spans as hex digits, unlike all other bytes in the JSON of Protobuf."""
    match value:
        case dict():
            return {
                name: b64decode(part).hex() if name in _IDS else _with_hex_ids(part) for name, part in value.items()
            }
        case list():
            return [_with_hex_ids(part) for part in value]
    return value


# ── gRPC ─────────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _grpc(endpoint: Collector, service: Service[AnswerT], network: NetworkPolicy) -> Iterator[Send[AnswerT]]:
    import grpc

    target, options = endpoint.host, [("grpc.primary_user_agent", _AGENT), ("grpc.max_reconnect_backoff_ms", 10_000)]
    if network.deny_private:
        target, fixed = _checked_target(endpoint.host, network)
        options += fixed
    if endpoint.secure:
        channel = grpc.secure_channel(target, grpc.ssl_channel_credentials(), options)
    else:
        channel = grpc.insecure_channel(target, options)

    def send(message: Message, seconds: float) -> AnswerT:
        try:
            answer: AnswerT = export(message, seconds, list(endpoint.headers.items()))
        except grpc.RpcError as error:
            raise StreamlingError.transient(_status(error.code().name, error.details(), seconds)) from None
        return answer

    with channel:
        export = channel.unary_unary(
            f"/{service.name}/Export", lambda message: message.SerializeToString(), service.answer.FromString
        )
        yield send


def _checked_target(host: str, network: NetworkPolicy) -> tuple[str, list[tuple[str, Any]]]:
    """Return the addresses of ``host``, checked, and the options with which a channel uses only these: gRPC would
    resolve the name again later."""
    name, _, port = host.rpartition(":")
    name = name.strip("[]")
    try:
        addresses = network.addresses(name, int(port))
    except socket.gaierror as error:
        raise StreamlingError.transient(f"the host name '{name}' cannot be resolved ({error.strerror})") from None
    is_v6 = ":" in addresses[0]
    # all addresses of a target belong to one family
    same = [f"[{each}]:{port}" if is_v6 else f"{each}:{port}" for each in addresses if (":" in each) == is_v6]
    options = [("grpc.default_authority", host), ("grpc.ssl_target_name_override", name), ("grpc.enable_http_proxy", 0)]
    return f"ipv{6 if is_v6 else 4}:{','.join(same)}", options


def _status(code: str, details: str, seconds: float) -> str:
    return f"no response within {seconds:g} s" if code == "DEADLINE_EXCEEDED" else f"{code.lower()}: {details}"
