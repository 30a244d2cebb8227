"""SIGTERM ends the process within `shutdown_budget_secs`, whatever hangs, and the message says what was not
finished."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import pytest

from streamling.dev.services.postgres import LocalPostgres
from streamling.engine.state.sqlite import SqliteState
from tests.cli.conftest import Project, command_environment, command_line
from tests.harness.pipelines import eventually
from tests.harness.script import wait_until_ended

pytestmark = pytest.mark.spark

BUDGET = 3
CONFIG = f"shutdown_budget_secs: {BUDGET}\ncheckpoint_interval_sec: 0.5\nspark: {{master: 'local[1]'}}\n"
SOURCE = """\
sources:
  orders: {type: file, path: orders, format: csv, mode: MODE, primary_key: id}
"""
SINK = "transforms: {{}}\nsinks:\n  out: {{{}}}\n"
BOUNDED, CONTINUOUS = "{type: bounded}", "{type: continuous}"
STUCK_PLUGIN = """\
import sys
import time
import pyarrow as pa
from streamling.plugins import Source, SourceOptions, plugin

@plugin("acme.stuck")
class Stuck(Source):
    def schema(self):
        return pa.schema([("id", pa.int64())])

    def read(self, position):
        print("reading", file=sys.stderr, flush=True)
        time.sleep(600)
"""


class Run:
    """A pipeline in a separate process, and its output so far."""

    def __init__(self, project: Project, **env: str) -> None:
        self.process = subprocess.Popen(
            command_line("run", "pipeline.yaml"), cwd=project.folder, env={**command_environment(), **env},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.said = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line

    def wait_for(self, happened: Callable[[], object]) -> None:
        eventually(happened, 60, lambda: self.said, self.process)

    def jvm(self) -> int:
        """The process id of its JVM, as soon as it exists."""
        found: list[int] = []

        def look() -> bool:
            found[:] = [pid for pid in _children(self.process.pid) if "PythonGatewayServer" in _command(pid)]
            return bool(found)

        self.wait_for(look)
        return found[0]

    def end(self, *signals: signal.Signals) -> int:
        """Send ``signals`` (SIGTERM) right after each other and wait; a process that hangs fails the test."""
        for number in signals or (signal.SIGTERM,):
            self.process.send_signal(number)
            time.sleep(0.1)
        status = self.process.wait(BUDGET + 20)
        self._reader.join(10)
        return status

    def close(self) -> None:
        assert self.process.stderr is not None
        self.process.kill()
        self.process.wait()
        self._reader.join(10)
        self.process.stderr.close()


@contextmanager
def running(project: Project, pipeline: str, **env: str) -> Iterator[Run]:
    project.write("config.yaml", CONFIG)
    project.write("pipeline.yaml", pipeline)
    run = Run(project, **env)
    try:
        yield run
    finally:
        run.close()


@pytest.fixture
def folder(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture
def silent_server() -> Iterator[tuple[str, list[socket.socket]]]:
    """Accepts requests and never responds."""
    connections: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            try:
                while True:
                    connections.append(server.accept()[0])
            except OSError:
                return

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/", connections
        server.shutdown(socket.SHUT_RDWR)
    for connection in connections:
        connection.close()


def test_a_handler_that_never_responds(tmp_path: Path, silent_server: tuple[str, list[socket.socket]]) -> None:
    url, connections = silent_server
    handler = f"transforms:\n  ask: {{type: handler, from: orders, url: '{url}', primary_key: id}}\n"
    sinks = "sinks:\n  out: {type: blackhole, from: ask}\n"
    with ExitStack() as both:
        runs = []
        for name, mode in (("bounded", BOUNDED), ("continuous", CONTINUOUS)):
            (tmp_path / name).mkdir()
            pipeline = SOURCE.replace("MODE", mode) + handler + sinks
            runs.append(both.enter_context(running(Project(tmp_path / name), pipeline)))
        runs[0].wait_for(lambda: len(connections) >= 2)
        for run in runs:
            assert run.end() == 1
    for run in runs:
        assert "final checkpoint" in run.said
        assert "waiting for sink 'out'" in run.said or "waits for sink 'out'" in run.said
        assert "rows since the last checkpoint will be replayed" in run.said
        assert "Traceback" not in run.said


@pytest.mark.services
def test_a_locked_postgres_table(folder: Project, postgres: LocalPostgres) -> None:
    server = psycopg.conninfo.conninfo_to_dict(postgres.dsn)
    env = {f"STREAMLING__POSTGRES_SINK__{name}": str(server[key]) for name, key in
           (("HOST", "host"), ("PORT", "port"), ("USER", "user"), ("DB", "dbname"))}  # fmt: skip
    sink = "type: postgres, from: orders, schema: public, table: locked_orders, primary_key: id"
    with psycopg.connect(postgres.dsn) as owner:
        owner.execute(
            "CREATE TABLE locked_orders (id bigint PRIMARY KEY, item text, price double precision, _gs_op text)"
        )
        owner.commit()
        owner.execute("LOCK TABLE locked_orders IN ACCESS EXCLUSIVE MODE")
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        with (
            psycopg.connect(postgres.dsn, autocommit=True) as watcher,
            running(folder, SOURCE.replace("MODE", CONTINUOUS) + SINK.format(sink), **env) as run,
        ):
            run.wait_for(lambda: watcher.execute(waiting).fetchone() != (0,))
            assert run.end() == 1
        owner.rollback()
        owner.execute("DROP TABLE locked_orders")
    assert "sink 'out'" in run.said
    assert "will be replayed" in run.said


def test_a_locked_state_file(folder: Project) -> None:
    sink = SINK.format("type: blackhole, from: orders")
    with running(folder, SOURCE.replace("MODE", CONTINUOUS) + sink) as run:
        run.wait_for(lambda: "is running" in run.said)
        with sqlite3.connect(folder.folder / "state.db", isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")
            folder.write("orders/b.csv", "id,item,price\n4,salt,9.5\n")
            run.wait_for(lambda: "storing the positions failed" in run.said)
            assert run.end() == 1
    assert "the state backend" in run.said
    assert "will be replayed" in run.said


def test_a_jvm_that_hangs_while_running_and_while_starting(folder: Project) -> None:
    sink = SINK.format("type: blackhole, from: orders")
    with running(folder, SOURCE.replace("MODE", CONTINUOUS) + sink) as run:
        jvm = run.jvm()
        os.kill(jvm, signal.SIGSTOP)  # it never starts to listen
        time.sleep(0.5)
        assert run.end() == 0, run.said
        assert "SIGTERM while starting: nothing was read" in run.said
        wait_until_ended(jvm)
    with running(folder, SOURCE.replace("MODE", CONTINUOUS) + sink) as run:
        run.wait_for(lambda: "is running" in run.said)
        jvm = run.jvm()
        os.kill(jvm, signal.SIGSTOP)
        folder.write("orders/b.csv", "id,item,price\n4,salt,9.5\n")
        time.sleep(1)
        run.end()  # whether a batch was in progress is random, and so is the status
        wait_until_ended(jvm)


def test_ctrl_c_while_starting_exits_130(folder: Project) -> None:
    sink = SINK.format("type: blackhole, from: orders")
    with running(folder, SOURCE.replace("MODE", CONTINUOUS) + sink) as run:
        run.jvm()
        assert run.end(signal.SIGINT) == 130, run.said
    assert "SIGINT while starting: nothing was read" in run.said


def test_ctrl_c_while_modules_are_imported_exits_130_without_a_trace(folder: Project) -> None:
    # a module that the command imports first, and that waits for the signal
    folder.write("slow/click.py", "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n")
    result = folder.command("run", "pipeline.yaml", PYTHONPATH=str(folder.folder / "slow"))
    assert (result.code, result.out, result.err) == (130, "", "")


#: for the drain of a pipeline: the first batch of a cold JVM may be in progress
ENOUGH = {"STREAMLING__SHUTDOWN_BUDGET_SECS": "20"}


def test_sighup_drains(folder: Project) -> None:
    sink = SINK.format("type: blackhole, from: orders")
    with running(folder, SOURCE.replace("MODE", CONTINUOUS) + sink, **ENOUGH) as run:
        run.wait_for(lambda: "is running" in run.said)
        assert run.end(signal.SIGHUP) == 0, run.said
    assert "finished: SIGHUP" in run.said


AFTER_THE_DRAIN = """
import os, signal, threading
from streamling.cli.signals import shutdown_by_signals

