from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.harness.services import open_folder

from streamling.dev.services.postgres import LocalPostgres
from streamling.errors import StreamlingError

pytestmark = pytest.mark.services


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_folder() as made:
        yield made


def test_it_is_a_real_postgres_on_loopback(folder: Path) -> None:
    with LocalPostgres(folder) as server, psycopg.connect(server.dsn) as connection:
        assert server.running
        [[version, address, zone]] = connection.execute(
            "SELECT current_setting('server_version_num')::int, current_setting('listen_addresses'), "
            "current_setting('timezone')"
        ).fetchall()

    assert version >= 180000
    assert address == "127.0.0.1"
    assert zone == "UTC"


def test_data_is_there_after_a_restart(folder: Path) -> None:
    server = LocalPostgres(folder)
    for statement in ("CREATE TABLE t AS SELECT 7 AS x", "SELECT x FROM t"):
        server.start()
        with psycopg.connect(server.dsn) as connection:
            connection.execute(statement)  # type: ignore[arg-type]
        server.stop()
        assert not server.running


def test_stop_does_not_wait_for_clients(folder: Path) -> None:
    server = LocalPostgres(folder)
    server.start()
    with psycopg.connect(server.dsn) as connection:
        server.stop()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    server.stop()


def test_a_requested_port_is_used(folder: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with LocalPostgres(folder, port=port) as server:
        assert server.port == port


def test_a_port_in_use_is_reported(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StreamlingError, match=f"did not start on port {port}"):
            LocalPostgres(folder, port=port).start()


def test_it_works_in_a_folder_closed_to_others(folder: Path) -> None:
    # as root, the server runs as another user, who could not enter
    (folder / "closed").mkdir(mode=0o700)
    server = LocalPostgres(folder / "closed" / "postgres")
    try:
        for statement in ("CREATE TABLE t AS SELECT 7 AS x", "SELECT x FROM t"):
            with server, psycopg.connect(server.dsn) as connection:
                connection.execute(statement)  # type: ignore[arg-type]
        data = server.data_folder
        assert data.exists()
    finally:
        server.delete()
    assert not data.exists()


def test_committed_rows_survive_a_kill(folder: Path) -> None:
    server = LocalPostgres(folder)
    server.start()
    with psycopg.connect(server.dsn) as connection:
        connection.execute("CREATE TABLE t AS SELECT 7 AS x")
    port = server.port

    server.kill()
    assert not server.running

    with LocalPostgres(folder) as again, psycopg.connect(again.dsn) as connection:
        assert again.port == port
        assert connection.execute("SELECT x FROM t").fetchall() == [(7,)]
