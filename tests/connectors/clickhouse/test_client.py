"""The client against the real server, and against servers that misbehave."""

from __future__ import annotations

import socket
import ssl
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import trustme

from streamling import __version__
from streamling.connectors.clickhouse.client import ClickHouseClient
from streamling.connectors.clickhouse.config import ClickHouseSettings
from streamling.connectors.clickhouse.errors import ServerError
from streamling.connectors.clickhouse.server import ClickHouseServer, TableName, identifier, literal
from streamling.dev.services.clickhouse import LocalClickHouse
from streamling.errors import StreamlingError, Unreachable
from streamling.network.policy import ANY_ADDRESS
from tests.connectors.clickhouse.driver import Database
from tests.harness.clickhouse import inject_fault
from tests.harness.endpoint import Reply, Request, endpoint
from tests.harness.services import ClickHouse

services = pytest.mark.services
ODD = 'it\'s \\ `odd` "text" \t\n\r ü {x:String} \0!'


def client_of(url: str, *, timeout: float = 30, **settings: Any) -> ClickHouseClient:
    config = ClickHouseSettings.model_validate({"url": url, "password": "hunter2", **settings})
    return ClickHouseClient(
        ClickHouseServer.of(config, "clickhouse_sink", ANY_ADDRESS), application_id="pipe line\n7", timeout=timeout
    )


# ── the real server ─────────────────────────────────────────────────────────────────────────────────────────


@services
def test_rows_are_python_values(database: Database) -> None:
    with database.client() as client:
        assert client.rows("SELECT number AS n, toString(number) AS t FROM numbers(2)") == [
            {"n": 0, "t": "0"},
            {"n": 1, "t": "1"},
        ]
        assert client.rows("SELECT toUInt64(-1) AS n, NULL AS x WHERE 1") == [{"n": 2**64 - 1, "x": None}]
        assert client.rows("SELECT 1 WHERE 0") == []


@services
def test_parameters_literals_and_identifiers_may_contain_anything(database: Database) -> None:
    with database.client() as client:
        sql = f"SELECT {{p:String}} AS p, {literal(ODD)} AS l, 1 AS {identifier(ODD)}"
        assert client.rows(sql, {"p": ODD}) == [{"p": ODD, "l": ODD, ODD: 1}]


@services
@pytest.mark.parametrize("codec", [None, "gzip", "zstd", "lz4"])
def test_inserted_rows_are_read_back_as_arrow(database: Database, codec: str | None) -> None:
    from streamling.connectors.clickhouse.compression import Compression

    database.execute("CREATE TABLE t (a Int64, b String) ENGINE MergeTree ORDER BY a")
    rows = pa.table({"a": pa.array(range(1000)), "b": pa.array(["x"] * 1000)})
    output = pa.BufferOutputStream()
    with pa.ipc.new_stream(output, rows.schema) as writer:
        writer.write(rows)
    body = Compression(codec or "none").compress(output.getvalue())
    with database.client() as client:
        client.insert("INSERT INTO t FORMAT ArrowStream", body.to_pybytes(), encoding=codec, settings={})
        assert pa.Table.from_batches(client.arrow("SELECT a, b FROM t ORDER BY a")).to_pydict() == rows.to_pydict()


@services
def test_a_wrong_password_is_one_sentence(clickhouse: ClickHouse) -> None:
    with client_of(clickhouse.url) as client, pytest.raises(ServerError) as caught:
        client.rows("SELECT 1")
    assert str(caught.value).endswith("rejected the user 'default' or the password")
    assert caught.value.remedy == "check clickhouse_sink.user and clickhouse_sink.password"
    assert not caught.value.retriable
    assert "hunter2" not in str(caught.value)


@services
def test_a_missing_database_is_one_sentence(database: Database) -> None:
    with database.client(database="nowhere") as client, pytest.raises(ServerError) as caught:
        client.rows("SELECT 1")
    assert caught.value.code == 81
    assert caught.value.remedy == "create the database, or correct clickhouse_sink.database"
    assert not caught.value.retriable


@services
def test_an_error_of_a_statement_has_code_and_message(database: Database) -> None:
    with database.client() as client:
        with pytest.raises(ServerError, match="reported error 62: Syntax error") as caught:
            client.execute("SELEC 1")
        assert (caught.value.code, caught.value.internal, caught.value.retriable) == (62, False, False)
        with pytest.raises(ServerError, match="does not exist") as caught:
            client.execute("INSERT INTO nothing VALUES (1)")
        assert caught.value.code == 60
        assert client.rows("SELECT 1 AS one") == [{"one": 1}], "the connection can be used again"


