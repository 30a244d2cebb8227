"""What a client without the right to do it tries, and where it is recorded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.serve.server import Client, ServeProcess

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TOKENS = {name: f"{name}-token-0123456789" for name in ("root", "team", "bank", "viewer", "shop")}
DEFINITION = """
sources:
  orders: {type: file, format: csv, path: "orders/*.csv", primary_key: id}
sinks:
  out: {type: blackhole, from: orders}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    roles = {"root": ("admin", "*"), "team": ("admin", "team"), "bank": ("admin", "bank"), "viewer": ("viewer", "*")}
    roles["shop"] = ("operator", "shop")
    roles |= {name: ("operator", name) for name in ("create", "replace", "validate", "preview")}
    settings = {}
    for name, (role, namespace) in roles.items():
        prefix = f"STREAMLING__SERVE__TOKENS__{name.upper()}"
        settings |= {
            f"{prefix}__VALUE": f"{name}-token-0123456789",
            f"{prefix}__ROLE": role,
            f"{prefix}__NAMESPACES": namespace,
        }
    folder = tmp_path_factory.mktemp("refusals")
    (folder / "orders").mkdir()
    (folder / "orders" / "1.csv").write_text("id\n1\n")
    with ServeProcess(folder, settings) as process:
        process.start()
        yield process


@pytest.fixture
def clients(server) -> dict[str, Client]:
    return {name: Client(server.address, token) for name, token in TOKENS.items()}


@pytest.mark.parametrize(("method", "path"), [("GET", ""), ("PUT", "/api_key"), ("DELETE", "/api_key")])
def test_an_admin_of_one_namespace_cannot_touch_secrets_of_all(clients, method, path):
    clients["root"].request("PUT", "/secrets/api_key", {"value": "the-value-of-root"})
    body = {"value": "the-value-of-team"} if method == "PUT" else None
    answer = clients["team"].request(method, f"/secrets{path}", body)
    assert (answer.status, answer.error["code"]) == (403, "forbidden")
    assert "secrets belong to all" in answer.error["message"]
    assert clients["root"].get("/secrets").json["items"] == ["api_key"]


def refused(client: Client) -> set[tuple[str, str, str]]:
    items = client.get("/audit?limit=1000").json["items"]
    return {(each["actor"], each["namespace"], each["detail"]) for each in items if each["action"] == "refused"}


def test_refused_requests_are_in_the_audit_log_a_few_of_them(server, clients):
    root, shop = clients["root"], clients["shop"]
    assert root.post("/pipelines", {"name": "orders", "namespace": "team", "definition": DEFINITION}).status == 201
    stranger = Client(server.address, "a-wrong-token-0123456789")
    for _ in range(20):
        assert shop.get("/pipelines/team/orders").status == 404
        assert shop.get("/pipelines/team/orders/topology").status == 404
        body = {"name": "mine", "namespace": "team", "definition": DEFINITION}
        assert shop.post("/pipelines", body).status == 404
        assert clients["viewer"].post("/pipelines/team/orders/restart").status == 403
        assert stranger.get("/pipelines").status == 401
        assert Client(server.address).get("/pipelines").status == 401
        assert shop.get("/pipelines/shop/missing").status == 404

    expected = {
        ("shop", "team", "404 GET /api/v1/pipelines/team/orders"),
        ("viewer", "team", "403 POST /api/v1/pipelines/team/orders/restart"),
    }
    server.eventually(lambda: expected <= refused(root))
    assert ("unknown", "", "401 GET /api/v1/pipelines") in refused(root)
    assert len([each for each in refused(root) if each[0] in ("shop", "viewer", "unknown")]) == 3
    assert refused(clients["team"]) == expected


def test_who_probes_two_namespaces_is_seen_by_the_admins_of_both(server, clients):
    for namespace in ("team", "bank"):  # bank has no pipeline, but a token
        assert clients["shop"].get(f"/pipelines/{namespace}/payments").status == 404
    server.eventually(lambda: len(refused(clients["bank"])) == 1)
    assert refused(clients["bank"]) == {("shop", "bank", "404 GET /api/v1/pipelines/bank/payments")}
    assert {actor for actor, _, _ in refused(clients["team"])} >= {"shop"}


@pytest.mark.parametrize("request_", ["create", "replace", "validate", "preview"])
def test_who_tries_a_setting_of_the_server_is_in_the_audit_log(server, request_):
    """Each with a token of its own, of which only the first attempt is recorded."""
    client, namespace = Client(server.address, f"{request_}-token-0123456789"), request_
    config = {"network": {"deny_private": False}, "record_batch_size": 10, "secrets": {"mine": "x"}}
    body = {"definition": DEFINITION, "config": config}
    method, path, status, more = {
        "create": ("POST", "/pipelines", 422, {"name": "mine", "namespace": namespace}),
        "replace": ("PUT", f"/pipelines/{namespace}/mine", 422, {}),
        "validate": ("POST", "/validate", 200, {}),
        "preview": ("POST", "/preview", 422, {}),
    }[request_]
    headers = {"If-None-Match": "*"} if method == "PUT" else {}
    assert client.request(method, path, {**body, **more}, headers).status == status
    sentence = f"422 {method} /api/v1{path}, which sets network.deny_private, secrets.mine"
    root = Client(server.address, TOKENS["root"])
    server.eventually(lambda: (namespace, namespace, sentence) in refused(root))


def test_the_limit_of_the_audit_log_applies_to_what_the_admin_may_see(clients):
    clients["root"].post("/pipelines", {"name": "first", "namespace": "team", "definition": DEFINITION})
    for number in range(3):
        clients["root"].request("PUT", f"/secrets/name{number}", {"value": "some-value"})
    found = clients["team"].get("/audit?limit=1").json["items"]
    assert [each["namespace"] for each in found] == ["team"]
