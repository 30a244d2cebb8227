"""The server process: folders, isolation, crashes of its parts, restarts."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tests.harness.script import is_running, wait_until_ended
from tests.serve.definitions import csv_to_print, write_csv
from tests.serve.processes import children
from tests.serve.server import ServeProcess

pytestmark = [pytest.mark.spark, pytest.mark.slow]

WORKER = "streamling.serve.worker"


@pytest.fixture
def server(tmp_path) -> Iterator[ServeProcess]:
    (tmp_path / "pipelines").mkdir()
    with ServeProcess(tmp_path, {"STREAMLING__CHECKPOINT_INTERVAL_SEC": "0.5"}, "--dir", "pipelines") as process:
        yield process


def printed(server: ServeProcess, pipeline: str) -> list[int]:
    return sorted({row["id"] for row in server.rows() if row["pipeline"] == pipeline})


def test_a_folder_crashes_of_parts_and_kills_of_the_server(server, tmp_path):
    """One server, because each takes seconds of CPU time to start."""
    orders, folder = tmp_path / "orders", tmp_path / "pipelines"
    write_csv(orders / "1.csv", range(2))
    (folder / "Of Folder.yaml").write_text(csv_to_print(f"{orders}/*.csv", "folder"))
    (folder / "bad.yaml").write_text("sources: [")
    client = server.start()

    # the folder
    server.eventually(lambda: printed(server, "folder") == [0, 1])
    assert client.pipeline("of-folder")["managed_by"] == "dir"
    bad = client.pipeline("bad")
    assert (bad["state"], bad["ready"]) == ("failed", False)
    assert "bad.yaml:2:1: a value is expected" in bad["error"]
    answer = client.post("/pipelines/default/of-folder/pause")
    assert (answer.status, answer.error["code"]) == (409, "managed")
    (folder / "bad.yaml").unlink()
    server.eventually(lambda: client.state("bad") == "absent")

    # a process of its own
    client.create("alone", csv_to_print(f"{orders}/*.csv", "alone"), isolation="process", size="xs")
    server.eventually(lambda: client.state("alone") == "running" and client.pipeline("alone")["ready"])
    assert printed(server, "alone") == [0, 1]
    assert client.post("/pipelines/default/alone/checkpoint").status == 202
    assert "running" in client.get("/pipelines/default/alone/logs").text
    (worker,) = children(server.pid, WORKER)
    (shared_jvm,) = set(children(server.pid, "java")) - set(children(worker, "java"))
    os.kill(worker, signal.SIGKILL)
    server.eventually(lambda: client.pipeline("alone")["restarts"] == 1 and client.state("alone") == "running")
    alone = client.pipeline("alone")
    assert (alone["error"], alone["next_attempt_at"]) == ("", None)
    assert alone["last_error"]["message"] == "the process of the pipeline ended with exit code -9"
    assert alone["restarts_since"] < alone["last_error"]["at"] < alone["state_since"]
    assert printed(server, "folder") == [0, 1]

    # the JVM that all others share
    os.kill(shared_jvm, signal.SIGKILL)
    write_csv(orders / "2.csv", range(2, 4))
    server.eventually(lambda: printed(server, "folder") == [0, 1, 2, 3])
    assert client.get("/healthz", prefix="").status == 200
    assert client.pipeline("of-folder")["restarts"] >= 1
    server.eventually(lambda: printed(server, "alone") == [0, 1, 2, 3])

    # the server itself
    client.create("paused", csv_to_print(f"{orders}/*.csv", "paused"), desired="paused")
    workers = children(server.pid, WORKER)
    server.kill()
    write_csv(orders / "3.csv", range(4, 6))
    client = server.start()
    server.eventually(lambda: printed(server, "folder") == printed(server, "alone") == [0, 1, 2, 3, 4, 5])
    assert [pid for pid in workers if is_running(pid)] == []
    assert client.state("paused") == "paused"
    assert printed(server, "paused") == []

    # the end
    server.eventually(lambda: client.state("alone") == client.state("of-folder") == "running")
    workers = children(server.pid, WORKER)
    assert server.terminate() == 0, server.log()[-3000:]
    for worker in workers:
        wait_until_ended(worker)


def test_a_host_that_the_operator_lists_is_accepted(tmp_path):
    with ServeProcess(tmp_path, {"STREAMLING__SERVE__HOSTS": "Api.Example"}) as server:
        client = server.start()
        answers = {host: client.get("/pipelines", headers={"Host": host}) for host in ("api.example", "other.example")}
    assert {host: answer.status for host, answer in answers.items()} == {"api.example": 200, "other.example": 403}