@services
@pytest.mark.parametrize("tagged", [True, False])
def test_an_error_within_a_successful_response_is_found(
    local_clickhouse: LocalClickHouse, local_database: Database, tagged: bool
) -> None:
    statements: list[Callable[[ClickHouseClient], object]] = [
        lambda client: client.rows("SELECT number AS faulty FROM numbers(10)"),
        lambda client: client.execute("SELECT 'faulty'"),
        lambda client: list(client.arrow("SELECT number AS faulty FROM numbers(10)")),
    ]
    error = {"code": 241, "name": "MEMORY_LIMIT_EXCEEDED", "message": "Too much.", "tagged": tagged}
    for run in statements:
        inject_fault(local_clickhouse, "exception", match="faulty", bytes=12, **error)
        with local_database.client() as client, pytest.raises(ServerError) as caught:
            run(client)
        assert (caught.value.code, caught.value.retriable) == (241, True)
        assert "Too much" in str(caught.value)


@services
@pytest.mark.parametrize("action", ["close_before", "close_after"])
def test_a_lost_connection_can_be_retried_and_is_made_again(
    local_clickhouse: LocalClickHouse, local_database: Database, action: str
) -> None:
    with local_database.client() as client:
        client.rows("SELECT 1")
        inject_fault(local_clickhouse, action, match="faulty")
        with pytest.raises(StreamlingError, match=r"the connection to ClickHouse at .* was lost") as caught:
            client.rows("SELECT 'faulty' AS x")
        assert caught.value.retriable
        assert not isinstance(caught.value, Unreachable)
        assert client.rows("SELECT 'faulty' AS x") == [{"x": "faulty"}]


@services
def test_a_response_that_ends_early_is_not_taken_for_a_complete_one(
    local_clickhouse: LocalClickHouse, local_database: Database
) -> None:
    with local_database.client() as client:
        for run in (client.rows, lambda sql: list(client.arrow(sql))):
            inject_fault(local_clickhouse, "truncate", match="faulty", bytes=30)  # two complete lines of JSON
            with pytest.raises(StreamlingError) as caught:
                run("SELECT toString(number) AS faulty FROM numbers(10)")
            assert caught.value.retriable


@services
def test_a_server_that_is_silent_for_too_long_can_be_retried(local_clickhouse: LocalClickHouse) -> None:
    inject_fault(local_clickhouse, "delay", match="faulty", seconds=2)
    login = {"user": local_clickhouse.user, "password": local_clickhouse.password}
    with client_of(local_clickhouse.url, timeout=0.3, **login) as client, pytest.raises(StreamlingError) as caught:
        client.rows("SELECT 'faulty'")
    assert "no answer within 0.3 s" in str(caught.value)
    assert caught.value.retriable


# ── other servers ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_port_that_nothing_listens_on_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with client_of(f"http://127.0.0.1:{port}") as client, pytest.raises(Unreachable) as caught:
        client.rows("SELECT 1")
    assert str(caught.value) == f"ClickHouse at http://127.0.0.1:{port} does not respond: Connection refused"
    assert caught.value.remedy == "start the server, or correct clickhouse_sink.url"


def test_a_host_that_does_not_exist_is_one_sentence() -> None:
    with client_of("http://nowhere.invalid:8123") as client, pytest.raises(Unreachable) as caught:
        client.rows("SELECT 1")
    assert "does not respond: the host name cannot be resolved" in str(caught.value)


@pytest.mark.parametrize(("status", "retriable"), [(404, False), (302, False), (502, True), (503, True), (429, True)])
def test_a_status_without_an_exception_says_whether_to_retry(status: int, retriable: bool) -> None:
    with (
        endpoint(lambda request: Reply(status, b"<html>what?</html>")) as server,
        client_of(server.url) as client,
        pytest.raises(ServerError) as caught,
    ):
        client.execute("SELECT 1")
    assert f"returned status {status}" in str(caught.value)
    assert caught.value.retriable is retriable
    if not retriable:
        assert caught.value.remedy == "check clickhouse_sink.url: it must be the HTTP interface of ClickHouse"


