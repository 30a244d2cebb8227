from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from streamling.connectors.kafka.config import KafkaSettings
from streamling.connectors.kafka.registry import SchemaRegistry
from streamling.errors import StreamlingError
from streamling.network.policy import ANY_ADDRESS
from streamling.redaction import add_secrets
from tests.connectors.http.test_corpus import CASES as HOSTILE
from tests.fuzz.encodings import ENCODINGS
from tests.network.http.raw import MOST_BYTES, raw_server

_SCHEMA = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}
_WIDER = {**_SCHEMA, "fields": [*_SCHEMA["fields"], {"name": "n", "type": "int", "default": 0}]}  # type: ignore[misc]


class _Scripted(ThreadingHTTPServer):
    """Gives every request the same response and records the requests."""

    def __init__(self) -> None:
        self.status, self.body = 200, b"{}"
        self.asked: list[tuple[str, str | None]] = []
        #: target of the redirect of the first request
        self.location = ""
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: _Scripted

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.asked.append((self.path, self.headers.get("Authorization")))
        moved = self.server.location and self.path != self.server.location
        self.send_response(200 if self.server.location and not moved else self.server.status)
        if moved:
            self.send_header("Location", self.server.location)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    do_POST = do_GET  # noqa: N815

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def scripted() -> Iterator[_Scripted]:
    yield from _serving()


@pytest.fixture
def other() -> Iterator[_Scripted]:
    yield from _serving()


def _serving() -> Iterator[_Scripted]:
    server = _Scripted()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.services
def test_schemas_are_registered_and_found(registry: Any) -> None:
    client = SchemaRegistry(registry.url)
    assert client.find_latest("shop orders/é-value") is None
    first = client.register("shop orders/é-value", _SCHEMA)
    second = client.register("shop orders/é-value", _WIDER)
    assert client.latest("shop orders/é-value").id == second
    assert [one.id for one in client.versions("shop orders/é-value")] == [first, second]
    assert client.by_id(first).schema == _SCHEMA


@pytest.mark.services
def test_an_unknown_subject_or_schema_is_a_user_error(registry: Any) -> None:
    client = SchemaRegistry(registry.url)
    with pytest.raises(StreamlingError, match="has no entry for the subject 'none-value'") as caught:
        client.latest("none-value")
    assert not caught.value.internal
    with pytest.raises(StreamlingError, match="has no entry for the schema id 4000000"):
        client.by_id(4_000_000)


def test_credentials_are_sent_and_never_shown(scripted: _Scripted) -> None:
    scripted.status = 401
    client = SchemaRegistry(scripted.url, username="alice", password="secret-1")
    with pytest.raises(StreamlingError, match="rejected the credentials") as caught:
        client.latest("x")
    assert scripted.asked[0][1] == "Basic " + base64.b64encode(b"alice:secret-1").decode()
    assert "secret-1" not in str(caught.value)


@pytest.mark.parametrize("encode", ENCODINGS.values(), ids=list(ENCODINGS))
@pytest.mark.parametrize("as_json", [True, False])
def test_no_part_of_a_secret_is_shown_in_a_truncated_response(
    scripted: _Scripted, encode: Callable[[str], str], as_json: bool
) -> None:
    secret = "cut/here &never  shown-1234567890"
    add_secrets([secret])
    said = encode(secret)
    for before in (496, 490, 196, 190):
        text = "x" * before + said
        scripted.status = 422
        scripted.body = (json.dumps({"message": text}) if as_json else text).encode()
        with pytest.raises(StreamlingError, match="returned 422") as caught:
            SchemaRegistry(scripted.url).latest("x")
        assert f"x{said[:4]}" not in str(caught.value)


def test_credentials_may_be_part_of_the_url(scripted: _Scripted) -> None:
    scripted.body = json.dumps({"schema": json.dumps(_SCHEMA)}).encode()
    SchemaRegistry(scripted.url.replace("//", "//alice:p%40ss@")).by_id(1)
    assert scripted.asked[0][1] == "Basic " + base64.b64encode(b"alice:p@ss").decode()


@pytest.mark.parametrize(("status", "retriable"), [(500, True), (503, True), (429, True), (422, False)])
def test_transient_statuses_are_retriable(scripted: _Scripted, status: int, retriable: bool) -> None:
    scripted.status, scripted.body = status, json.dumps({"message": "no luck"}).encode()
    with pytest.raises(StreamlingError, match=f"returned {status} for the schema id 1: no luck") as caught:
        SchemaRegistry(scripted.url).by_id(1)
    assert caught.value.retriable is retriable


def test_an_unavailable_registry_is_retriable(scripted: _Scripted) -> None:
    client = SchemaRegistry("http://u:pw-2@127.0.0.1:1/", timeout=1)
    with pytest.raises(StreamlingError, match=r"at http://127.0.0.1:1 does not respond") as caught:
        client.by_id(1)
    assert caught.value.retriable
    assert "pw-2" not in str(caught.value)


@pytest.mark.parametrize("case", HOSTILE, ids=lambda case: case.get("name") or str(case["sends"])[:60])
def test_a_hostile_response_is_an_error_in_time(case: dict[str, Any]) -> None:
    with (
        raw_server(case["sends"], closes=case.get("closes", False)) as server,
        pytest.raises(StreamlingError) as caught,
    ):
        SchemaRegistry(server.url, timeout=0.5).by_id(1)
    assert server.url in str(caught.value)
    if "drip" in str(case["sends"]):
        assert "does not respond: no response within 0.5 s" in str(caught.value)


