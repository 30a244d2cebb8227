"""An operator tries to see, change or destroy what belongs to another namespace."""

from __future__ import annotations

from typing import Any

import pytest

from tests.serve.attacks.attempts import Attacker
from tests.serve.attacks.conftest import SECRETS, TOKENS
from tests.serve.attacks.definitions import to_sink
from tests.serve.server import Client

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/pipelines/shop/orders"),
        ("PUT", "/pipelines/shop/orders"),
        ("DELETE", "/pipelines/shop/orders"),
        ("DELETE", "/pipelines/shop/orders?state=delete"),
        ("POST", "/pipelines/shop/orders/pause"),
        ("POST", "/pipelines/shop/orders/resume"),
        ("POST", "/pipelines/shop/orders/restart"),
        ("POST", "/pipelines/shop/orders/checkpoint"),
        ("GET", "/pipelines/shop/orders/ready"),
        ("GET", "/pipelines/shop/orders/logs?tail=100"),
        ("GET", "/pipelines/shop/orders/topology"),
        ("GET", "/pipelines/shop/orders/epochs"),
        ("GET", "/pipelines/shop/orders/live-data"),
        ("GET", "/pipelines/shop/orders/error"),
        ("GET", "/pipelines/shop/orders/dead-letters"),
        ("GET", "/pipelines/evil/..%2fshop%2forders"),
        ("GET", "/pipelines/evil/../shop/orders"),
        ("GET", "/pipelines/shop%00/orders"),
        ("GET", "/pipelines/SHOP/orders"),
        ("GET", "/pipelines//shop/orders"),
        ("GET", "/pipelines/*/orders"),
        ("DELETE", "/pipelines/evil.shop/orders?state=delete"),
    ],
)
def test_an_operator_asks_for_a_pipeline_of_another_namespace(evil: Attacker, shop: Client, method, path):
    headers = {"If-Match": shop.get("/pipelines/shop/orders").headers["ETag"]} if method in ("PUT", "DELETE") else {}
    body = {"definition": to_sink(evil.server.folder, "type: blackhole")} if method == "PUT" else None
    answer = evil.client.request(method, path, body, headers)
    assert answer.status in (400, 403, 404, 405, 422), answer.text
    assert SECRETS["row"] not in answer.text
    known = shop.get("/pipelines/shop/orders").json
    assert (known["state"], known["generation"]) == ("running", 1)


@pytest.mark.parametrize(
    "fields",
    [
        {"namespace": "shop"},
        {"namespace": "shop", "name": "orders"},
        {"namespace": "evil", "name": "../shop/orders"},
        {"namespace": "evil", "name": "x/../../shop/orders"},
        {"namespace": "shop.orders"},
        {"namespace": "evil\nshop"},
        {"namespace": "*"},
        {"namespace": ""},
        {"namespace": "evil", "application_id": "shop.orders"},
        {"namespace": "evil", "managed_by": "dir"},
        {"namespace": "evil", "is_trusted": True},
        {"namespace": "evil", "config": {"application_id": "shop.orders"}},
    ],
)
def test_an_operator_creates_a_pipeline_in_the_name_of_another_namespace(evil: Attacker, fields: dict[str, Any]):
    definition = to_sink(evil.server.folder, "type: blackhole")
    answer = evil.client.post("/pipelines", {"name": "mine", "definition": definition, **fields})
    assert answer.status in (403, 404, 409, 422), answer.text
    assert evil.client.get("/pipelines/evil/mine").status == 404


@pytest.mark.parametrize(
    "query", ["", "?namespace=shop", "?namespace=*", "?q=orders", "?namespace=evil&namespace=shop"]
)
def test_an_operator_lists_the_pipelines_of_another_namespace(evil: Attacker, query):
    answer = evil.client.get(f"/pipelines{query}")
    assert "orders" not in [item["name"] for item in answer.json.get("items", [])]
    assert SECRETS["row"] not in answer.text


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/secrets"), ("PUT", "/secrets/stored"), ("DELETE", "/secrets/stored"), ("GET", "/audit")],
)
def test_an_operator_uses_what_only_admins_may_use(evil: Attacker, method, path):
    answer = evil.client.request(method, path, {"value": "replaced"} if method == "PUT" else None)
    assert (answer.status, answer.error["code"]) == (403, "forbidden")
    assert Client(evil.server.address, TOKENS["admin"]).get("/secrets").json["items"] == ["stored"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/pipelines"),
        ("POST", "/validate"),
        ("POST", "/preview"),
        ("PUT", "/pipelines/evil/x"),
        ("DELETE", "/pipelines/evil/x"),
        ("POST", "/pipelines/evil/x/pause"),
        ("GET", "/secrets"),
    ],
)
def test_a_viewer_changes_something(server, method, path):
    body = {"name": "x", "definition": to_sink(server.folder, "type: blackhole")}
    answer = Client(server.address, TOKENS["viewer"]).request(method, path, body if method == "POST" else None)
    assert answer.status == 403, answer.text
