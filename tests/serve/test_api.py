"""The HTTP API of a real server."""

from __future__ import annotations

import json
import threading
from uuid import uuid4

import pytest
from starlette.routing import Route, Router

from streamling.serve.admin.routes import history_route, reading_routes
from tests.harness.endpoint import Reply, Request, endpoint
from tests.harness.pipelines import eventually
from tests.serve.conftest import INLINE_SECRET, PRIVATE_VARIABLE, STORED_SECRET, TOKENS
from tests.serve.definitions import csv_to_print, write_csv
from tests.serve.server import Client

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PLAIN = """
sources:
  orders: {type: file, format: csv, path: "some/*.csv", primary_key: id}
sinks:
  out: {type: blackhole, from: orders}
"""


@pytest.fixture
def name() -> str:
    return f"p-{uuid4().hex[:8]}"


def paused(client: Client, name: str, definition: str = PLAIN, **fields):
    """A pipeline that does not run."""
    answer = client.create(name, definition, desired="paused", **fields)
    assert answer.status == 201, answer.text
    return answer


# ── pipelines ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_pipeline_is_created_runs_and_is_deleted(server, client, name, orders):
    write_csv(orders / "1.csv", range(3))
    created = client.create(name, csv_to_print(f"{orders}/*.csv", name))
    assert created.status == 201
    assert created.headers["ETag"] == created.json["etag"]
    assert (created.json["desired"], created.json["generation"], created.json["managed_by"]) == ("running", 1, "api")
    eventually(lambda: client.pipeline(name)["rows"] == {name: 3}, 60)
    eventually(lambda: client.get(f"/pipelines/default/{name}/ready").status == 200, 60)
    found = client.pipeline(name)
    assert (found["state"], found["ready"], found["rows_in"]) == ("running", True, 3)
    assert found["costs"]["threads"] >= 0
    assert sorted(row["id"] for row in server.rows() if row["pipeline"] == name) == [0, 1, 2]
    assert client.request("DELETE", f"/pipelines/default/{name}").status == 202
    eventually(lambda: client.get(f"/pipelines/default/{name}").status == 404)


def test_the_state_is_not_current_while_the_former_version_is_drained(client, name, orders):
    path, released = f"/pipelines/default/{name}", threading.Event()

    def answer_late(_: Request) -> Reply:
        released.wait(60)
        return Reply()

    with endpoint(answer_late) as slow:
        sink = f"sinks: {{{name}: {{type: webhook, from: tagged, url: '{slow.url}'}}}}"
        definition = csv_to_print(f"{orders}/*.csv", name).partition("sinks:")[0] + sink
        write_csv(orders / "1.csv", range(1))
        client.create(name, definition)
        eventually(lambda: slow.requests, 60)
        found = client.pipeline(name)
        assert (found["state"], found["current"]) == ("running", True)
        changed = {"definition": csv_to_print(f"{orders}/*.csv", name)}
        client.request("PUT", path, changed, headers={"If-Match": found["etag"]})
        eventually(lambda: client.state(name) == "draining", 60)
        assert client.pipeline(name)["current"] is False
        released.set()
        eventually(lambda: client.state(name) == "running", 60)
        assert client.pipeline(name)["current"] is True


def test_pause_resume_and_update_continue_from_the_stored_position(server, client, name, orders):
    def printed(sink: str) -> list[int]:
        return sorted(int(row["id"]) for row in server.rows() if row["pipeline"] == sink)

    path = f"/pipelines/default/{name}"
    write_csv(orders / "1.csv", range(3))
    client.create(name, csv_to_print(f"{orders}/*.csv", name))
    eventually(lambda: printed(name) == [0, 1, 2], 60)
    assert client.post(f"{path}/pause").json["desired"] == "paused"
    eventually(lambda: client.state(name) == "paused", 60)
    write_csv(orders / "2.csv", range(3, 5))
    assert client.get(f"{path}/ready").status == 503
    client.post(f"{path}/resume")
    eventually(lambda: printed(name) == [0, 1, 2, 3, 4], 60)
    etag = client.pipeline(name)["etag"]
    changed = {"definition": csv_to_print(f"{orders}/*.csv", f"{name}-v2")}
    answer = client.request("PUT", path, changed, headers={"If-Match": etag})
    assert (answer.status, answer.json["generation"]) == (200, 4)
    write_csv(orders / "3.csv", range(5, 6))
    eventually(lambda: printed(f"{name}-v2") == [5], 60)
    assert printed(name) == [0, 1, 2, 3, 4]
    client.request("DELETE", path)


