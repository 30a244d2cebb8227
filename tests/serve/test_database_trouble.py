"""A database that is locked or whose disk is full: the server says so, and answers what it knows."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.serve.definitions import csv_to_print, write_csv
from tests.serve.server import Client, ServeProcess

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A disk of 16 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if made.returncode:
        pytest.fail(f"this test needs a small disk, and only root may mount one; run it as root: {made.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def server(tmp_path, small_disk) -> Iterator[ServeProcess]:
    with ServeProcess(
        tmp_path, {"STREAMLING__STATE_BACKEND__SQLITE__DATABASE_PATH": str(small_disk / "state.db")}
    ) as process:
        yield process


def ready(client: Client) -> tuple[int, str]:
    answer = client.get("/readyz", prefix="")
    return answer.status, answer.json["status"]


def test_a_full_disk_and_a_locked_database(server, small_disk, tmp_path):
    client = server.start()
    write_csv(tmp_path / "orders" / "1.csv", range(1))
    definition = csv_to_print(tmp_path / "orders" / "*.csv", "out")
    assert client.create("orders", definition, desired="paused").status == 201
    server.eventually(lambda: ready(client) == (200, "ready"))
    etag = client.pipeline("orders")["etag"]
    large = {"definition": definition + "#" * 900_000, "desired": "paused"}

    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(64 * 1024)):
                pass
        except OSError:
            pass
    server.eventually(lambda: ready(client) == (503, "the database of the catalogue cannot be written"))
    refused = client.request("PUT", "/pipelines/default/orders", large, headers={"If-Match": etag})
    assert refused.status in (500, 503), refused.text
    assert "cannot be used" in refused.error["message"]
    assert [each["name"] for each in client.get("/pipelines").json["items"]] == ["orders"]
    assert client.pipeline("orders")["etag"] == etag
    filler.unlink()
    server.eventually(lambda: ready(client) == (200, "ready"))
    changed = client.request("PUT", "/pipelines/default/orders", large, headers={"If-Match": etag})
    assert changed.status == 200, changed.text

    with closing(sqlite3.connect(small_disk / "state.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        server.eventually(lambda: ready(client) == (503, "the database of the catalogue cannot be written"))
        resumed = client.post("/pipelines/default/orders/resume")
        assert resumed.status == 503, resumed.text
        found = client.pipeline("orders")
        assert (found["desired"], found["stale"]) == ("paused", False)
        assert client.get("/audit?limit=1").json["items"][0]["action"] == "put"
        other.execute("ROLLBACK")
    server.eventually(lambda: ready(client) == (200, "ready"))
    assert client.post("/pipelines/default/orders/resume").status == 202
