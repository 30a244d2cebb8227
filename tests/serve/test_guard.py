"""What a request has to pass before it reaches the API."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from pydantic import SecretStr

from streamling.serve.access import Access, RateLimit
from streamling.serve.admin.guard import MAX_BODY_BYTES
from streamling.serve.config import ServeSettings, TokenSettings
from streamling.serve.guard import guarded

TOKEN = "a-token-of-some-length"
HOST = ("host", "127.0.0.1:4195")
JSON = ("content-type", "application/json")


async def echo(scope, receive, send) -> None:
    """Answers with what it received."""
    message = await receive()
    who = scope["principal"].name if "principal" in scope else None
    body = json.dumps({"who": who, "body": message["body"].decode()}).encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


def ask(
    *headers: tuple[str, str],
    method: str = "GET",
    path: str = "/api/v1/pipelines",
    parts: tuple[bytes, ...] = (),
    **options,
) -> tuple[int, Any]:
    settings = ServeSettings(tokens={"ci": TokenSettings(value=SecretStr(TOKEN))} if options.get("tokens") else {})
    limit = options.get("limit") or RateLimit(ServeSettings(requests_per_minute=600))
    guard = guarded(echo, Access.of(settings), limit, frozenset({"127.0.0.1", "localhost", "[::1]", "api.example"}))
    waiting = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    waiting.append({"type": "http.request", "body": b"", "more_body": False})
    sent: list[Any] = []

    async def receive():
        return waiting.pop(0)

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "headers": [(n.encode(), v.encode()) for n, v in headers]}
    asyncio.run(guard(scope, receive, send))
    return sent[0]["status"], json.loads(sent[1]["body"])


def refusal(*headers: tuple[str, str], **options: Any) -> tuple[int, str]:
    status, body = ask(*headers, **options)
    return status, body["error"]["code"]


def test_a_body_arrives_as_it_was_sent():
    assert ask(HOST, JSON, method="POST", parts=(b"{", b"}")) == (200, {"who": "local", "body": "{}"})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:4195", "LOCALHOST:80", "[::1]:4195", "api.example"])
def test_known_hosts_are_accepted(host):
    assert ask(("host", host))[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "evil.example:4195"])
def test_other_hosts_are_refused(host):
    assert refusal(("host", host)) == (403, "unknown_host")


def test_requests_of_other_web_sites_are_refused():
    assert ask(HOST, ("origin", "http://127.0.0.1:4195"))[0] == 200
    for origin in ("http://evil.example", "null", "http://127.0.0.1:9999"):
        assert refusal(HOST, ("origin", origin)) == (403, "foreign_origin")
    assert refusal(HOST, ("origin", "http://evil.example"), path="/healthz") == (403, "foreign_origin")


def test_a_token_is_checked_except_for_probes():
    assert refusal(HOST, tokens=True) == (401, "unauthorized")
    assert ask(HOST, ("authorization", f"Bearer {TOKEN}"), tokens=True)[1]["who"] == "ci"
    assert ask(HOST, path="/healthz", tokens=True) == (200, {"who": None, "body": ""})
    assert refusal(HOST, path="/healthz/", tokens=True) == (401, "unauthorized")


def test_too_many_requests_are_refused_also_those_with_a_wrong_token():
    limit = RateLimit(ServeSettings(requests_per_minute=60), lambda: 0.0)
    answers = [refusal(HOST, tokens=True, limit=limit) for _ in range(11)]
    assert answers == [(401, "unauthorized")] * 10 + [(429, "too_many_requests")]
    assert ask(HOST, ("authorization", f"Bearer {TOKEN}"), tokens=True, limit=limit)[0] == 200


def test_a_large_body_is_refused_before_it_has_arrived():
    part = b" " * (MAX_BODY_BYTES // 2)
    assert ask(HOST, JSON, method="PUT", parts=(part, part))[0] == 200
    assert refusal(HOST, JSON, method="PUT", parts=(part, part, b" ", part)) == (413, "too_large")


def test_a_body_must_be_json():
    assert ask(HOST, ("content-type", "application/json; charset=utf-8"), method="POST", parts=(b"1",))[0] == 200
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""):
        assert refusal(HOST, ("content-type", kind), method="POST", parts=(b"1",)) == (415, "wrong_type")
    assert ask(HOST, method="POST")[0] == 200  # without a body


def test_a_token_has_a_limited_number_of_open_requests():
    async def answers() -> list[int]:
        released, sent = asyncio.Event(), []

        async def hang(scope, receive, send) -> None:
            await released.wait()
            await echo(scope, receive, send)

        guard = guarded(hang, Access({}), RateLimit(ServeSettings(requests_per_minute=60_000)), {"127.0.0.1"})

        async def receive():
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message):
            if message["type"] == "http.response.start":
                sent.append(message["status"])

        def request(path: str) -> asyncio.Task[None]:
            headers = [(name.encode(), value.encode()) for name, value in (HOST,)]
            scope = {"type": "http", "method": "GET", "path": path, "headers": headers}
            return asyncio.ensure_future(guard(scope, receive, send))

        held = [request("/api/v1/pipelines") for _ in range(200)]
        await asyncio.sleep(0)
        await request("/api/v1/pipelines")
        refused = sent.copy()
        probe = request("/healthz")
        released.set()
        await asyncio.gather(*held, probe, request("/api/v1/pipelines"))
        return [*refused, *sorted(set(sent[1:]))]

    assert asyncio.run(answers()) == [429, 200]
