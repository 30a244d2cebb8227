"""`kill -9` at random moments of a pipeline with a generate source: no row is lost, and replayed rows are the same."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.generate.driver import generate
from tests.harness.commands import Command
from tests.recovery.test_kill_file import ENV, KILLS, SEED

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COLUMNS: dict[str, Any] = {"id": "sequence", "customer": "name", "amount": {"generator": "number", "min": 1, "max": 99}}
NODES: dict[str, dict[str, Any]] = {
    "sources": {"events": {"type": "generate", "columns": COLUMNS, "rows_per_second": 400, "primary_key": "id"}},
    "transforms": {"kept": {"type": "sql", "primary_key": "id", "sql": "SELECT * FROM events WHERE id % 5 <> 0"}},
    "sinks": {"out": {"type": "journal", "from": "kept", "file": "out.jsonl"}},
}


def written(folder: Path) -> list[dict[str, Any]]:
    path = folder / "out.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def test_killed_pipelines_continue_with_the_same_rows(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    print(f"seed {SEED}")
    command = Command(tmp_path, ENV)
    command.write(NODES)
    try:
        for _ in range(KILLS):
            old = len(written(tmp_path))
            command.start()
            command.eventually(lambda old=old: len(written(tmp_path)) > old)
            time.sleep(chance.random())
            command.kill()
        old = len(written(tmp_path))
        command.start()
        command.eventually(lambda: len(written(tmp_path)) > old)
        command.drain()
    finally:
        command.end()
    found: dict[int, dict[str, Any]] = {}
    for line in written(tmp_path):
        row = {name: line[name] for name in COLUMNS}
        assert found.setdefault(row["id"], row) == row, "a replayed row is another one"
    expected = generate(COLUMNS, max(found)).to_pylist()
    assert list(found.values()) == [row for row in expected if row["id"] % 5 != 0]