def test_delete_keeps_the_position_unless_its_deletion_is_requested(server, client, name, orders):
    write_csv(orders / "1.csv", range(2))
    path, definition = f"/pipelines/default/{name}", csv_to_print(f"{orders}/*.csv", name)

    def run_and_delete(state: str) -> None:
        client.create(name, definition)
        eventually(lambda: client.get(f"{path}/ready").status == 200, 60)
        assert client.post(f"{path}/checkpoint").status == 202
        client.request("DELETE", f"{path}?state={state}")
        eventually(lambda: client.get(path).status == 404, 60)

    def times_printed() -> int:
        return sum(row["pipeline"] == name for row in server.rows()) // 2

    run_and_delete("keep")
    run_and_delete("delete")
    assert times_printed() == 1
    run_and_delete("keep")
    assert times_printed() == 2


def test_lists_are_sorted_filtered_and_paged(client, name):
    for letter in "cab":
        paused(client, f"{name}-{letter}")
    paused(client, name, namespace="other")
    first = client.get(f"/pipelines?q={name}&namespace=default&limit=2").json
    assert [item["name"] for item in first["items"]] == [f"{name}-a", f"{name}-b"]
    assert "definition" not in first["items"][0]
    second = client.get(f"/pipelines?q={name}&namespace=default&limit=2&cursor={first['next']}").json
    assert ([item["name"] for item in second["items"]], second["next"]) == ([f"{name}-c"], None)
    assert {item["namespace"] for item in client.get(f"/pipelines?q={name}").json["items"]} == {"default", "other"}
    eventually(lambda: len(client.get(f"/pipelines?q={name}&state=paused").json["items"]) == 4)
    assert client.get(f"/pipelines?q={name}&state=failed").json["items"] == []
    assert client.get("/pipelines?cursor=nonsense").status == 422


def test_a_failed_pipeline_says_why_and_a_restart_tries_again(client, name, orders):
    (orders / "1.csv").write_text("id,amount\n1,not a number\n")
    definition = f"""
sources:
  orders: {{type: file, format: csv, path: "{orders}/*.csv", primary_key: id}}
transforms:
  cast: {{type: sql, primary_key: id, sql: "SELECT id, CAST(amount AS INT) AS amount FROM orders"}}
sinks:
  out: {{type: blackhole, from: cast}}
"""
    client.create(name, definition)
    eventually(lambda: client.state(name) == "failed", 60)
    failed = client.pipeline(name)
    assert "not a number" in failed["error"]
    assert failed["restarts"] == 0
    (orders / "1.csv").write_text("id,amount\n1,5\n")
    client.post(f"/pipelines/default/{name}/restart")
    eventually(lambda: client.pipeline(name)["rows"] == {"out": 1}, 60)
    client.request("DELETE", f"/pipelines/default/{name}")


def test_logs_are_those_of_the_pipeline(client, name, orders):
    write_csv(orders / "1.csv", range(1))
    client.create(name, csv_to_print(f"{orders}/*.csv", name))
    eventually(lambda: client.pipeline(name)["rows"] == {name: 1}, 60)
    answer = client.get(f"/pipelines/default/{name}/logs")
    assert answer.headers["Content-Type"].startswith("application/x-ndjson")
    records = [json.loads(line) for line in answer.text.splitlines()]
    assert "running" in {record["message"] for record in records}
    assert all(set(record) == {"time", "level", "node", "message"} for record in records)
    lines: list[str] = []
    follower = threading.Thread(
        target=lambda: lines.append(client.get(f"/pipelines/default/{name}/logs?follow=true&tail=0").text)
    )
    follower.start()
    client.request("DELETE", f"/pipelines/default/{name}")
    follower.join(60)  # ends with the pipeline
    assert "stopped; rows: 1 to" in lines[0]


