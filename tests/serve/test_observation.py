"""What pipelines of a server show about themselves, wherever they run, and `streamling tap`, which shows it in a
terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Project, Result
from tests.serve.conftest import TOKENS
from tests.serve.definitions import write_csv
from tests.serve.server import Client, ServeProcess, sent_events

pytestmark = pytest.mark.spark

_PIPELINE = """
sources:
  orders: {{type: file, format: csv, path: "{folder}", primary_key: id, mode: {{type: continuous}}}}
transforms:
  changes:
    type: sql
    primary_key: id
    sql: "SELECT id, id * 10 AS total, CASE id % 3 WHEN 0 THEN 'd' WHEN 1 THEN 'u' ELSE 'i' END AS _gs_op FROM orders"
sinks:
  out: {{type: blackhole, from: changes}}
"""
_FAILING = """
sources:
  orders: {{type: file, format: csv, path: "{folder}", primary_key: id}}
transforms:
  rated:
    type: script
    from: orders
    language: javascript
    primary_key: id
    schema: {{id: int64}}
    script: 'function process(row) {{ throw new Error("not today") }}'
sinks:
  out: {{type: blackhole, from: rated}}
"""
#: by isolation
NAMES = ("watched-shared", "watched-process")


@pytest.fixture(scope="module", autouse=True)
def pipelines(server: ServeProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The same pipeline in the process of the server and in one of its own, over the ids 0 to 8."""
    folder, client = tmp_path_factory.mktemp("watched"), Client(server.address, TOKENS["admin"])
    write_csv(folder / "1.csv", range(9))
    for name in NAMES:
        options = {
            "isolation": name.removeprefix("watched-"),
            "size": "xs",
            "config": {"live_data_inspect_enabled": True},
        }
        created = client.create(name, _PIPELINE.format(folder=folder), **options)
        assert created.status == 201, created.text
    for name in NAMES:
        server.eventually(
            lambda name=name: client.pipeline(name)["rows"] == {"out": 9} and client.pipeline(name)["ready"]
        )
        server.eventually(lambda name=name: client.get(f"/pipelines/default/{name}/topology").status == 200)
    yield
    for name in NAMES:
        client.request("DELETE", f"/pipelines/default/{name}?state=delete")


def events(client: Client, path: str, count: int) -> list[tuple[str, dict]]:
    """The first events with data."""
    with client.stream(path) as response:
        assert response.status == 200
        return sent_events(response, count)


@pytest.mark.parametrize("name", NAMES)
def test_topology_checkpoints_and_errors(clients, name):
    viewer, path = clients["viewer"], f"/pipelines/default/{name}"
    topology = viewer.get(f"{path}/topology").json
    assert [node["name"] for node in topology["nodes"]] == ["orders", "changes", "out"]
    assert [column["name"] for column in topology["nodes"][1]["schema"]] == ["id", "total", "_gs_op"]
    assert {(edge["from"], edge["to"]) for edge in topology["edges"]} == {("orders", "changes"), ("changes", "out")}
    assert (topology["pipeline"], topology["state"]) == (name, "running")
    assert topology["memory"]["jvm_mb"] > 50
    (first, second) = events(viewer, f"{path}/topology/events", 2)
    assert first[0] == second[0] == "topology"
    assert "schema" not in first[1]["nodes"][0]
    epochs = viewer.get(f"{path}/epochs?limit=1").json
    assert len(epochs) == 1
    assert "orders" in json.dumps(epochs[0]["positions"])
    assert viewer.get(f"{path}/error").status == 204
    assert viewer.get(f"{path}/dead-letters").json == []


@pytest.mark.parametrize("name", NAMES)
def test_live_rows_of_a_node(clients, name):
    path = f"/pipelines/default/{name}/live-data"
    found = events(clients["viewer"], f"{path}?topology_node_keys=changes&filter=total%20%3E%3D%2070&per_second=50", 2)
    assert [event["data"]["id"] for _, event in found] == [8, 7]
    refused = clients["viewer"].get(f"{path}?topology_node_keys=out")
    assert (refused.status, refused.error["message"]) == (400, "'out' has no output")


@pytest.mark.parametrize("name", NAMES)
def test_other_namespaces_and_other_methods_see_nothing(clients, name):
    assert clients["team"].get(f"/pipelines/default/{name}/topology").status == 404
    assert clients["admin"].post(f"/pipelines/default/{name}/topology").status in (404, 405, 422)
    assert clients["admin"].get(f"/pipelines/default/{name}/topology/nothing%0d%0aX-Header:%20x").status == 404


