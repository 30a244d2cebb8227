"""`kill -9` at random moments of file pipelines: after the last restart every row has been delivered, and only rows of
an epoch that was not final more than once."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.harness.commands import Command, Nodes
from tests.harness.endpoint import Endpoint, Reply, Request, endpoint
from tests.harness.pipelines import eventually

pytestmark = [pytest.mark.spark, pytest.mark.slow]

#: enough for every run of the suite; `make soak` sets more
KILLS = int(os.environ.get("STREAMLING_TEST_KILLS", "2"))
SEED = int(os.environ.get("STREAMLING_TEST_SEED", "20261115"))
PLUGIN = Path(__file__).with_name("journal_plugin.py")
ENV = {"STREAMLING__PLUGIN__PATH": str(PLUGIN), "STREAMLING__CHECKPOINT_INTERVAL_SEC": "0.2"}
ROWS_PER_FILE = 5
#: rows that go through a handler to a webhook: enough for the kills while some of them are in flight
REQUESTS = 100 * (KILLS + 2)


class Folder(Command):
    """A pipeline with its data, output and state: files that a plugin's sink copies to ``out.jsonl``."""

    def __init__(self, root: Path, mode: dict[str, Any], delay_ms: int) -> None:
        super().__init__(root, ENV)
        self.root = root
        self.files = 0
        self._mode = mode
        self._delay_ms = delay_ms
        (root / "data").mkdir()

    def nodes(self) -> Nodes:
        events = {"type": "file", "path": "data", "format": "csv", "mode": self._mode, "primary_key": "id"}
        sql = "SELECT id, file FROM events WHERE id % 5 <> 0"
        out = {"type": "journal", "from": "kept", "file": "out.jsonl", "delay_ms": self._delay_ms, "batch_size": 400}
        return {
            "sources": {"events": events},
            "transforms": {"kept": {"type": "sql", "primary_key": "id", "sql": sql}},
            "sinks": {"out": out},
        }

    def add_files(self, count: int) -> None:
        for _ in range(count):
            first = self.files * ROWS_PER_FILE
            rows = "".join(f"{first + i},f{self.files}\n" for i in range(ROWS_PER_FILE))
            part = self.root / "data" / f".f{self.files:06}.part"
            part.write_text("id,file\n" + rows)
            part.rename(self.root / "data" / f"f{self.files:06}.csv")
            self.files += 1

    def lines(self) -> list[dict[str, object]]:
        path = self.root / "out.jsonl"
        if not path.exists():
            return []
        # a line cut by the kill was not synced: it was never delivered
        return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def is_complete(self) -> bool:
        return {line["id"] for line in self.lines()} == {i for i in range(self.files * ROWS_PER_FILE) if i % 5 != 0}

    def final_files(self) -> set[str]:
        """Files that a stored position covers: their rows must not be replayed."""
        if not (self.root / "state.db").exists():
            return set()
        with closing(sqlite3.connect(self.root / "state.db")) as state:
            entries = dict(state.execute("SELECT key, data FROM state WHERE key LIKE 'events:%'"))
        names = [path.name for path in sorted((self.root / "data").glob("*.csv"))]
        final: set[str] = set()
        for key, data in entries.items():
            value = json.loads(data)
            if key.endswith(":bounded_progress"):
                for part in value["completed"]:
                    first, last = Path(part["first"]).name, Path(part["last"]).name
                    final |= {name for name in names if first <= name <= last}
            elif ":seen:" in key:
                final |= {name for name in names if name in data}
        return {f"f{int(name[1:7])}" for name in final}


def assert_not_replayed(final: set[str], lines: list[dict[str, object]]) -> None:
    replayed = {line["file"] for line in lines} & final
    assert not replayed, f"rows of final files were replayed: {sorted(map(str, replayed))[:5]}"


