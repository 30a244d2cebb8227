"""Previews of definitions over the API of a server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.serve.conftest import PRIVATE_VARIABLE
from tests.serve.definitions import csv_to_print, write_csv
from tests.serve.processes import children
from tests.serve.server import Client, sent_events

pytestmark = pytest.mark.spark


def preview(client: Client, definition: str, query: str = "") -> tuple[int, list[tuple[str, Any]]]:
    """The events of a preview until it ends."""
    with client.stream(f"/preview?{query}", {"definition": definition}) as response:
        if response.status != 200:
            return response.status, [("refused", json.loads(response.read()))]
        return response.status, sent_events(response)


def test_rows_of_every_node_are_shown_and_nothing_is_written(server, clients, orders: Path):
    write_csv(orders / "1.csv", range(5))
    before, known = len(server.rows()), children(server.pid, "streamling.serve.worker")
    status, events = preview(clients["operator"], csv_to_print(f"{orders}/*.csv", "previewed"), "rows=3")
    assert status == 200, events
    assert events[0] == (
        "nodes",
        [
            {"name": "orders", "kind": "source", "type": "file"},
            {"name": "tagged", "kind": "transform", "type": "sql"},
        ],
    )
    rows = [event for name, event in events if name == "message"]
    for node in ("orders", "tagged"):
        assert [row["data"]["id"] for row in rows if row["topology_node_key"] == node] == [0, 1, 2]
    assert events[-1] == ("end", {"reason": "preview ended"})
    assert len(server.rows()) == before
    assert clients["admin"].get("/pipelines?namespace=preview").json["items"] == []
    assert clients["admin"].get("/audit?limit=1").json["items"][0]["action"] == "preview"
    server.eventually(lambda: children(server.pid, "streamling.serve.worker") == known)
    assert "ERROR [(preview)" not in server.log().replace("  ", " ")


def test_a_pipeline_that_fails_is_explained(clients, orders: Path):
    write_csv(orders / "1.csv", range(2))
    definition = csv_to_print(f"{orders}/*.csv").replace(
        "'out' AS pipeline", "CAST(raise_error('no price') AS INT) AS price"
    )
    status, events = preview(clients["operator"], definition)
    assert status == 200, events
    (error,) = [event for name, event in events if name == "error"]
    assert "tagged" in error["error"]["message"]
    assert "no price" in error["error"]["message"]
    assert events[-1][0] == "end"


def test_a_preview_that_cannot_start_is_explained(clients):
    status, events = preview(clients["operator"], csv_to_print("/nothing/*.csv"))
    assert status == 422
    assert "/nothing" in events[0][1]["error"]["message"]


@pytest.mark.parametrize(
    ("client", "definition", "query", "status", "message"),
    [
        ("viewer", "", "", 403, "forbidden"),
        ("operator", "nothing", "", 422, "is not a mapping"),
        ("operator", csv_to_print("${PRIVATE_SETTING}"), "", 422, "PRIVATE_SETTING"),
        ("operator", csv_to_print("x"), "rows=1001", 422, "rows"),
        ("operator", csv_to_print("x"), "duration_seconds=601", 422, "duration_seconds"),
    ],
)
def test_what_may_not_be_previewed(clients, client, definition, query, status, message):
    answered, events = preview(clients[client], definition, query)
    assert answered == status
    assert message in json.dumps(events)
    assert PRIVATE_VARIABLE not in json.dumps(events)
