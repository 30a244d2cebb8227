from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import psycopg
import pytest

from streamling.connectors.postgres.config import PostgresStateSettings
from streamling.connectors.postgres.state import PostgresState
from streamling.dev.services.postgres import LocalPostgres
from streamling.engine.launch.launcher import Launcher
from streamling.engine.run.contexts import NodeStateView
from streamling.errors import StreamlingError
from streamling.pipeline.config import AppConfig
from streamling.pipeline.parse import parse_pipeline
from streamling.plugins.registry import Registry
from streamling.plugins.shared import SharedResources
from tests.harness.pipelines import eventually

pytestmark = pytest.mark.services

HOLD = """
import json, sys
from streamling.connectors.postgres.config import PostgresStateSettings
from streamling.connectors.postgres.state import PostgresState
with PostgresState("orders", PostgresStateSettings(**json.loads(sys.argv[1]))) as state:
    state.lock(exclusive=True)
    print("owned", flush=True)
    sys.stdin.read()
"""


@contextmanager
def owning(settings: PostgresStateSettings, *, exclusive: bool, namespace: str = "orders") -> Iterator[PostgresState]:
    with PostgresState(namespace, settings) as state:
        state.lock(exclusive=exclusive)
        yield state


@pytest.mark.parametrize("exclusive", [True, False])
def test_a_state_knows_whether_others_may_write_it(settings: PostgresStateSettings, exclusive: bool) -> None:
    with PostgresState("orders", settings) as state:
        assert not state.is_exclusive
        state.lock(exclusive=exclusive)
        assert state.is_exclusive is exclusive
        assert NodeStateView(state, "out", ()).is_exclusive is exclusive


def test_a_second_process_is_rejected_with_the_name_of_the_first(settings: PostgresStateSettings) -> None:
    text = json.dumps({name: getattr(settings, name) for name in ("host", "port", "db", "user", "sslmode")}
                      | {"state_schema_name": settings.state_schema_name})  # fmt: skip
    command = [sys.executable, "-c", HOLD, text]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "owned\n"
        with pytest.raises(StreamlingError) as raised, owning(settings, exclusive=True):
            pass
        other.kill()
    assert f"is in use by process {other.pid} on {socket.gethostname()[:20]}" in str(raised.value)
    assert str(raised.value).endswith("connected from 127.0.0.1")
    assert "the state of 'orders' in" in str(raised.value)
    assert "stop that process first" in str(raised.value.remedy)
    with owning(settings, exclusive=True):  # the lock of a killed process ends with it
        pass


@pytest.mark.parametrize(
    ("first", "second", "together"), [(False, False, True), (False, True, False), (True, False, False)]
)
def test_instances_that_divide_their_sources_run_together(
    settings: PostgresStateSettings, first: bool, second: bool, together: bool
) -> None:
    with owning(settings, exclusive=first), ExitStack() as stack:
        if not together:
            stack.enter_context(pytest.raises(StreamlingError, match=f"in use by process {os.getpid()} on"))
        stack.enter_context(owning(settings, exclusive=second))


def test_another_pipeline_has_another_lock(settings: PostgresStateSettings) -> None:
    with owning(settings, exclusive=True), owning(settings, exclusive=True, namespace="payments"):
        pass


def cut_off(postgres: LocalPostgres) -> None:
    """End the connections that hold locks, as a failover does."""
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'streamling state of %'"
        )


def test_a_lost_lock_is_acquired_again(postgres: LocalPostgres, settings: PostgresStateSettings) -> None:
    with owning(settings, exclusive=True) as state:
        cut_off(postgres)
        state.put_positions({"key": {"offset": 1}})
        with pytest.raises(StreamlingError, match="is in use by"), owning(settings, exclusive=True):
            pass
        assert state.get("key") == {"offset": 1}


def test_a_process_that_lost_the_lock_stores_nothing(postgres: LocalPostgres, settings: PostgresStateSettings) -> None:
    with owning(settings, exclusive=True) as stale:
        cut_off(postgres)
        with owning(settings, exclusive=True) as owner:
            owner.put_positions({"key": {"progress": "new"}})
            with pytest.raises(StreamlingError, match="is in use by") as raised:
                stale.put_positions({"key": {"progress": "old"}})
            assert not raised.value.retriable
            assert owner.get("key") == {"progress": "new"}