@pytest.mark.soak
def test_a_bounded_pipeline_survives_kills_at_random_moments(tmp_path: Path) -> None:
    """One source is copied by a plugin, the rows of another go through a handler to a webhook."""
    chance = random.Random(SEED)
    print(f"seed {SEED}")
    folder = Folder(tmp_path, {"type": "bounded"}, delay_ms=200)
    folder.add_files(min(8000, 1500 * (KILLS + 1)))
    write_requests(tmp_path / "requests")
    moments = ["requests are in flight", "rows are written", "the pipeline starts"]
    while_running = while_requesting = 0
    with endpoint(answer) as server:
        folder.write(with_requests(folder.nodes(), server.url))
        try:
            for number in range(KILLS):
                final, old = folder.final_files(), len(folder.lines())
                requests = len(server.requests) + chance.randint(1, 60)
                folder.start()
                match moments[number % len(moments)]:
                    case "requests are in flight":
                        wait_while_running(folder, lambda least=requests: len(server.requests) >= least)
                    case "rows are written":
                        wait_while_running(folder, lambda old=old: len(folder.lines()) > old)
                        time.sleep(chance.random())
                    case "the pipeline starts":
                        time.sleep(chance.random() * 4)
                while_running += folder.is_running()
                while_requesting += len(set(posted(server))) < REQUESTS
                folder.end()
                assert_not_replayed(final, folder.lines()[old:])
            assert while_running >= KILLS / 2, "the pipeline was finished before most of the kills: too little data"
            assert while_requesting >= 1
            final, old = folder.final_files(), len(folder.lines())
            folder.start()
            folder.wait(180)
        finally:
            folder.end()
    assert_not_replayed(final, folder.lines()[old:])
    assert folder.is_complete()
    assert sorted(set(posted(server))) == list(range(REQUESTS))


def wait_while_running(folder: Folder, condition: Callable[[], bool]) -> None:
    """Until ``condition`` holds or the pipeline has ended."""
    eventually(lambda: condition() or not folder.is_running(), 90, folder.log)


def write_requests(data: Path, per_file: int = 10) -> None:
    data.mkdir()
    for first in range(0, REQUESTS, per_file):
        rows = "".join(f"{id}\n" for id in range(first, first + per_file))
        (data / f"f{first:05}.csv").write_text("id\n" + rows)


def with_requests(nodes: Nodes, url: str) -> Nodes:
    """The pipeline with a second source, whose rows go through a handler to a webhook."""
    bounded = {"type": "bounded"}
    source = {"type": "file", "path": "requests", "format": "csv", "mode": bounded, "primary_key": "id"}
    handler = {"type": "handler", "from": "requests", "primary_key": "id", "url": url, "batch_size": 20}
    webhook = {"type": "webhook", "from": "asked", "url": f"{url}/out", "batch_size": 7}
    return {
        "sources": {**nodes["sources"], "requests": source},
        "transforms": {**nodes["transforms"], "asked": {**handler, "one_row_per_request": True}},
        "sinks": {**nodes["sinks"], "hook": webhook},
    }


def answer(request: Request) -> Reply:
    """Slow enough that requests are in flight at a kill; some of them fail first."""
    if request.number % 17 == 0:
        return Reply(503)
    return Reply(text=request.text, seconds=0.02)


def posted(server: Endpoint) -> list[int]:
    return [row["id"] for request in list(server.accepted) if request.path.endswith("/out") for row in request.rows]


def test_a_continuous_pipeline_survives_kills_while_files_arrive(tmp_path: Path) -> None:
    chance = random.Random(SEED + 1)
    print(f"seed {SEED + 1}")
    folder = Folder(tmp_path, {"type": "continuous", "poll_interval": "100ms"}, delay_ms=50)
    folder.write(folder.nodes())
    folder.add_files(20)
    try:
        for _ in range(KILLS):
            final, old = folder.final_files(), len(folder.lines())
            folder.start()
            folder.add_files(chance.randrange(1, 30))
            if chance.random() < 0.7:
                folder.eventually(lambda old=old: len(folder.lines()) > old)
                for _ in range(chance.randrange(0, 6)):
                    folder.add_files(chance.randrange(1, 10))
                    time.sleep(chance.random() * 0.3)
            else:
                time.sleep(chance.random() * 4)
            folder.kill()
            assert_not_replayed(final, folder.lines()[old:])
        folder.start()
        folder.eventually(folder.is_complete)
        folder.drain()
    finally:
        folder.end()
