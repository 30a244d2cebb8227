"""`kill -9` while rows are on their way through a handler to a webhook: after the last restart every row was posted."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.harness.endpoint import Endpoint, Reply, Request, endpoint

pytestmark = [pytest.mark.spark, pytest.mark.slow]

KILLS = int(os.environ.get("STREAMLING_TEST_HTTP_KILLS", "2"))
SEED = int(os.environ.get("STREAMLING_TEST_SEED", "20261115"))
FILES, ROWS = 40, 10

PIPELINE = """
sources:
  events: {{type: file, path: data, format: csv, mode: {{type: bounded}}, primary_key: id}}
transforms:
  asked: {{type: handler, from: events, primary_key: id, url: '{url}', one_row_per_request: true}}
sinks:
  out: {{type: webhook, from: asked, url: '{url}/out', batch_size: 7}}
"""


def answer(request: Request) -> Reply:
    """Slow enough that a kill meets requests under way; some of them fail first."""
    if request.number % 17 == 0:
        return Reply(503)
    return Reply(text=request.text, seconds=0.02)


def start(folder: Path) -> subprocess.Popen[bytes]:
    env = {**os.environ, "STREAMLING__CHECKPOINT_INTERVAL_SEC": "0.2", "STREAMLING__RECORD_BATCH_SIZE": "20"}
    command = [sys.executable, "-m", "streamling", "run", "pipeline.yaml"]
    with (folder / "log.txt").open("ab") as log:
        return subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=log)


def posted(server: Endpoint) -> list[int]:
    return [row["id"] for request in list(server.accepted) if request.path.endswith("/out") for row in request.rows]


def test_no_row_is_lost(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    print(f"seed {SEED}")
    (tmp_path / "data").mkdir()
    for file in range(FILES):
        rows = "".join(f"{file * ROWS + row}\n" for row in range(ROWS))
        (tmp_path / "data" / f"f{file:03}.csv").write_text("id\n" + rows)
    with endpoint(answer) as server:
        (tmp_path / "pipeline.yaml").write_text(PIPELINE.format(url=server.url))
        for _ in range(KILLS):
            _kill_after(start(tmp_path), server, chance.randint(1, 60))
        assert start(tmp_path).wait(240) == 0, (tmp_path / "log.txt").read_text()
    assert sorted(set(posted(server))) == list(range(FILES * ROWS))


def _kill_after(process: subprocess.Popen[bytes], server: Endpoint, requests: int) -> None:
    """Kill when so many more requests have come."""
    goal, deadline = len(server.requests) + requests, time.monotonic() + 120
    while len(server.requests) < goal and process.poll() is None:
        assert time.monotonic() < deadline, "no request came"
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