# ── conflicts ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_name_that_exists_is_a_conflict(client, name):
    paused(client, name)
    answer = client.create(name, PLAIN)
    assert (answer.status, answer.error["code"]) == (409, "exists")


def test_a_change_needs_the_version_it_is_based_on(client, name):
    path, body = f"/pipelines/default/{name}", {"definition": PLAIN, "desired": "paused"}
    assert client.request("PUT", path, body).status == 428
    assert client.request("PUT", path, body, headers={"If-Match": '"x-1"'}).status == 412
    created = client.request("PUT", path, body, headers={"If-None-Match": "*"})
    assert created.status == 201
    assert client.request("PUT", path, body, headers={"If-None-Match": "*"}).status == 412
    old = created.headers["ETag"]
    new = client.request("PUT", path, {**body, "size": "s"}, headers={"If-Match": old})
    assert (new.status, new.json["size"]) == (200, "s")
    answer = client.request("PUT", path, {**body, "size": "l"}, headers={"If-Match": old})
    assert (answer.status, answer.error["code"]) == (412, "changed")
    assert new.headers["ETag"] in answer.error["message"]
    assert client.request("DELETE", path, headers={"If-Match": old}).status == 412
    assert client.pipeline(name)["size"] == "s"


def test_of_two_clients_that_race_one_wins_and_the_other_gets_a_conflict(client, name):
    etag = paused(client, name).headers["ETag"]
    path, answers = f"/pipelines/default/{name}", []

    def change(size: str) -> None:
        body = {"definition": f"{PLAIN}# {size}", "size": size, "desired": "paused"}
        answers.append(client.request("PUT", path, body, headers={"If-Match": etag}))

    threads = [threading.Thread(target=change, args=(size,)) for size in ("xs", "s", "l", "xl")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.status for answer in answers) == [200, 412, 412, 412]
    (won,) = [answer.json for answer in answers if answer.status == 200]
    found = client.pipeline(name)
    assert (found["size"], found["definition"], found["generation"]) == (won["size"], won["definition"], 2)
    assert found["definition"].endswith(f"# {won['size']}")


def test_a_checkpoint_of_a_pipeline_that_does_not_run_is_a_conflict(client, name):
    paused(client, name)
    answer = client.post(f"/pipelines/default/{name}/checkpoint")
    assert (answer.status, answer.error["code"]) == (409, "not_running")


