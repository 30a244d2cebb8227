from __future__ import annotations

import http.client
import json
import threading
from pathlib import Path

import pytest
from tests.harness.clickhouse import query, request
from tests.harness.pipelines import eventually

from streamling.dev.services.clickhouse import LocalClickHouse

pytestmark = pytest.mark.services


def test_data_and_port_survive_a_restart(tmp_path: Path) -> None:
    server = LocalClickHouse(tmp_path / "clickhouse")
    with server:
        url = server.url
        query(server, "CREATE DATABASE d")
        query(server, "CREATE TABLE d.t (a Int64) ENGINE MergeTree ORDER BY a AS SELECT 7")
    assert not server.running
    with LocalClickHouse(tmp_path / "clickhouse") as again:
        assert again.url == url
        assert query(again, "SELECT a FROM d.t") == "7\n"


def test_acknowledged_rows_survive_kills(tmp_path: Path) -> None:
    server = LocalClickHouse(tmp_path / "clickhouse")
    server.start()
    query(server, "CREATE TABLE t (a Int64) ENGINE MergeTree ORDER BY a")
    acknowledged: list[int] = []
    for round in range(3):
        expected = len(acknowledged) + 20
        writer = threading.Thread(target=_insert_until_it_fails, args=(server, round * 10_000, acknowledged))
        writer.start()
        eventually(lambda expected=expected: len(acknowledged) >= expected)
        server.kill()
        writer.join()
        assert not server.running
        server.start()
        found = {int(line) for line in query(server, "SELECT a FROM t").split()}
        assert found >= set(acknowledged)
    server.delete()
    assert not server.folder.exists()


def _insert_until_it_fails(server: LocalClickHouse, first: int, acknowledged: list[int]) -> None:
    value = first
    try:
        while request(server, f"{value}\n", query="INSERT INTO t FORMAT CSV").status == 200:
            acknowledged.append(value)
            value += 1
    except (http.client.HTTPException, OSError):
        pass


def test_the_variables_are_those_of_source_and_sink(tmp_path: Path) -> None:
    server = LocalClickHouse(tmp_path / "clickhouse", port=19_999, user="alice", password="secret")
    values = {"URL": "http://127.0.0.1:19999", "USER": "alice", "PASSWORD": "secret", "DATABASE": "default"}
    assert server.variables() == {
        f"STREAMLING__CLICKHOUSE_{side}__{name}": value for side in ("SOURCE", "SINK") for name, value in values.items()
    }


def test_user_and_password_are_checked(tmp_path: Path) -> None:
    with LocalClickHouse(tmp_path / "clickhouse", user="alice", password="") as server:
        assert query(server, "SELECT 1") == "1\n"
        assert request(server, "SELECT 1", password="x").code == 516
        assert request(server, "SELECT 1", user="default").code == 516
        record = json.loads((server.folder / "service.json").read_text())
        assert set(record) == {"pid", "created", "ports"}