def test_an_endless_response_is_not_read_to_its_end() -> None:
    parts = ["HTTP/1.1 200 OK\r\n\r\n", {"endless": '{"schema": "'}]
    with (
        raw_server(parts) as server,
        pytest.raises(StreamlingError, match="returned more than 16777216 bytes for") as caught,
    ):
        SchemaRegistry(server.url).by_id(1)
    assert not caught.value.retriable
    assert server.sent < MOST_BYTES


@pytest.mark.parametrize(
    "answer",
    [[], "x", 7, {}, {"id": 1}, {"id": "1", "schema": "{}"}, {"id": 1, "schema": {"type": "long"}}],
)
def test_a_response_in_another_format_is_reported(scripted: _Scripted, answer: Any) -> None:
    scripted.body = json.dumps(answer).encode()
    client = SchemaRegistry(scripted.url)
    with pytest.raises(StreamlingError, match="an unexpected response for the subject 's'") as caught:
        client.latest("s")
    assert not caught.value.internal


@pytest.mark.parametrize("answer", ["x", {}, ["latest"], [1, None]])
def test_versions_in_another_format_are_reported(scripted: _Scripted, answer: Any) -> None:
    scripted.body = json.dumps(answer).encode()
    with pytest.raises(StreamlingError, match="an unexpected response for the subject 's'"):
        SchemaRegistry(scripted.url).versions("s")


def test_a_schema_nested_too_deeply_is_reported(scripted: _Scripted) -> None:
    deep = '{"type":"array","items":' * 5000 + '"long"' + "}" * 5000
    scripted.body = json.dumps({"schema": deep}).encode()
    with pytest.raises(StreamlingError, match="the schema with id 1 is nested too deeply"):
        SchemaRegistry(scripted.url).by_id(1)
    scripted.body = b"[" * 100_000
    with pytest.raises(StreamlingError, match="returned invalid JSON"):
        SchemaRegistry(scripted.url).by_id(2)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_credentials_do_not_follow_a_redirect_to_another_origin(
    scripted: _Scripted, other: _Scripted, status: int, host: str
) -> None:
    scripted.status, scripted.location = status, f"http://{host}:{other.server_port}/schemas/ids/1?token=t0ken"
    client = SchemaRegistry(scripted.url, username="alice", password="secret-1")
    with pytest.raises(StreamlingError, match="which is not followed") as caught:
        client.by_id(1)
    assert f"to {scripted.url} is redirected to http://{host}:{other.server_port}," in str(caught.value)
    assert not caught.value.retriable
    assert not other.asked
    for secret in ("secret-1", "t0ken"):
        assert secret not in str(caught.value)


def test_a_redirect_within_the_registry_is_followed(scripted: _Scripted) -> None:
    scripted.body = json.dumps({"schema": json.dumps(_SCHEMA)}).encode()
    scripted.status, scripted.location = 302, "/moved/schemas/ids/1"
    assert SchemaRegistry(scripted.url, username="alice", password="pw").by_id(1).schema == _SCHEMA
    assert [path for path, _ in scripted.asked] == ["/schemas/ids/1", "/moved/schemas/ids/1"]


def test_the_body_of_a_redirect_is_not_read() -> None:
    parts = ["HTTP/1.1 302 Found\r\nLocation: /again\r\n\r\n", {"endless": "xxxxxxxxxxxxxxxx"}]
    with raw_server(parts) as server, pytest.raises(StreamlingError, match="returned 302"):
        SchemaRegistry(server.url).by_id(1)
    assert server.sent < MOST_BYTES


def test_a_registration_is_never_redirected(scripted: _Scripted) -> None:
    scripted.status, scripted.location = 302, "/moved"
    with pytest.raises(StreamlingError, match="returned 302 for the subject 's'"):
        SchemaRegistry(scripted.url).register("s", _SCHEMA)
    assert len(scripted.asked) == 1


def test_a_response_that_is_not_json_is_reported(scripted: _Scripted) -> None:
    scripted.body = b"<html>"
    with pytest.raises(StreamlingError, match="returned invalid JSON"):
        SchemaRegistry(scripted.url).by_id(1)


def test_a_schema_is_requested_once(scripted: _Scripted) -> None:
    scripted.body = json.dumps({"schema": json.dumps(_SCHEMA)}).encode()
    client = SchemaRegistry(scripted.url)
    assert client.by_id(1) == client.by_id(1)
    assert [path for path, _ in scripted.asked] == ["/schemas/ids/1"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"schema": "message x {}", "schemaType": "PROTOBUF"}, "is PROTOBUF, expected AVRO"),
        ({"schema": json.dumps(_SCHEMA), "references": [{"name": "x"}]}, "refers to other subjects"),
    ],
)
def test_schemas_of_other_kinds_are_rejected(scripted: _Scripted, answer: Any, message: str) -> None:
    scripted.body = json.dumps(answer).encode()
    with pytest.raises(StreamlingError, match=message):
        SchemaRegistry(scripted.url).by_id(1)


@pytest.mark.parametrize("url", ["", "file:///etc/passwd", "localhost:8081"])
def test_only_http_urls_are_accepted(url: str) -> None:
    with pytest.raises(StreamlingError, match=r"kafka_source.schema_registry_url is"):
        SchemaRegistry.of(KafkaSettings(schema_registry_url=url), "kafka_source", ANY_ADDRESS)