# ── bad requests ────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_invalid_definition_is_rejected_with_all_problems(client, name):
    definition = """sources:
  orders: {type: file, format: cvs, path: a, primary_key: id}
sinks:
  out: {type: prnt, from: orders}
"""
    answer = client.create(name, definition)
    assert (answer.status, answer.error["code"]) == (422, "invalid")
    assert [(problem["line"], problem["node"]) for problem in answer.json["problems"]] == [(2, "orders"), (4, "out")]
    assert "allowed: 'csv', 'json'" in answer.json["problems"][0]["message"]
    assert client.get(f"/pipelines/default/{name}").status == 404
    verdict = client.post("/validate", {"definition": definition})
    assert (verdict.status, verdict.json["is_valid"]) == (200, False)
    assert verdict.json["problems"] == answer.json["problems"]
    assert client.post("/validate", {"definition": PLAIN}).json == {"is_valid": True, "problems": []}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"plugin": {"path": "/tmp/evil.py"}}, "the setting 'plugin.path' cannot be set for one pipeline"),
        ({"state_backend": {"backend_type": "InMemory"}}, "the setting 'state_backend.backend_type' cannot be set"),
        ({"spark": {"conf": {}}}, "the setting 'spark.conf' cannot be set"),
        ({"checkpoint_interval_sec": "soon"}, "checkpoint_interval_sec is 'soon', expected a number above 0"),
    ],
)
def test_settings_of_the_operator_and_invalid_ones_are_rejected(client, name, config, message):
    answer = client.create(name, PLAIN, config=config)
    assert answer.status == 422
    assert message in answer.error["message"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "JSON decode error"),
        (b"[]", "body"),
        ({"name": "x"}, "definition: Field required"),
        ({"name": "x", "definition": PLAIN, "size": "huge"}, "size"),
        ({"name": "x", "definition": PLAIN, "extra": 1}, "extra"),
        ({"name": "No Spaces", "definition": PLAIN}, "the name 'No Spaces' is invalid"),
        ({"name": "x", "namespace": "a.b", "definition": PLAIN}, "the namespace 'a.b' is invalid"),
    ],
)
def test_malformed_bodies_are_rejected_with_a_message(client, body, message):
    answer = client.post("/pipelines", body)
    assert answer.status == 422
    assert message in answer.error["message"]


def test_an_invalid_name_says_where_names_come_from(client):
    remedy = client.create("Orders EU", PLAIN).error["remedy"]
    assert remedy == "choose another name; 'streamling apply' takes it from --name"


def test_bodies_have_a_size_limit_and_a_type(client):
    assert client.post("/validate", {"definition": "x" * (1024 * 1024)}).status == 413
    assert client.post("/validate", b"{}", headers={"Content-Type": "text/plain"}).status == 415


def test_other_web_sites_are_refused(client):
    assert client.get("/pipelines", headers={"Host": "evil.example"}).error["code"] == "unknown_host"
    assert client.get("/pipelines", headers={"Origin": "https://evil.example"}).error["code"] == "foreign_origin"
    answer = client.request("OPTIONS", "/pipelines", headers={"Origin": "https://evil.example"})
    assert answer.status == 403
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_what_does_not_exist_is_not_found(client):
    for path in ("/pipelines/default/missing", "/pipelines/default/missing/logs", "/nonsense"):
        answer = client.get(path)
        assert (answer.status, answer.error["code"]) == (404, "not_found")
    assert client.post("/pipelines/default/missing/pause").status == 404
    assert client.post("/pipelines/default/missing/explode").status == 422


# ── access ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_token_is_required_except_for_probes(server):
    nobody = Client(server.address)
    for answer in (
        nobody.get("/pipelines"),
        nobody.get("/openapi.json"),
        Client(server.address, "wrong").get("/audit"),
    ):
        assert (answer.status, answer.error["code"]) == (401, "unauthorized")
    assert nobody.get("/healthz", prefix="").status == 200
    assert nobody.get("/readyz", prefix="").status == 200


def test_roles_limit_what_a_token_may_do(clients, name):
    viewer, operator = clients["viewer"], clients["operator"]
    assert viewer.get("/pipelines").status == 200
    for answer in (
        viewer.create(name, PLAIN),
        viewer.post(f"/pipelines/default/{name}/pause"),
        viewer.request("DELETE", f"/pipelines/default/{name}"),
        operator.get("/audit"),
        operator.get("/secrets"),
        operator.request("PUT", "/secrets/x", {"value": "y"}),
    ):
        assert (answer.status, answer.error["code"]) == (403, "forbidden")
    assert paused(operator, name).status == 201


