"""`kill -9` at random moments of file pipelines: after the last restart every row is there, and only rows of an
epoch that was not final come twice."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

#: enough for every run of the suite; STREAMLING_TEST_KILLS=20 for a longer look
KILLS = int(os.environ.get("STREAMLING_TEST_KILLS", "3"))
SEED = int(os.environ.get("STREAMLING_TEST_SEED", "20261115"))
PLUGIN = Path(__file__).with_name("journal_plugin.py")

PIPELINE = """
sources:
  events:
    type: file
    path: data
    format: csv
    mode: {mode}
    primary_key: id
transforms:
  kept:
    type: sql
    primary_key: id
    sql: SELECT id, file FROM events WHERE id % 5 <> 0
sinks:
  out:
    type: journal
    from: kept
    file: out.jsonl
    delay_ms: {delay}
    batch_size: 400
"""


class Folder:
    """A pipeline with its data, output and state, and the processes that run it."""

    def __init__(self, root: Path, mode: str, delay_ms: int) -> None:
        self.root = root
        self.rows_per_file = 5
        (root / "data").mkdir()
        (root / "pipeline.yaml").write_text(PIPELINE.replace("{mode}", mode).replace("{delay}", str(delay_ms)))
        self.files = 0

    def add_files(self, count: int) -> None:
        for _ in range(count):
            first = self.files * self.rows_per_file
            rows = "".join(f"{first + i},f{self.files}\n" for i in range(self.rows_per_file))
            part = self.root / "data" / f".f{self.files:06}.part"
            part.write_text("id,file\n" + rows)
            part.rename(self.root / "data" / f"f{self.files:06}.csv")
            self.files += 1

    def start(self) -> subprocess.Popen[bytes]:
        env = {
            **os.environ,
            "STREAMLING__PLUGIN__PATH": str(PLUGIN),
            "STREAMLING__CHECKPOINT_INTERVAL_SEC": "0.2",
        }
        command = [sys.executable, "-m", "streamling", "run", "pipeline.yaml"]
        with (self.root / "log.txt").open("ab") as log:
            return subprocess.Popen(command, cwd=self.root, env=env, stdout=subprocess.DEVNULL, stderr=log)

    def lines(self) -> list[dict[str, object]]:
        path = self.root / "out.jsonl"
        if not path.exists():
            return []
        # a line cut by the kill was not synced: it belongs to nobody
        return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def expected(self) -> set[int]:
        return {i for i in range(self.files * self.rows_per_file) if i % 5 != 0}

    def done_files(self) -> set[str]:
        """Files that a stored position covers: their rows must not be replayed."""
        if not (self.root / "state.db").exists():
            return set()
        with closing(sqlite3.connect(self.root / "state.db")) as state:
            entries = dict(state.execute("SELECT key, data FROM state"))
        names = [path.name for path in sorted((self.root / "data").glob("*.csv"))]
        done: set[str] = set()
        for key, data in entries.items():
            value = json.loads(data)
            if key.endswith(":bounded_progress"):
                for part in value["completed"]:
                    first, last = Path(part["first"]).name, Path(part["last"]).name
                    done |= {name for name in names if first <= name <= last}
            elif ":seen:" in key:
                done |= {name for name in names if name in data}
        return {f"f{int(name[1:7])}" for name in done}


def check_no_final_row_came_again(before: set[str], lines: list[dict[str, object]], old: int) -> None:
    again = {line["file"] for line in lines[old:]} & before
    assert not again, f"rows of finalized files came again: {sorted(again)[:5]}"


def wait_for_progress(folder: Folder, process: subprocess.Popen[bytes], more_than: int) -> None:
    deadline = time.monotonic() + 90
    while len(folder.lines()) <= more_than and process.poll() is None:
        assert time.monotonic() < deadline, (folder.root / "log.txt").read_text()
        time.sleep(0.05)


def kill(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_a_bounded_pipeline_survives_kills_at_random_moments(tmp_path):
    chance = random.Random(SEED)
    print(f"seed {SEED}")
    folder = Folder(tmp_path, "{type: bounded}", delay_ms=200)
    folder.add_files(8000)
    hits = 0
    for _ in range(KILLS):
        before, old = folder.done_files(), len(folder.lines())
        process = folder.start()
        if chance.random() < 0.7:  # most kills while data flows, some during the start
            wait_for_progress(folder, process, old)
            time.sleep(chance.random() * 1.0)
        else:
            time.sleep(chance.random() * 4.0)
        hits += process.poll() is None
        kill(process)
        check_no_final_row_came_again(before, folder.lines(), old)
    assert hits >= KILLS / 2, "the pipeline was finished before most of the kills: too little data"
    before, old = folder.done_files(), len(folder.lines())
    process = folder.start()
    assert process.wait(180) == 0, (folder.root / "log.txt").read_text()
    check_no_final_row_came_again(before, folder.lines(), old)
    assert {line["id"] for line in folder.lines()} == folder.expected()


def test_a_continuous_pipeline_survives_kills_while_files_arrive(tmp_path):
    chance = random.Random(SEED + 1)
    print(f"seed {SEED + 1}")
    folder = Folder(tmp_path, "{type: continuous, poll_interval: 100ms}", delay_ms=50)
    folder.add_files(20)
    for _ in range(KILLS):
        before, old = folder.done_files(), len(folder.lines())
        process = folder.start()
        folder.add_files(chance.randrange(1, 30))
        if chance.random() < 0.7:
            wait_for_progress(folder, process, old)
            for _ in range(chance.randrange(0, 6)):
                folder.add_files(chance.randrange(1, 10))
                time.sleep(chance.random() * 0.3)
        else:
            time.sleep(chance.random() * 4.0)
        kill(process)
        check_no_final_row_came_again(before, folder.lines(), old)
    process = folder.start()
    deadline = time.monotonic() + 120
    while {line["id"] for line in folder.lines()} != folder.expected():
        assert time.monotonic() < deadline, "rows are missing"
        assert process.poll() is None, (folder.root / "log.txt").read_text()
        time.sleep(0.2)
    process.terminate()
    assert process.wait(40) == 0, (folder.root / "log.txt").read_text()
