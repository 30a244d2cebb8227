"""`streamling dev` as a person uses it: real commands, real services, a separate HOME."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psutil
import psycopg
import pytest

from streamling.dev.services.envfile import read_env_file
from streamling.dev.services.kafka import LocalKafka
from streamling.dev.services.registry import LocalRegistry
from tests.cli.conftest import Result, command_environment, command_line

SCHEMA = {
    "type": "record",
    "name": "order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "item", "type": ["null", "string"], "default": None},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
    ],
}
ORDERS = '{"id": 1, "item": "tea", "price": 2.5}\n{"id": 2, "price": "0.75", "_gs_op": "u"}\n'


class Shell:
    """A folder closed to other users, a HOME beside it, and the command line called there."""

    def __init__(self, folder: Path, cache_dir: Path) -> None:
        self.folder = folder / "project"
        home = folder / "home"
        for made in (self.folder, home):
            made.mkdir(mode=0o700)
        self.environ = {**command_environment(), "HOME": str(home), "STREAMLING__CACHE_DIR": str(cache_dir)}

    def call(self, *args: str, code: int = 0, stdin: str = "") -> Result:
        done = subprocess.run(
            command_line("dev", *args),
            cwd=self.folder,
            env=self.environ,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=180,
        )
        assert done.returncode == code, done.stderr
        return Result(done.returncode, done.stdout, done.stderr)

    def begin(self, *args: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command_line("dev", *args), cwd=self.folder, env=self.environ, stdout=subprocess.PIPE, text=True
        )

    def rows(self, *args: str) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.call(*args).out.splitlines()]

    def status(self) -> dict[str, dict[str, object]]:
        return {row["service"]: row for row in json.loads(self.call("status", "--json").out)}


@pytest.fixture
def shell(tmp_path: Path, cache_dir: Path) -> Iterator[Shell]:
    made = Shell(tmp_path, cache_dir)
    yield made
    data = (made.folder / ".streamling" / "postgres" / "home").resolve()  # elsewhere, if run as root
    made.call("down", "--delete")
    assert not data.exists()


@pytest.mark.services
def test_a_day_with_local_services(shell: Shell) -> None:
    up = shell.call("up")
    variables = read_env_file(shell.folder / ".streamling" / "dev.env")
    assert [line.split("=")[0] for line in up.out.splitlines()] == [f"export {name}" for name in variables]
    status = shell.status()
    assert all(row["running"] for row in status.values())
    assert variables["STREAMLING__KAFKA_SOURCE__BROKERS"] == status["kafka"]["address"]
    assert variables["STREAMLING__KAFKA_SINK__SCHEMA_REGISTRY_URL"] == status["registry"]["address"]
    assert variables["STREAMLING__CLICKHOUSE_SINK__URL"] == status["clickhouse"]["address"]
    with urllib.request.urlopen(f"{status['clickhouse']['address']}/ping", timeout=10) as answer:
        assert answer.read() == b"Ok.\n"
    with psycopg.connect(str(status["postgres"]["address"])) as connection:
        connection.execute("CREATE TABLE t AS SELECT 7 AS x")

    # a second start changes nothing
    assert "already running" in shell.call("up").err
    assert {name: row["pid"] for name, row in shell.status().items()} == {n: r["pid"] for n, r in status.items()}

    (shell.folder / "orders.avsc").write_text(json.dumps(SCHEMA))
    produced = shell.call(
        *("produce", "-", "--topic", "orders", "--schema", "orders.avsc", "--key", "id"), stdin=ORDERS
    )
    assert "wrote 2 messages" in produced.err
    avro = shell.rows("consume", "--topic", "orders", "--from-beginning", "--until-end")
    assert [(row["key"], row["op"], row["value"]) for row in avro] == [
        ("1", "i", {"id": 1, "item": "tea", "price": "2.50"}),
        ("2", "u", {"id": 2, "item": None, "price": "0.75"}),
    ]

    shell.call("produce", "-", "--topic", "plain", "--partitions", "3", stdin=ORDERS)
    plain = shell.rows("consume", "--topic", "plain", "--from-beginning", "--max", "2")
    assert sorted(row["value"]["id"] for row in plain) == [1, 2]  # type: ignore[index]

    with shell.begin("consume", "--topic", "orders", "--from-beginning") as following:
        assert following.stdout is not None
        assert [json.loads(following.stdout.readline())["offset"] for _ in range(2)] == [0, 1]
        following.send_signal(signal.SIGINT)
        assert following.wait(60) == 0

    bad = shell.call("produce", "-", "--topic", "orders", "--schema", "orders.avsc", stdin='{"id": "x"}', code=1)
    assert "error: <stdin>:1: price is missing" in bad.err

    shell.call("down")
    assert not any(row["running"] for row in shell.status().values())
    assert not any(psutil.pid_exists(int(str(row["pid"]))) for row in status.values())
    assert not (shell.folder / ".streamling" / "dev.env").exists()

    # one command with Postgres only: the data is there, the others are not
    script = "import os, psycopg; print(psycopg.connect(os.environ['DSN']).execute('SELECT x FROM t').fetchone()[0])"
    shell.environ["DSN"] = f"postgresql://postgres@127.0.0.1:{variables['STREAMLING__POSTGRES_SINK__PORT']}/postgres"
    once = shell.call("run", "--only", "postgres", "--", *command_line()[:1], "-W", "ignore", "-c", script)
    assert once.out == "7\n"
    assert not shell.status()["postgres"]["running"]


@pytest.mark.services
def test_messages_go_to_the_brokers_of_the_environment(
    shell: Shell, kafka: LocalKafka, registry: LocalRegistry
) -> None:
    topic = f"elsewhere-{uuid4().hex[:8]}"
    shell.environ["STREAMLING__KAFKA_SOURCE__BROKERS"] = kafka.brokers
    shell.environ["STREAMLING__KAFKA_SOURCE__SCHEMA_REGISTRY_URL"] = registry.url
    (shell.folder / "orders.avsc").write_text(json.dumps(SCHEMA))
    produced = shell.call("produce", "-", "--topic", topic, "--schema", "orders.avsc", stdin=ORDERS)
    assert f"wrote 2 messages to {topic} on {kafka.brokers}" in produced.err
    rows = shell.rows("consume", "--topic", topic, "--from-beginning", "--until-end")
    assert [row["value"]["id"] for row in rows] == [1, 2]  # type: ignore[index]


@pytest.mark.services
def test_run_exits_with_the_code_of_its_command_and_stops_what_it_started(shell: Shell) -> None:
    shell.call("run", "--only", "postgres", "--", "sh", "-c", "exit 7", code=7)
    assert not shell.status()["postgres"]["running"]
    failed = shell.call("run", "--only", "postgres", "no-such-program", code=1)
    assert "cannot run 'no-such-program'" in failed.err
    assert not shell.status()["postgres"]["running"]


@pytest.mark.services
def test_a_signal_reaches_the_command_and_the_services_are_stopped(shell: Shell) -> None:
    with shell.begin("run", "--only", "postgres", "--", "sh", "-c", "echo ready; exec sleep 60") as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 128 + signal.SIGTERM
    assert not shell.status()["postgres"]["running"]


def test_environment_variables_override_those_of_the_file(shell: Shell) -> None:
    (shell.folder / "my.env").write_text(
        "STREAMLING__PIPELINE_DEFINITION_LOCATION=from-file.yaml\nSTREAMLING__LOG_LEVEL=nonsense\n"
    )
    done = subprocess.run(
        command_line("validate", "--static", "--env-file", "my.env"),
        cwd=shell.folder,
        env={**shell.environ, "STREAMLING__LOG_LEVEL": "info"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 78
    assert "from-file.yaml" in done.stderr
    assert "nonsense" not in done.stderr


def test_status_commands_leave_nothing_behind(shell: Shell) -> None:
    shell.call("status")
    assert "nothing was running" in shell.call("down").err
    assert os.listdir(shell.folder) == []


@pytest.mark.parametrize(
    ("args", "code", "complaint"),
    [
        (["produce", "-", "--topic", "t"], 1, "kafka is not running in .streamling"),
        (["consume", "--topic", "t"], 1, "kafka is not running in .streamling"),
        (["up", "--port", "kafka=abc"], 2, "'kafka=abc' is not NAME=PORT"),
        (["up", "--only", "mysql"], 2, "mysql"),
        (["run"], 2, "COMMAND"),
        (["upp"], 2, "did you mean 'up'?"),
    ],
)
def test_wrong_usage_is_reported(shell: Shell, args: list[str], code: int, complaint: str) -> None:
    assert complaint in shell.call(*args, code=code).err