# ── tap ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def tap(server: ServeProcess, tmp_path: Path):
    project = Project(tmp_path)

    def run(*args: str) -> Result:
        return project.command("tap", *args, "--server", server.address, STREAMLING_TOKEN=TOKENS["viewer"])

    return run


@pytest.mark.parametrize("name", NAMES)
def test_tap_shows_rows_that_match_a_filter_and_a_kind(tap, name):
    result = tap(name, "changes", "--kinds", "d,u", "--filter", "total > 20", "--limit", "4")
    assert result.code == 0, result.err
    rows = [json.loads(line) for line in result.out.splitlines()]
    assert [(row["id"], row["_gs_op"]) for row in rows] == [(7, "u"), (6, "d"), (4, "u"), (3, "d")]


def test_tap_takes_a_namespace_and_reports_errors_in_one_sentence(tap):
    assert tap(f"default/{NAMES[0]}", "orders", "--limit", "1").code == 0
    for args, message in (
        ((f"other/{NAMES[0]}", "orders"), f"there is no pipeline 'other/{NAMES[0]}'"),
        ((NAMES[1], "out"), "'out' has no output"),
        ((NAMES[1], "changes", "--filter", "cost > 1"), "the column 'cost', which the rows do not have"),
        ((NAMES[1], "changes", "--kinds", "x"), "'x' is not a row kind"),
    ):
        result = tap(*args)
        assert result.code == 1, result.err
        assert message in result.err
        assert "Traceback" not in result.err


# ── the end ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", NAMES)
def test_a_paused_pipeline_shows_its_definition_and_its_last_hour(server, clients, name):
    client, path = clients["admin"], f"/pipelines/default/{name}"
    client.post(f"{path}/pause")
    server.eventually(lambda: client.state(name) == "paused")
    topology = client.get(f"{path}/topology").json
    assert (topology["state"], topology["live"], topology["error"]) == ("paused", False, None)
    assert [(node["name"], node["status"], node["rows_in"]) for node in topology["nodes"]] == [
        ("orders", "paused", 9),
        ("changes", "paused", 9),
        ("out", "paused", 9),
    ]
    assert {(edge["from"], edge["to"], edge["kind"]) for edge in topology["edges"]} == {
        ("orders", "changes", "rows"),
        ("changes", "out", "rows"),
    }
    for part in ("", "&node=orders"):
        history = client.get(f"{path}/history?minutes=60{part}").json
        rows = sum(rate for rate in history["rate_in"] if rate is not None) * history["interval_s"]
        assert (len(history["rate_in"]), round(rows)) == (360, 9)
    for rest in ("/epochs", "/topology/events", "/live-data?topology_node_keys=changes"):
        refused = client.get(f"{path}{rest}")
        assert (refused.status, refused.error["code"]) == (409, "not_observable")


def test_the_history_takes_minutes_between_0_and_60(clients):
    path = f"/pipelines/default/{NAMES[0]}/history"
    assert len(clients["viewer"].get(f"{path}?minutes=5").json["lag"]) == 30
    refused = clients["viewer"].get(f"{path}?minutes=61")
    assert (refused.status, refused.error["message"]) == (400, "minutes is '61', which is not between 0 and 60")
    assert clients["team"].get(path).status == 404


def test_a_pipeline_that_fails_shows_the_node_and_its_place(server, clients, tmp_path):
    client, name = clients["admin"], "fails-in-script"
    write_csv(tmp_path / "1.csv", range(3))
    definition = _FAILING.format(folder=tmp_path)
    assert client.create(name, definition, size="xs").status == 201
    server.eventually(lambda: client.state(name) == "failed")
    pipeline = client.pipeline(name)
    topology = client.get(f"/pipelines/default/{name}/topology").json
    assert pipeline["last_error"]["node"] == topology["error"]["node"] == "rated"
    assert topology["error"]["message"] == pipeline["error"] == pipeline["last_error"]["message"]
    statuses = {node["name"]: node["status"] for node in topology["nodes"]}
    assert statuses == {"orders": "stopped", "rated": "failed", "out": "stopped"}
    failed = next(node for node in topology["nodes"] if node["name"] == "rated")
    assert failed["location"] == f"{name}.yaml:5"
    client.request("DELETE", f"/pipelines/default/{name}?state=delete")
