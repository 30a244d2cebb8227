"""A system that a pipeline connects to wants more than rows: credentials, other systems, memory, the terminal."""

from __future__ import annotations

import gzip
import re

import pytest

from tests.harness.endpoint import Reply, Request, endpoint
from tests.serve.attacks.attempts import Attacker
from tests.serve.attacks.conftest import SECRETS
from tests.serve.attacks.definitions import AVRO_SOURCE, CLICKHOUSE_SOURCE, to_handler, to_sink

pytestmark = [pytest.mark.spark, pytest.mark.slow]

OWN = "my-own-password-0815"
ESCAPES = "\x1b]0;owned\x07\x1b[2J\r\nERROR forged line \u202e"


def _registry(url: str) -> dict[str, object]:
    own = {"schema_registry_url": url, "schema_registry_username": "me", "schema_registry_password": OWN}
    return {"kafka_source": own}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_registry_redirects_to_another_host_to_get_the_password_there(evil: Attacker, listener, status):
    with endpoint(lambda request: Reply(status, headers={"Location": f"{listener.url}{request.path}"})) as registry:
        outcome = evil.create(AVRO_SOURCE, _registry(registry.url.removesuffix("/rows")))
        assert registry.requests
    assert outcome.status == 422
    assert not listener.received


@pytest.mark.parametrize("location", ["file:///proc/self/environ", "ftp://127.0.0.1/x", "gopher://x", "//127.0.0.1:1/"])
def test_a_registry_redirects_to_another_scheme(evil: Attacker, location):
    with endpoint(lambda request: Reply(302, headers={"Location": location})) as registry:
        outcome = evil.create(AVRO_SOURCE, _registry(registry.url.removesuffix("/rows")))
        assert registry.requests
    assert outcome.status == 422
    assert "STREAMLING__" not in outcome.texts


@pytest.mark.parametrize("status", [307, 308])
def test_a_handler_redirects_rows_and_headers_to_another_host(evil: Attacker, listener, status):
    def redirect(request: Request) -> Reply:
        return Reply(status, headers={"Location": f"{listener.url}/stolen"})

    with endpoint(redirect) as peer:
        header = ', headers: {Authorization: "Bearer my-own-password-0815"}'
        outcome = evil.create(to_handler(evil.server.folder, peer.url, header))
        assert peer.requests
    assert "redirected" in outcome.texts
    assert not listener.received


def test_a_clickhouse_server_redirects_to_another_host(evil: Attacker, listener):
    with endpoint(lambda request: Reply(307, headers={"Location": listener.url})) as peer:
        evil.create(CLICKHOUSE_SOURCE, {"clickhouse_source": {"url": peer.url.removesuffix("/rows"), "password": OWN}})
        assert peer.requests
    assert not listener.received


@pytest.mark.parametrize(
    "body",
    [
        b"x" * (20 << 20),
        gzip.compress(b" " * (64 << 20)),
        b"[" * 200_000,
        b'{"schema": "' + b"{" * 100_000 + b'"}',
        b"\xff\xfe\x00",
        b"",
    ],
)
def test_the_server_survives_an_answer_of_a_registry_that_is_large_deep_or_no_text(evil: Attacker, body):
    """Shows that no pipeline runs on such an answer, that its text is not passed on, and that the server goes on. It
    does not show how much memory the answer takes in the meantime."""
    with endpoint(lambda request: Reply(text=body)) as registry:
        outcome = evil.create(AVRO_SOURCE, _registry(registry.url.removesuffix("/rows")))
        assert registry.requests
    assert outcome.status == 422 or re.search(r'"state": ?"(failed|restarting)"', outcome.texts)
    assert len(outcome.texts) < 100_000
    assert evil.client.get("/pipelines").status == 200


def test_a_handler_answers_with_a_bomb(evil: Attacker):
    bomb = gzip.compress(b"[" + b" " * (100 << 20) + b"]", 1)
    with endpoint(lambda request: Reply(text=bomb, headers={"Content-Encoding": "gzip"})) as peer:
        outcome = evil.create(to_handler(evil.server.folder, peer.url))
    assert "more than 67108864 bytes" in outcome.texts


@pytest.mark.parametrize("system", ["registry", "handler", "clickhouse"])
def test_an_error_message_repeats_the_password_and_commands_the_terminal(evil: Attacker, system):
    def echo(request: Request) -> Reply:
        text = f'{{"message": "{request.headers} {OWN}"}}{ESCAPES}'
        return Reply(400, text=text.encode(), headers={"X-ClickHouse-Exception-Code": "516"})

    folder, before = evil.server.folder, len(evil.server.log())
    with endpoint(echo) as peer:
        url = peer.url.removesuffix("/rows")
        header = f', headers: {{X-Key: "{OWN}"}}'
        outcome = {
            "registry": lambda: evil.create(AVRO_SOURCE, _registry(url)),
            "handler": lambda: evil.create(to_handler(folder, peer.url, header)),
            "clickhouse": lambda: evil.create(CLICKHOUSE_SOURCE, {"clickhouse_source": {"url": url, "password": OWN}}),
        }[system]()
        assert peer.requests
    log = evil.server.log()[before:]
    for text in (outcome.texts, log):
        assert OWN not in text
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert not [line for line in log.splitlines() if line.startswith("ERROR forged line")]


def test_a_webhook_answers_with_the_header_of_another_namespace_and_finds_nothing(evil: Attacker):
    """The secrets that the server masks include those that this pipeline never had."""
    with endpoint(lambda request: Reply(400, text=SECRETS["header"].encode())) as peer:
        outcome = evil.create(to_sink(evil.server.folder, f'type: webhook, url: "{peer.url}"'))
    assert not outcome.reveals([SECRETS["header"]])
