"""The client itself: redirects, rejected addresses, TLS."""

from __future__ import annotations

import gzip
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trustme

from streamling.errors import StreamlingError
from streamling.network.http.client import HttpClient, Target
from streamling.network.http.connection import Response
from streamling.network.policy import NetworkPolicy
from tests.harness.endpoint import Reply, Request, echo, endpoint


@contextmanager
def client(*, deny_private: bool = False) -> Iterator[HttpClient]:
    made = HttpClient(NetworkPolicy(deny_private))
    try:
        yield made
    finally:
        made.close()


def target(url: str, max_bytes: int = 10_000) -> Target:
    return Target(url, headers={}, seconds=10, max_bytes=max_bytes)


def post(url: str, *, deny_private: bool = False, max_bytes: int = 10_000) -> Response:
    with client(deny_private=deny_private) as made:
        return made.run(made.post(target(url, max_bytes), b"[]")).result(30)


def test_connections_are_reused():
    with endpoint(echo) as server, client() as made:
        for _ in range(5):
            made.run(made.post(target(server.url), b"[]")).result(30)
    assert len(server.requests) == 5
    assert server.connections == 1


def test_a_proxy_in_the_environment_is_ignored(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with endpoint(echo) as server:
        assert post(server.url).status == 200


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_on_the_same_host_is_followed_with_the_body(status):
    def moved(request: Request) -> Reply:
        if request.path == "/rows":
            return Reply(status, headers={"Location": "/new"})
        return echo(request)

    with endpoint(moved) as server:
        assert post(server.url).body == b"[]"
    assert [request.path for request in server.requests] == ["/rows", "/new"]


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize(
    ("location", "origin"),
    [
        ("http://localhost:{port}/x", "http://localhost:{port}"),
        ("//169.254.169.254/latest", "http://169.254.169.254:80"),
        ("http://127.0.0.1:{other}/rows", "http://127.0.0.1:{other}"),
        ("https://127.0.0.1:{other}/rows", "https://127.0.0.1:{other}"),
        ("http://127.0.0.1/rows?token=t0ken", "http://127.0.0.1:80"),
        ("http://me:pa55@127.0.0.1:{other}/rows", "http://127.0.0.1:{other}"),
    ],
)
def test_a_redirect_to_another_origin_is_rejected_and_nothing_is_sent_there(status, location, origin):
    with endpoint(echo) as other:
        moved = location.replace("{other}", str(other.port))
        reply = lambda request: Reply(status, headers={"Location": moved.replace("{port}", str(server.port))})  # noqa: E731
        with endpoint(reply) as server, pytest.raises(StreamlingError, match="which is not allowed") as raised:
            post(server.url)
    expected = origin.replace("{other}", str(other.port)).replace("{port}", str(server.port))
    assert f"is redirected from http://127.0.0.1:{server.port} to {expected}," in str(raised.value)
    assert "t0ken" not in str(raised.value)
    assert "pa55" not in str(raised.value)
    assert not raised.value.retriable
    assert not other.requests


def test_a_redirect_from_https_to_http_is_rejected(monkeypatch, tmp_path):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    with endpoint(echo) as plain, tls_endpoint(authority, "127.0.0.1") as server:
        server.answer = lambda request: Reply(307, headers={"Location": f"http://127.0.0.1:{server.port}/rows"})
        with pytest.raises(StreamlingError, match=r"redirected from https://127.* to http://127.*not allowed"):
            post(server.url)
    assert not plain.requests


@pytest.mark.parametrize("location", ["http://[::1/", "ftp://127.0.0.1/x", "file:///etc/passwd"])
def test_a_redirect_to_an_invalid_url_is_rejected(location):
    with (
        endpoint(lambda request: Reply(307, headers={"Location": location})) as server,
        pytest.raises(StreamlingError, match="redirected to an invalid URL") as raised,
    ):
        post(server.url)
    assert not raised.value.retriable


def test_an_endless_redirect_is_rejected():
    with (
        endpoint(lambda request: Reply(308, headers={"Location": "/rows"})) as server,
        pytest.raises(StreamlingError, match="too many times"),
    ):
        post(server.url)
    assert len(server.requests) == 5


def test_a_redirect_that_would_drop_the_body_is_an_ordinary_response():
    with endpoint(lambda request: Reply(302, headers={"Location": "/new"})) as server:
        assert post(server.url).status == 302


def test_the_limit_of_a_compressed_response_applies_after_decompression():
    bomb = gzip.compress(b" " * 10_000_000)
    with (
        endpoint(lambda request: Reply(text=bomb, headers={"Content-Encoding": "gzip"})) as server,
        pytest.raises(StreamlingError, match="more than 100000 bytes"),
    ):
        post(server.url, max_bytes=100_000)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]"])
def test_private_addresses_are_rejected_in_any_notation(host):
    with (
        endpoint(echo) as server,
        pytest.raises(StreamlingError, match=r"private address, and network\.deny_private is on") as raised,
    ):
        post(f"http://{host}:{server.port}/rows", deny_private=True)
    assert not raised.value.retriable
    assert not server.requests


def test_an_invalid_address_is_a_permanent_error():
    with pytest.raises(StreamlingError, match="the URL is invalid") as raised:
        post("http://2130706433/rows")
    assert not raised.value.retriable


# ── TLS ──────────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def tls_endpoint(authority: trustme.CA, name: str):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    with endpoint(echo, tls=context) as server:
        yield server


def test_tls_with_a_private_authority(monkeypatch, tmp_path):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    with tls_endpoint(authority, "127.0.0.1") as server:
        assert post(server.url).status == 200


def test_a_server_without_tls_is_reported():
    with endpoint(echo) as server, pytest.raises(StreamlingError, match="TLS handshake failed") as raised:
        post(server.url.replace("http:", "https:"))
    assert raised.value.retriable


def test_a_name_is_connected_through_the_address_that_responds():
    with endpoint(echo) as server:  # listens on IPv4 only; the name may resolve to IPv6 first
        assert post(f"http://localhost:{server.port}/rows").status == 200


def test_an_unresolvable_name_is_a_transient_error():
    with pytest.raises(StreamlingError, match=r"the host name 'nowhere\.invalid' cannot be resolved") as raised:
        post("http://nowhere.invalid/rows")
    assert raised.value.retriable


@pytest.mark.parametrize("trusted", [True, False])
def test_a_certificate_mismatch_is_a_permanent_error(monkeypatch, tmp_path, trusted):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    with (
        tls_endpoint(authority, "another.example") as server,
        pytest.raises(StreamlingError, match="the server's certificate cannot be verified") as raised,
    ):
        post(server.url)
    assert not raised.value.retriable
    assert raised.value.remedy
    assert not server.requests