def test_a_foreign_namespace_looks_as_if_it_did_not_exist(clients, name):
    paused(clients["admin"], name)
    team = clients["team"]
    path = f"/pipelines/default/{name}"
    missing = team.get(f"/pipelines/default/{name}-missing")
    for answer in (team.get(path), team.post(f"{path}/pause"), team.request("DELETE", path), team.get(f"{path}/logs")):
        assert answer.status == missing.status == 404
        assert answer.error["message"] == f"there is no pipeline 'default/{name}'"
    body = {"definition": PLAIN, "desired": "paused"}
    assert team.request("PUT", path, body, headers={"If-None-Match": "*"}).status == 404
    assert team.create(name, PLAIN, namespace="other").status == 404
    assert paused(team, name, namespace="team").status == 201
    assert {item["namespace"] for item in team.get("/pipelines").json["items"]} == {"team"}


def test_the_audit_log_names_the_owner_of_the_token(clients, name):
    paused(clients["operator"], name)
    clients["admin"].post(f"/pipelines/default/{name}/restart")
    entries = [entry for entry in clients["admin"].get("/audit?limit=20").json["items"] if entry["name"] == name]
    assert [(entry["actor"], entry["action"]) for entry in entries] == [("admin", "restart"), ("operator", "create")]


def test_a_token_says_what_it_may_do(clients):
    assert clients["team"].get("/access").json == {"name": "team", "role": "operator", "namespaces": ["team"]}
    assert clients["admin"].get("/access").json == {"name": "admin", "role": "admin", "namespaces": ["*"]}


# ── variables and secrets ───────────────────────────────────────────────────────────────────────────────────────


def test_definitions_use_variables_that_the_operator_allows(client, name):
    allowed = PLAIN.replace("some/", "${PIPELINE_FOLDER}/")
    assert client.post("/validate", {"definition": allowed}).json["is_valid"]
    denied = PLAIN.replace("some/", "${PRIVATE_SETTING}/")
    answer = client.create(name, denied)
    assert answer.status == 422
    assert "the environment variable 'PRIVATE_SETTING' is not set" in answer.error["message"]


def test_secrets_are_found_nowhere(server, client, name):
    definition = f"""
sources:
  orders: {{type: file, format: csv, path: "some/*.csv", primary_key: id}}
sinks:
  out:
    type: webhook
    from: orders
    url: "http://127.0.0.1:9/?token=${{secret:API_KEY}}"
    headers: {{Authorization: "Bearer {INLINE_SECRET}"}}
"""
    client.create(name, definition)
    eventually(lambda: client.state(name) not in ("pending", "starting"), 60)
    path = f"/pipelines/default/{name}"
    found = client.get(path)
    assert "${secret:API_KEY}" in found.json["definition"]
    masked = client.request("PUT", path, {"definition": found.json["definition"]}, headers={"If-Match": "*"})
    assert (masked.status, "was masked in a response" in masked.error["message"]) == (422, True)
    paths = ("/pipelines", f"{path}/logs", f"{path}/topology", "/audit", "/secrets")
    pages = [found, *(client.get(each) for each in paths)]
    assert {page.status for page in pages} == {200}
    texts = [page.text for page in pages] + [server.log()]
    texts += [file.read_bytes().decode(errors="replace") for file in server.folder.glob("state.db*")]
    for secret in (STORED_SECRET, PRIVATE_VARIABLE, *TOKENS.values()):
        assert not [text for text in texts if secret in text]
    assert all(INLINE_SECRET not in page.text for page in pages)
    client.request("DELETE", path)


def test_the_description_lists_every_path(client):
    paths = client.get("/openapi.json").json["paths"]
    one, observed = "/pipelines/{namespace}/{name}", Router([*reading_routes(None), history_route(None)]).routes
    assert set(paths) == {
        "/metrics",
        *(f"/api/v1{one}{route.path}" for route in observed if isinstance(route, Route)),
        *(
            f"/api/v1{path}"
            for path in (
                *("/pipelines", one, f"{one}/{{action}}", f"{one}/ready", f"{one}/logs"),
                *("/validate", "/preview", "/access", "/secrets", "/secrets/{name}", "/audit"),
            )
        ),
    }
    described = paths[f"/api/v1{one}/dead-letters"]["get"]["parameters"]
    assert {each["name"] for each in described} == {"namespace", "name", "node", "limit"}
