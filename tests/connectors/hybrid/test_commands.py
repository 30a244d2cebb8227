"""A backfill as a user runs it: on a terminal, as a job, and twice at the same time."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from streamling.connectors.postgres.config import PostgresStateSettings
from streamling.engine.launch.launcher import Launcher
from streamling.errors import StreamlingError
from streamling.pipeline.config import load_config
from tests.cli.conftest import Project, command_environment, command_line
from tests.connectors.hybrid.driver import ORDERS, Database
from tests.connectors.kafka.source_driver import Topic
from tests.harness.terminal import Terminal

pytestmark = [pytest.mark.spark, pytest.mark.services]

ROWS = 20_000


class Backfill(Project):
    """Two tables of orders and a topic, read by a job with two sources and two sinks."""

    def __init__(self, folder: Path, database: Database, topic: Topic, env: dict[str, str]) -> None:
        super().__init__(folder)
        self.env = {**env, **database.variables(), "STREAMLING__JOB_MODE": "true"}
        bounded = [{"source_type": "clickhouse", "table_name": name} for name in ("old", "new")]
        source = {
            "type": "hybrid",
            "bounded_sources": bounded,
            "unbounded_source": {"source_type": "kafka", "topic": topic.name},
            "primary_key": "id",
        }
        files = {"type": "file", "path": "orders", "format": "csv", "mode": {"type": "bounded"}, "primary_key": "id"}
        sinks = {"all": {"type": "blackhole", "from": "history"}, "rest": {"type": "blackhole", "from": "files"}}
        nodes = {"sources": {"history": source, "files": files}, "sinks": sinks}
        self.write("pipeline.yaml", json.dumps(nodes))


@pytest.fixture
def backfill(tmp_path, kafka, registry, clickhouse) -> Backfill:
    database = Database(clickhouse)
    database.orders("old", 0, ROWS)
    database.orders("new", ROWS, ROWS)
    topic = Topic(kafka, registry)
    topic.write(ORDERS, {"id": 1, "name": "live"})
    # so many pages that a person sees the progress
    pages = {"STREAMLING__CLICKHOUSE_SOURCE__PAGE_SIZE": "50"}
    return Backfill(tmp_path, database, topic, {**kafka.variables(), **registry.variables(), **pages})


def messages(text: str) -> list[str]:
    """The lines of the log, without the time."""
    return [line.rstrip() for line in re.findall(r"^[\d:.]+ (.*)", text, re.MULTILINE)]


def test_a_backfill_on_a_terminal_shows_its_progress_and_a_finished_job_does_nothing(backfill):
    env = {**command_environment(), "PYTHONUTF8": "1", **backfill.env}
    with Terminal(command_line("run", "pipeline.yaml"), cwd=backfill.folder, env=env, columns=160) as terminal:
        for part in (r"old \(1 of 2\)", r"new \(2 of 2\)"):
            terminal.wait_for(rf"\[[█·]{{10}}\] {part}: [\d,]+/20,000 rows \(\d+%, \d+ s left\) · in [\d,]+ rows/s", 90)
        assert terminal.end() == 0
        screen = terminal.screen()
    assert messages("\n".join(screen))[-1] == f"INFO  finished; rows: {2 * ROWS:,} to all, 3 to rest"
    again = backfill.command("run", "pipeline.yaml", **backfill.env)
    assert again.code == 0
    nothing_new = "nothing new to read, earlier runs have read everything"
    assert (
        f"INFO  hybrid source 'history': {nothing_new}. To read it again: streamling state reset pipeline.yaml --node "
        "history"
    ) in messages(again.err)
    assert messages(again.err)[-1] == "INFO  finished; rows: 0 to all, 0 to rest"


def test_a_pipeline_with_a_hybrid_source_runs_once_at_a_time(backfill, postgres_state: PostgresStateSettings):
    """Also with a state that several instances could share."""
    settings: dict[str, Any] = postgres_state.model_dump(mode="json", exclude={"password"})
    state = {"backend_type": "Postgres", "postgres": settings}
    backfill.write("config.yaml", json.dumps({"application_id": "backfill", "state_backend": state}))
    launcher = Launcher.of(load_config("config", cwd=backfill.folder, env={}))
    pipeline = launcher.pipeline(str(backfill.folder / "pipeline.yaml"))
    with (
        launcher.state(pipeline),
        pytest.raises(StreamlingError, match="is in use by process"),
        launcher.state(pipeline),
    ):
        pass
