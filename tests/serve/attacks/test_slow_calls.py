"""An operator whose requests hang: other operators do not notice."""

from __future__ import annotations

import http.client
import queue
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from tests.harness.endpoint import Reply, Request, endpoint
from tests.serve.definitions import write_csv
from tests.serve.server import Answer, Client, ServeProcess

pytestmark = [pytest.mark.spark, pytest.mark.slow]

#: of each kind; together more than the limit, and each kind more than a pool of threads usually has
CALLS, LIMIT = 45, 60
TEAM, SHOP = "team-token-0123456789", "shop-token-0123456789"

AVRO = """
sources:
  orders: {type: kafka, topic: orders, primary_key: id}
sinks:
  out: {type: blackhole, from: orders}
"""


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that accepts connections and never answers."""
    with closing(socket.create_server(("127.0.0.1", 0), backlog=CALLS)) as listening:
        yield listening.getsockname()[1]


@pytest.fixture
def server(tmp_path, silent) -> Iterator[ServeProcess]:
    settings = {
        "SERVE__CONCURRENT_SLOW_REQUESTS": str(LIMIT),
        "KAFKA_SOURCE__SCHEMA_REGISTRY_URL": f"http://127.0.0.1:{silent}",
        "CHECKPOINT_INTERVAL_SEC": "0.5",
    }
    for name, token in (("team", TEAM), ("shop", SHOP)):
        settings |= {
            f"SERVE__TOKENS__{name.upper()}__VALUE": token,
            f"SERVE__TOKENS__{name.upper()}__ROLE": "operator",
            f"SERVE__TOKENS__{name.upper()}__NAMESPACES": name,
        }
    with ServeProcess(tmp_path, {f"STREAMLING__{name}": value for name, value in settings.items()}) as process:
        yield process


def test_90_hanging_checkpoints_and_validations_of_one_token_delay_no_other(server, tmp_path):
    server.start()
    team, shop = Client(server.address, TEAM), Client(server.address, SHOP)
    released, ended = threading.Event(), queue.Queue[Answer]()

    def hang(request: Request) -> Reply:
        released.wait(120)
        return Reply()

    def call(path: str, body: object) -> None:
        with suppress(OSError, http.client.HTTPException):  # the test ends by killing the server
            ended.put(team.post(path, body))

    with endpoint(hang) as hook:
        write_csv(tmp_path / "orders" / "1.csv", range(1))
        definition = f"""
sources:
  orders: {{type: file, format: csv, path: "{tmp_path}/orders/*.csv", primary_key: id}}
sinks:
  hook: {{type: webhook, from: orders, url: "{hook.url}"}}
"""
        assert team.create("hanging", definition, namespace="team").status == 201
        server.eventually(lambda: bool(hook.requests))
        calls = [("/pipelines/team/hanging/checkpoint?timeout=50", None), ("/validate", {"definition": AVRO})] * CALLS
        threads = [threading.Thread(target=call, args=each, daemon=True) for each in calls]
        for thread in threads:
            thread.start()
        refused = [ended.get(timeout=60) for _ in range(2 * CALLS - LIMIT)]
        assert shop.get("/pipelines").status == 200
        assert shop.post("/validate", {"definition": "sources: ["}).status == 200  # slow calls of others have room
        assert ended.empty()
        released.set()
        server.kill()

    assert Counter(answer.status for answer in refused) == {429: 2 * CALLS - LIMIT}
    assert refused[0].headers["Retry-After"].isdigit()
    assert "wait for pipelines, sources or the database" in refused[0].error["message"]
    assert "serve.concurrent_slow_requests" in refused[0].error["remedy"]
