"""Requests that must not reach the admin API, sent to a real server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection

import pytest
from starlette.responses import PlainTextResponse

from streamling.pipeline.config import AppConfig
from streamling.serve.admin.guard import guarded_by_token
from streamling.serve.admin.server import create_server, listen
from tests.serve.admin.server_thread import started

TOKEN = "correct-horse-battery"


@contextmanager
def guarded(token: str | None = None) -> Iterator[int]:
    server = create_server(guarded_by_token(PlainTextResponse("rows"), token))
    with listen(AppConfig(admin_api_port=0)) as listening, started(server, listening) as port:
        yield port


@pytest.fixture(scope="module")
def open_port() -> Iterator[int]:
    with guarded() as port:
        yield port


@pytest.fixture(scope="module")
def protected_port() -> Iterator[int]:
    with guarded(TOKEN) as port:
        yield port


def ask(port: int, path: str = "/admin/topology", method: str = "GET", **headers: str) -> tuple[int, str, dict]:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, headers=names)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, text, dict(response.getheaders())


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "localhost", "[::1]:{port}"])
def test_names_of_this_machine_are_accepted(open_port, host):
    assert ask(open_port, host=host.format(port=open_port))[:2] == (200, "rows")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "10.0.0.1", ""])
def test_foreign_host_names_are_refused(open_port, host):
    status, text, _ = ask(open_port, host=host)
    assert status == 403
    assert "rows" not in text


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "http://localhost"])
def test_requests_of_other_web_sites_are_refused(open_port, method, origin):
    assert ask(open_port, method=method, origin=origin)[0] == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_requests_that_a_browser_marks_as_foreign_are_refused(open_port, site):
    assert ask(open_port, sec_fetch_site=site)[0] == 403


def test_requests_of_pages_of_this_server_are_accepted(open_port):
    assert ask(open_port, origin=f"http://127.0.0.1:{open_port}", sec_fetch_site="same-origin")[0] == 200


def test_pages_may_load_nothing_from_elsewhere_and_run_nothing_inline(open_port):
    headers = ask(open_port)[2]
    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("given", [{}, {"authorization": "Bearer wrong"}, {"authorization": TOKEN}])
def test_with_a_token_requests_need_it(protected_port, given):
    status, _, headers = ask(protected_port, **given)
    assert status == 401
    assert headers["www-authenticate"] == "Bearer"


def test_the_right_token_is_accepted_under_any_name(protected_port):
    assert ask(protected_port, host="streamling.internal", authorization=f"Bearer {TOKEN}")[0] == 200


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_probes_need_no_token(protected_port, path):
    assert ask(protected_port, path)[0] == 200


def test_cross_site_requests_are_refused_even_with_the_token(protected_port):
    headers = {"authorization": f"Bearer {TOKEN}", "origin": "http://evil.example"}
    assert ask(protected_port, **headers)[0] == 403