def test_a_pipeline_that_reads_files_runs_once_and_one_that_reads_kafka_many_times(
    settings: PostgresStateSettings,
) -> None:
    config = AppConfig(application_id="shop", state_backend={"backend_type": "Postgres", "postgres": settings})
    file = {"type": "file", "path": "x", "format": "csv", "primary_key": "id"}
    kafka = {"type": "kafka", "topic": "t", "primary_key": "id"}
    launcher = Launcher.of(config)

    def pipeline(**sources: object):
        sinks = {f"out_{name}": {"type": "blackhole", "from": name} for name in sources}
        return parse_pipeline(json.dumps({"sources": sources, "sinks": sinks}), registry=Registry.builtin())

    shared = pipeline(a=kafka)
    with (
        launcher.state(shared),
        launcher.state(shared),
        pytest.raises(StreamlingError, match="is in use by"),
        launcher.state_store.locked(),
    ):
        pass  # as `state reset` does
    for both in (pipeline(a=file), pipeline(a=kafka, b=file)):
        with launcher.state(both), pytest.raises(StreamlingError, match="is in use by"), launcher.state(both):
            pass
    with launcher.state_store.locked():
        pass


# ── pipelines of one process ─────────────────────────────────────────────────────────────────────────────────


def connections(postgres: LocalPostgres) -> int:
    with psycopg.connect(postgres.dsn) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'streamling state%'"
        ).fetchone()
    assert row is not None
    return int(row[0])


def test_pipelines_of_a_process_share_their_connections(
    postgres: LocalPostgres, settings: PostgresStateSettings
) -> None:
    shared, before = SharedResources(), connections(postgres)
    with ExitStack() as stack:
        states = [
            stack.enter_context(PostgresState(f"pipeline-{number}", settings, shared=shared)) for number in range(30)
        ]
        for state in states:
            state.lock(exclusive=True)
        barrier = threading.Barrier(len(states))

        def store(state: PostgresState) -> None:
            barrier.wait()
            for offset in range(5):
                state.put_positions({"key": {"offset": offset}})

        with ThreadPoolExecutor(len(states)) as pool:
            list(pool.map(store, states))
        assert [state.get("key") for state in states] == [{"offset": 4}] * len(states)
        assert connections(postgres) - before <= 5  # four for entries, one for locks
    eventually(lambda: connections(postgres) == before)


@pytest.mark.parametrize(
    ("first", "second", "together"), [(False, False, True), (False, True, False), (True, False, False)]
)
def test_pipelines_that_share_a_connection_do_not_share_their_locks(
    settings: PostgresStateSettings, first: bool, second: bool, together: bool
) -> None:
    shared = SharedResources()
    with (
        PostgresState("orders", settings, shared=shared) as one,
        PostgresState("orders", settings, shared=shared) as two,
    ):
        one.lock(exclusive=first)
        with ExitStack() as stack:
            if not together:
                stack.enter_context(pytest.raises(StreamlingError, match=f"in use by process {os.getpid()} on"))
            two.lock(exclusive=second)
        one.close()
        with ExitStack() as stack:
            if together:  # the other one still holds it
                stack.enter_context(pytest.raises(StreamlingError, match="in use by"))
            stack.enter_context(owning(settings, exclusive=True))


def test_all_locks_of_a_lost_connection_are_acquired_again(
    postgres: LocalPostgres, settings: PostgresStateSettings
) -> None:
    shared = SharedResources()
    with PostgresState("a", settings, shared=shared) as a, PostgresState("b", settings, shared=shared) as b:
        a.lock(exclusive=True)
        b.lock(exclusive=True)
        cut_off(postgres)
        with owning(settings, exclusive=True, namespace="b"):
            a.put_positions({"key": {"offset": 1}})
            with pytest.raises(StreamlingError, match="is in use by"):
                b.put_positions({"key": {"offset": 1}})
        b.put_positions({"key": {"offset": 2}})
        with pytest.raises(StreamlingError, match="is in use by"), owning(settings, exclusive=True, namespace="a"):
            pass