class Pipeline:
    stopped = threading.Event()

    def stop(self, reason):
        self.stopped.set()

with shutdown_by_signals(20) as shutdown:
    shutdown.drain(Pipeline())
    os.kill(os.getpid(), signal.SIGTERM)
    assert Pipeline.stopped.wait(20)
os.kill(os.getpid(), signal.SIGTERM)
print("finished")
"""


def test_the_second_of_two_signals_may_arrive_after_the_drain() -> None:
    done = subprocess.run([sys.executable, "-c", AFTER_THE_DRAIN], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "finished\n"), done.stderr


def test_nohup_keeps_a_pipeline_running_without_its_terminal_and_a_repeated_sigterm_counts_once(
    folder: Project,
) -> None:
    sink = SINK.format("type: blackhole, from: orders")
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a child inherits it, like that of nohup
    try:
        with running(folder, SOURCE.replace("MODE", CONTINUOUS) + sink, **ENOUGH) as run:
            run.wait_for(lambda: "is running" in run.said)
            run.process.send_signal(signal.SIGHUP)
            time.sleep(1)
            assert run.process.poll() is None, run.said
            assert run.end(signal.SIGTERM, signal.SIGTERM) == 0, run.said
    finally:
        signal.signal(signal.SIGHUP, before)
    assert "finished: SIGTERM" in run.said
    with SqliteState("pipeline", folder.folder / "state.db") as state:
        assert any(key.startswith("orders:") for key in state.items())


def test_a_second_ctrl_c_exits_immediately(folder: Project, silent_server: tuple[str, list[socket.socket]]) -> None:
    url, connections = silent_server
    sink = SINK.format(f"type: webhook, from: orders, url: '{url}', primary_key: id")
    with running(folder, SOURCE.replace("MODE", CONTINUOUS) + sink) as run:
        run.wait_for(lambda: connections)
        assert run.end(signal.SIGINT, signal.SIGINT) == 1
    assert "SIGINT again: exiting immediately" in run.said


def test_a_plugin_that_never_returns(folder: Project) -> None:
    folder.write("stuck.py", STUCK_PLUGIN)
    pipeline = "sources:\n  a: {type: acme.stuck, primary_key: id}\n" + SINK.format("type: blackhole, from: a")
    with running(folder, pipeline, STREAMLING__PLUGIN__PATH="stuck.py") as run:
        run.wait_for(lambda: "reading" in run.said)
        assert run.end() == 1
    assert "source 'a'" in run.said
    assert "will be replayed" in run.said


def _children(pid: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
        if parent == pid:
            found.append(int(stat.parent.name))
    return found


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""
