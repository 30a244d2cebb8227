"""One bad pipeline of each kind beside good ones: the good ones keep delivering, the bad ones say what is wrong."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.harness.endpoint import Reply, Request, endpoint
from tests.serve.definitions import csv_to_print, write_csv
from tests.serve.server import ServeProcess

pytestmark = [pytest.mark.spark, pytest.mark.slow]

#: rounds of rows that good pipelines deliver while the bad ones are bad
ROUNDS = 3
#: seconds for which a script may loop: longer than the rounds take
LOOP = 45
#: STREAMLING_TEST_GOOD_PIPELINES=20 for a longer look
GOOD = int(os.environ.get("STREAMLING_TEST_GOOD_PIPELINES", "3"))


def scripted(path: str, script: str) -> str:
    return f"""
sources:
  orders: {{type: file, format: csv, path: "{path}", primary_key: id}}
transforms:
  changed: {{type: script, language: js, from: orders, primary_key: id, script: "{script}"}}
sinks:
  out: {{type: blackhole, from: changed}}
"""


def cast(path: str) -> str:
    return f"""
sources:
  orders: {{type: file, format: csv, path: "{path}", primary_key: id}}
transforms:
  failing: {{type: sql, primary_key: id, sql: "SELECT id, CAST(concat('x', id) AS INT) AS n FROM orders"}}
sinks:
  out: {{type: blackhole, from: failing}}
"""


def hanging(path: str, url: str) -> str:
    return f"""
sources:
  orders: {{type: file, format: csv, path: "{path}", primary_key: id}}
sinks:
  hook: {{type: webhook, from: orders, url: "{url}"}}
"""


UNREACHABLE = """
sources:
  topic: {type: kafka, topic: some, data_format: json, schema: {id: int64}, primary_key: id}
sinks:
  out: {type: blackhole, from: topic}
"""


@pytest.fixture
def server(tmp_path) -> Iterator[ServeProcess]:
    settings = {"CHECKPOINT_INTERVAL_SEC": "0.5", "SHUTDOWN_BUDGET_SECS": "10", "WASM_SCRIPT__TIMEOUT_SEC": str(LOOP)}
    with ServeProcess(tmp_path, {f"STREAMLING__{name}": value for name, value in settings.items()}) as process:
        yield process


def test_good_pipelines_keep_delivering_beside_every_kind_of_bad_one(server, tmp_path):
    orders, released = f"{tmp_path}/orders/*.csv", threading.Event()
    batches = itertools.count()

    def answer(request: Request) -> Reply:
        released.wait()
        return Reply()

    def deliver() -> None:
        """Every good pipeline delivers what arrives now."""
        number = next(batches)
        write_csv(tmp_path / "orders" / f"{number}.csv", range(3 * number, 3 * number + 3))
        names = [f"good-{n}" for n in range(GOOD)]
        server.eventually(lambda: all(printed(name) == list(range(3 * number + 3)) for name in names))

    def printed(name: str) -> list[int]:
        return sorted({row["id"] for row in server.rows() if row["pipeline"] == name})

    client = server.start()
    with endpoint(answer) as hook, ExitStack() as at_end:
        at_end.callback(released.set)  # the endpoint waits for its answers
        write_csv(tmp_path / "orders" / "first.csv", range(1))  # columns have a type only if there are rows
        for number in range(GOOD):
            assert client.create(f"good-{number}", csv_to_print(orders, f"good-{number}")).status == 201
        deliver()
        bad = {
            "loops": scripted(orders, "function process(row) { while (true) {} }"),
            "hungry": scripted(orders, "function process(row) { let s = 'x'; while (true) s += s; }"),
            "fails": cast(orders),
            "hangs": hanging(orders, hook.url),
        }
        soon = {"wasm_script": {"timeout_sec": 2}}
        for name, definition in bad.items():
            assert client.create(name, definition, config=soon).status == 201
        assert client.create("loops-longer", bad["loops"]).status == 201
        assert (
            client.create("alone", hanging(orders, f"{hook.url}-alone"), isolation="process", size="xs").status == 201
        )
        unreachable = client.create("unreachable", UNREACHABLE, config={"kafka_source": {"brokers": "127.0.0.1:9"}})
        assert unreachable.status == 201, unreachable.text
        # Good pipelines deliver round after round while one bad one loops, one hangs, one has no broker and others fail
        # again and again.
        server.eventually(lambda: client.state("loops-longer") == "running" and bool(hook.requests))
        for _ in range(ROUNDS):
            for name in ("loops", "hungry", "fails"):
                client.post(f"/pipelines/default/{name}/restart")
            deliver()
        assert client.state("loops-longer") == "running"  # the same loop, which has not come to its end
        assert client.pipeline("loops-longer")["restarts"] == 0
        assert client.request("DELETE", "/pipelines/default/loops-longer").status == 202
        for name, state, text in (
            ("loops", "failed", "longer than 2 s"),
            ("hungry", "failed", "memory"),
            ("fails", "failed", "cannot be converted to INT"),
            ("unreachable", "restarting", "127.0.0.1:9"),
        ):
            server.eventually(lambda name=name, state=state: client.state(name) == state)
            found = client.pipeline(name)
            assert text in found["error"], found
            assert not found["ready"]
        server.eventually(lambda: "waits for" in client.pipeline("hangs")["reason"])
        assert "hook" in client.pipeline("hangs")["reason"]
        late = client.post("/pipelines/default/hangs/checkpoint?timeout=0.5")
        assert (late.status, late.error["code"]) == (504, "timeout")
        deliver()
        assert client.get("/healthz", prefix="").status == 200
        assert {client.state(f"good-{n}") for n in range(GOOD)} == {"running"}
        assert {client.pipeline(f"good-{n}")["restarts"] for n in range(GOOD)} == {0}
        # a sink that hangs does not hold up what concerns others
        server.eventually(lambda: any(request.path.endswith("-alone") for request in hook.requests))
        for name in ("hangs", "alone"):
            client.post(f"/pipelines/default/{name}/pause")
        client.post("/pipelines/default/good-0/restart")
        deliver()
        server.eventually(lambda: client.state("alone") == "paused")  # a process of its own is killed
        assert "exit code -9" in client.pipeline("alone")["error"]
        assert client.state("hangs") == "pausing"
        released.set()
        server.eventually(lambda: client.state("hangs") == "paused")
        server.eventually(lambda: client.state("loops-longer") == "absent")
    assert server.terminate() == 0, server.log()[-3000:]
