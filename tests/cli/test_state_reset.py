"""`state reset` beyond entries of the state: consumer groups, and unusable state files."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from streamling.dev.services.kafka import LocalKafka
from streamling.dev.services.topics import create_topic
from streamling.engine.state.sqlite import SqliteState
from streamling.errors import StreamlingError
from tests.cli.conftest import Project

KAFKA = """\
sources:
  events: {type: kafka, topic: TOPIC, data_format: json, schema: {id: bigint}, primary_key: id}
sinks:
  seen: {type: blackhole, from: events}
"""
COMMANDS = [("run", "pipeline.yaml"), ("state", "show"), ("state", "export"), ("state", "import", "backup.json")]

# ── files that cannot be used ───────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def damaged(project: Project) -> Project:
    project.write("state.db", "this was once a database, and then somebody edited it\n" * 100)
    project.write("backup.json", '{"entries": {"orders:bounded_progress": {"completed": []}}}')
    return project


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_file_that_is_not_a_database_is_an_error_with_remedies(damaged: Project, command: tuple[str, ...]) -> None:
    result = damaged.command(*command) if command[0] == "run" else damaged.call(*command)
    assert result.code == 1
    assert f"the state file {damaged.folder / 'state.db'} cannot be opened: file is not a database" in result.err
    assert "streamling state reset" in result.err
    assert "state_backend.sqlite.database_path" in result.err
    assert "Traceback" not in result.err


def test_reset_moves_an_invalid_state_file_aside(damaged: Project) -> None:
    before = (damaged.folder / "state.db").read_text()
    assert damaged.call("state", "reset", "--node", "orders", "--yes").code == 1, (
        "the entries of one node cannot be identified"
    )
    result = damaged.call("state", "reset", "--yes")
    assert result.code == 0, result.err
    (aside,) = damaged.folder.glob("state.db.damaged-*")
    assert aside.read_text() == before
    assert f"moved {damaged.folder / 'state.db'} to {aside}" in result.err
    assert "Offsets in consumer groups are still there" in result.err
    assert "there is no state of pipeline" in damaged.call("state", "show").err
    assert sorted(path.name for path in damaged.folder.glob("state.db*")) == [aside.name], "no lock is left"


def test_reset_asks_before_it_moves_a_file(damaged: Project) -> None:
    result = damaged.command("state", "reset")
    assert result.code == 2
    assert "add --yes" in result.err
    assert (damaged.folder / "state.db").exists()


@contextmanager
def without_privileges() -> Iterator[None]:
    """Root may write everything, so run as another user for a moment."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_project(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """The project in a folder that all users can enter."""
    folder = Path(tempfile.mkdtemp(prefix="streamling-readonly-"))
    shutil.copytree(project.folder, folder, dirs_exist_ok=True)
    SqliteState("pipeline", folder / "state.db").close()
    folder.chmod(0o777)
    (folder / "state.db").chmod(0o444)
    monkeypatch.chdir(folder)
    yield project.at(folder)
    shutil.rmtree(folder)


def test_a_read_only_state_file_is_reported_when_it_is_opened(open_project: Project) -> None:
    path = open_project.folder / "state.db"
    open_project.call("state", "show")  # imports everything while it can
    with without_privileges(), pytest.raises(StreamlingError) as raised:
        SqliteState("pipeline", path)
    assert str(raised.value) == f"the state file {path} cannot be opened: attempt to write a readonly database"
    with without_privileges():
        result = open_project.call("state", "reset", "--yes")
    assert result.code == 1
    assert str(raised.value) in result.err
    assert "allow this user to write the file and its folder" in result.err


# ── consumer groups ─────────────────────────────────────────────────────────────────────────────────────────


def committed(kafka: LocalKafka, topic: str, offset: int | None = None) -> int:
    """The offset of the group of the node ``events``; sets it first if ``offset`` is given."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": kafka.brokers, "group.id": "pipeline-events"})
    try:
        if offset is not None:
            consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        return int(consumer.committed([TopicPartition(topic, 0)], timeout=30)[0].offset)
    finally:
        consumer.close()


@pytest.mark.services
def test_reset_also_deletes_the_offsets_of_consumer_groups(project: Project, kafka: LocalKafka) -> None:
    topic = "reset-events"
    create_topic(kafka.brokers, topic)
    project.write("pipeline.yaml", KAFKA.replace("TOPIC", topic))
    assert committed(kafka, topic, 7) == 7
    with SqliteState("pipeline", project.folder / "state.db") as state:
        state.put(f"events:{topic}:0", {"offset": 7, "updated_at": 1})
    brokers = {"STREAMLING__KAFKA_SOURCE__BROKERS": kafka.brokers}

    unreachable = project.command("state", "reset", "--yes", STREAMLING__KAFKA_SOURCE__BROKERS="127.0.0.1:1")
    assert unreachable.code == 1
    assert (
        f"the offsets of the consumer group 'pipeline-events' for the topic '{topic}' cannot be deleted"
        in unreachable.err
    )
    assert "cannot connect to the Kafka brokers at 127.0.0.1:1" in unreachable.err
    assert "--state-only" in unreachable.err
    assert "1 entry of pipeline" in project.call("state", "show").err, "all or nothing"

    result = project.command("state", "reset", "--yes", **brokers)
    assert result.code == 0, result.err
    assert result.err == (
        f"deleted 1 entry of pipeline and the offsets of the consumer group 'pipeline-events' for the topic '{topic}'\n"
    )
    assert committed(kafka, topic) < 0
    assert "there is no state of pipeline" in project.call("state", "show").err


def test_reset_with_state_only_needs_no_brokers(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write("pipeline.yaml", KAFKA.replace("TOPIC", "t"))
    monkeypatch.setenv("STREAMLING__KAFKA_SOURCE__BROKERS", "127.0.0.1:1")
    with SqliteState("pipeline", project.folder / "state.db") as state:
        state.put("events:t:0", {"offset": 7, "updated_at": 1})
    result = project.call("state", "reset", "--state-only", "--yes")
    assert (result.code, result.err) == (0, "deleted 1 entry of pipeline\n")
