"""The console of a single `streamling run`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.console.chromium import browser
from tests.console.visit import visiting
from tests.harness.commands import QUICK_JVM

pytestmark = [pytest.mark.spark, pytest.mark.slow]

_PIPELINE = """
sources:
  orders: {type: file, format: csv, path: data, primary_key: id}
sinks:
  out: {type: print, from: orders}
"""
_TOKEN = "operator-0123456789"
_ADDRESS = re.compile(r"admin API: (http://\S+)")


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "orders.csv").write_text("id\n9007199254740993\n")
    (tmp_path / "daily-orders.yaml").write_text(_PIPELINE)
    env = {**os.environ, **QUICK_JVM, "STREAMLING__ADMIN_API_PORT": "0", "STREAMLING__ADMIN_API_TOKEN": _TOKEN}
    command = [sys.executable, "-m", "streamling", "run", "daily-orders.yaml"]
    log = tmp_path / "log.txt"
    with log.open("wb") as stderr:
        process = subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.DEVNULL, stderr=stderr)
    deadline = time.monotonic() + 90
    while (found := _ADDRESS.search(log.read_text())) is None:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
    yield found[1]
    process.kill()
    process.wait()


def test_the_pipeline_is_shown_directly_and_can_be_paused(address: str) -> None:
    with browser() as started, visiting(started, address, token=_TOKEN) as visit:
        page = visit.open()
        expect(page.get_by_role("heading", name="daily-orders")).to_be_visible()
        expect(page.get_by_role("link", name="New pipeline")).to_have_count(0)
        page.get_by_role("button", name="Pause").click()
        expect(page.locator(".title-state")).to_contain_text("paused")
        page.get_by_role("button", name="Resume").click()
        expect(page.locator(".title-state")).to_contain_text("running")
        page.locator('[data-node="orders"]').click()
        page.get_by_role("tab", name="Live rows").click()
        # more digits than JavaScript keeps
        expect(page.get_by_role("cell", name="9007199254740993")).to_be_visible()
        page.get_by_role("tab", name="Epochs").click()
        expect(page.get_by_role("row", name=re.compile("out acknowledged"))).to_be_visible()
        assert visit.violations() == []