def test_a_server_of_something_else_that_answers_everything_is_an_error() -> None:
    with (
        endpoint(lambda request: Reply(200, b"<html>hello</html>")) as server,
        client_of(server.url) as client,
        pytest.raises(StreamlingError, match="sent an incomplete response"),
    ):
        client.rows("SELECT 1")


def test_a_request_has_login_database_and_application() -> None:
    with endpoint() as server, client_of(server.url, user="alice", database="d b") as client:
        client.insert("INSERT INTO t FORMAT X", b"data", encoding="gzip", settings={"async_insert": "0"})
    (request,) = server.requests
    assert request.text == b"data"
    assert request.headers["Authorization"] == "Basic " + b64encode(b"alice:hunter2").decode()
    assert request.headers["User-Agent"] == f"streamling/{__version__} app=pipe line_7"
    assert request.headers["Content-Encoding"] == "gzip"
    assert "database=d+b" in request.path
    assert "query=INSERT+INTO+t+FORMAT+X" in request.path
    assert "async_insert=0" in request.path


def test_a_login_within_the_url_counts_and_is_not_shown() -> None:
    with endpoint(lambda request: Reply(404)) as server:
        url = server.url.replace("http://", "http://bob:p%40ss@")
        with client_of(url) as client, pytest.raises(ServerError) as caught:
            client.execute("SELECT 1")
    assert server.requests[0].headers["Authorization"] == "Basic " + b64encode(b"bob:p@ss").decode()
    assert "p@ss" not in str(caught.value)
    assert "p%40ss" not in str(caught.value)


def test_a_server_may_be_behind_a_path() -> None:
    def answer(request: Request) -> Reply:
        return Reply(200 if request.path.startswith("/click/house?") else 404)

    with endpoint(answer) as server, client_of(f"http://127.0.0.1:{server.port}/click/house") as client:
        client.execute("SELECT 1")


def test_a_url_that_is_not_one_is_an_error() -> None:
    with pytest.raises(StreamlingError, match=r"clickhouse_sink\.url is not an http or https URL"):
        ClickHouseServer.of(ClickHouseSettings.model_construct(url="clickhouse:9000"), "clickhouse_sink", ANY_ADDRESS)


def test_a_table_may_be_named_with_its_database() -> None:
    server = ClickHouseServer.of(ClickHouseSettings(database="here"), "clickhouse_sink", ANY_ADDRESS)
    assert TableName.parse("t", server) == TableName("here", "t")
    assert TableName.parse("there.t", server) == TableName("there", "t")


# ── TLS ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def authority(tmp_path: Path) -> trustme.CA:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    return authority


def tls(authority: trustme.CA, host: str = "127.0.0.1") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(host).configure_cert(context)
    return context


def test_a_certificate_of_the_configured_authority_is_accepted(authority: trustme.CA, tmp_path: Path) -> None:
    with endpoint(tls=tls(authority)) as server, client_of(server.url, ssl_ca_location=tmp_path / "ca.pem") as client:
        client.execute("SELECT 1")
    assert len(server.requests) == 1


@pytest.mark.parametrize(("host", "trusted"), [("127.0.0.1", False), ("example.com", True)], ids=["unknown", "host"])
def test_a_certificate_that_cannot_be_verified_is_an_error(authority, tmp_path, host, trusted) -> None:
    more = {"ssl_ca_location": tmp_path / "ca.pem"} if trusted else {}
    with (
        endpoint(tls=tls(authority, host)) as server,
        client_of(server.url, **more) as client,
        pytest.raises(StreamlingError, match=r"the certificate of ClickHouse at .* cannot be verified") as caught,
    ):
        client.execute("SELECT 1")
    assert not caught.value.retriable
    assert caught.value.remedy == "set clickhouse_sink.ssl_ca_location to the certificate of its authority"
    assert server.requests == []


def test_a_port_without_encryption_is_one_sentence() -> None:
    with (
        endpoint() as server,
        client_of(server.url.replace("http:", "https:")) as client,
        pytest.raises(StreamlingError, match="the TLS handshake failed") as caught,
    ):
        client.execute("SELECT 1")
    assert not caught.value.retriable


def test_a_file_that_is_not_a_certificate_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "empty.pem"
    file.write_text("")
    complaint = r"clickhouse_sink\.ssl_ca_location: .*empty\.pem cannot be used"
    client = client_of("https://127.0.0.1:1", ssl_ca_location=file)
    with client, pytest.raises(StreamlingError, match=complaint):
        client.execute("SELECT 1")
