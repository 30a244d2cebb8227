"""The server disappears, falls silent, becomes read-only, is too busy: the sink continues as soon as it can."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from streamling.dev.services.postgres import LocalPostgres
from streamling.errors import StreamlingError
from tests.connectors.postgres.driver import Driver
from tests.connectors.postgres.silent_proxy import SilentProxy
from tests.connectors.postgres.tls import tls_front
from tests.connectors.sink_driver import batch
from tests.harness.pipelines import eventually

pytestmark = pytest.mark.services

ROWS = batch(("i", 1, "a"))


@pytest.fixture
def pg(postgres: LocalPostgres) -> Driver:
    return Driver(postgres.dsn)


@pytest.fixture
def own_server(postgres_folder: Path) -> Iterator[LocalPostgres]:
    """A server that a test may kill."""
    with LocalPostgres(postgres_folder) as server:
        yield server


class Worker:
    """Runs something on another thread."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._outcome: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:
            self._outcome.append(error)

    @property
    def busy(self) -> bool:
        return self._thread.is_alive()

    def finish(self) -> None:
        self._thread.join(60)
        assert not self.busy, "did not end"
        if self._outcome:
            raise self._outcome[0]


def said(caplog: pytest.LogCaptureFixture, text: str) -> bool:
    return any(text in record.getMessage() for record in caplog.records)


# ── the server becomes unavailable ────────────────────────────────────────────────────────────────────────────────────


def start_again(server: LocalPostgres) -> None:
    """The orphans of a killed server need a moment to notice and to release its memory."""

    def starts() -> bool:
        try:
            server.start()
        except StreamlingError:
            return False
        return True

    eventually(starts, 60)


def test_no_row_is_lost_or_wrong_if_the_server_is_killed_while_a_sink_writes(own_server: LocalPostgres) -> None:
    pg = Driver(own_server.dsn)
    written = 0

    def write() -> None:
        nonlocal written
        with pg.opened(ROWS.schema) as sink:
            for number in range(300):
                kept, gone = number * 10, number * 10 + 1
                sink.write(batch(("i", kept, "old"), ("i", gone, "x"), ("u", kept, f"v{number}"), ("d", gone, None)))
                written = number + 1

    worker = Worker(write)
    for moment in (40, 120, 200):
        eventually(lambda moment=moment: written > moment or not worker.busy)
        own_server.kill()
        start_again(own_server)
    worker.finish()

    assert pg.rows() == [(number * 10, f"v{number}") for number in range(300)]


def test_a_server_that_is_not_running_yet_is_retried(postgres_folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with LocalPostgres(postgres_folder) as server:
        port = server.port
    pg = Driver(f"postgresql://postgres@127.0.0.1:{port}/postgres")
    worker = Worker(lambda: pg.write(ROWS))
    eventually(lambda: said(caplog, "retrying"))
    with LocalPostgres(postgres_folder, port=port):
        worker.finish()
        assert pg.rows() == [(1, "a")]


def test_a_connection_that_was_terminated_while_idle_is_replaced(pg: Driver) -> None:
    with pg.opened(ROWS.schema, name="idle") as sink:
        sink.write(ROWS)
        pg.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'streamling idle'")
        sink.write(batch(("u", 1, "b")))
    assert pg.rows() == [(1, "b")]


def test_a_stop_ends_the_retries(caplog: pytest.LogCaptureFixture) -> None:
    stopping = threading.Event()
    pg = Driver("postgresql://postgres@127.0.0.1:1/postgres", **{"pass": "hunter2"})
    worker = Worker(lambda: pg.sink(ROWS.schema, context={"stopping": stopping}).open())
    eventually(lambda: said(caplog, "retrying"))
    stopping.set()
    with pytest.raises(StreamlingError, match=r"at 127\.0\.0\.1:1/postgres") as raised:
        worker.finish()
    assert raised.value.retriable
    assert "hunter2" not in caplog.text + str(raised.value) + "".join(raised.value.causes())


def test_repeated_failures_are_logged_as_errors(caplog: pytest.LogCaptureFixture) -> None:
    stopping = threading.Event()
    worker = Worker(
        lambda: (
            Driver("postgresql://postgres@127.0.0.1:1/postgres")
            .sink(ROWS.schema, context={"stopping": stopping})
            .open()
        )
    )
    eventually(lambda: said(caplog, "attempt 5"))
    stopping.set()
    with pytest.raises(StreamlingError):
        worker.finish()
    assert [r.levelno for r in caplog.records if "retrying" in r.message] == [logging.WARNING, logging.ERROR]


def test_a_database_that_does_not_exist_fails_immediately(pg: Driver) -> None:
    with pytest.raises(StreamlingError, match="has no database 'nowhere'") as raised:
        Driver(pg.dsn, db="nowhere").write(ROWS)
    assert not raised.value.retriable
    assert not raised.value.internal


def test_a_user_with_no_connection_left_waits_for_one(pg: Driver, caplog: pytest.LogCaptureFixture) -> None:
    role = f"{pg.schema}_user"
    pg.execute(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 0")
    pg.execute("CREATE SCHEMA {s}")
    pg.execute(f"GRANT ALL ON SCHEMA {{s}} TO {role}")
    worker = Worker(lambda: Driver(pg.dsn, schema=pg.schema, user=role).write(ROWS))
    eventually(lambda: said(caplog, "too many connections"))
    pg.execute(f"ALTER ROLE {role} CONNECTION LIMIT 1")
    worker.finish()
    assert pg.rows() == [(1, "a")]


# ── it answers no more ──────────────────────────────────────────────────────────────────────────────────────


def test_a_silent_connection_is_closed_after_the_clients_time_limit(
    pg: Driver, postgres: LocalPostgres, caplog: pytest.LogCaptureFixture
) -> None:
    proxy = SilentProxy(postgres.port)
    through = Driver(pg.dsn, schema=pg.schema, port=proxy.port, statement_timeout_secs=0.5)
    with through.opened(ROWS.schema) as sink:
        sink.write(ROWS)
        proxy.silence()
        sink.write(batch(("u", 1, "b"), ("i", 2, "c")))
    proxy.close()

    assert pg.rows() == [(1, "b"), (2, "c")]
    assert said(caplog, "no response within the client's time limit of 1 s")


def test_a_statement_that_times_out_is_retried(pg: Driver, caplog: pytest.LogCaptureFixture) -> None:
    pg.settings["statement_timeout_secs"] = 0.3
    with pg.opened(ROWS.schema) as sink:
        sink.write(ROWS)
        with psycopg.connect(pg.dsn) as blocker:
            blocker.execute(f"LOCK TABLE {pg.schema}.t IN ACCESS EXCLUSIVE MODE")
            worker = Worker(lambda: sink.write(batch(("u", 1, "b"))))
            eventually(lambda: said(caplog, "statement timeout"))
            assert worker.busy
        worker.finish()
    assert pg.rows() == [(1, "b")]


def test_without_a_time_limit_a_long_wait_does_not_fail(pg: Driver, caplog: pytest.LogCaptureFixture) -> None:
    pg.settings["statement_timeout_secs"] = 0
    with pg.opened(ROWS.schema) as sink:
        sink.write(ROWS)
        with psycopg.connect(pg.dsn) as blocker:
            blocker.execute(f"LOCK TABLE {pg.schema}.t IN ACCESS EXCLUSIVE MODE")
            worker = Worker(lambda: sink.write(batch(("u", 1, "b"))))
            eventually(lambda: pg.execute("SELECT 1 FROM pg_locks WHERE NOT granted"))
        worker.finish()
    assert pg.rows() == [(1, "b")]
    assert not said(caplog, "retrying")


def test_a_deadlock_is_retried(pg: Driver, caplog: pytest.LogCaptureFixture) -> None:
    with pg.opened(ROWS.schema) as sink, psycopg.connect(pg.dsn) as other:
        sink.write(batch(("i", 1, "a"), ("i", 2, "a")))
        other.execute("SET deadlock_timeout = '10s'")  # the sink's transaction shall be the one that is ended
        other.execute(f"UPDATE {pg.schema}.t SET v = 'x' WHERE id = 2")
        worker = Worker(lambda: sink.write(batch(("u", 1, "b"), ("u", 2, "b"))))
        eventually(lambda: pg.execute("SELECT 1 FROM pg_locks WHERE NOT granted"))
        other.execute(f"UPDATE {pg.schema}.t SET v = 'x' WHERE id = 1")
        other.commit()
        worker.finish()
    assert pg.rows() == [(1, "b"), (2, "b")]
    assert said(caplog, "deadlock detected")


# ── it may not be written to ────────────────────────────────────────────────────────────────────────────────


def read_only(server: LocalPostgres, on: bool) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("SET default_transaction_read_only = off")
        connection.execute(f"ALTER SYSTEM SET default_transaction_read_only = {'on' if on else 'off'}")
        connection.execute("SELECT pg_reload_conf()")


def is_read_only(server: LocalPostgres) -> bool:
    with psycopg.connect(server.dsn) as connection:
        row = connection.execute("SHOW default_transaction_read_only").fetchone()
    return row == ("on",)


def test_a_server_that_became_read_only_is_retried_until_it_accepts_writes(
    own_server: LocalPostgres, caplog: pytest.LogCaptureFixture
) -> None:
    pg = Driver(own_server.dsn)
    with pg.opened(ROWS.schema) as sink:
        sink.write(ROWS)
        read_only(own_server, True)
        eventually(lambda: is_read_only(own_server))
        worker = Worker(lambda: sink.write(batch(("u", 1, "b"))))
        eventually(lambda: said(caplog, "read-only"))
        assert worker.busy
        assert pg.rows() == [(1, "a")]
        read_only(own_server, False)
        worker.finish()
    assert pg.rows() == [(1, "b")]


def test_of_several_hosts_one_that_accepts_writes_is_used(pg: Driver) -> None:
    Driver(pg.dsn, schema=pg.schema, host="127.0.0.2,127.0.0.1").write(ROWS)
    assert pg.rows() == [(1, "a")]


# ── TLS ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("sslmode", ["require", "verify-ca", "verify-full"])
def test_rows_are_sent_over_tls(pg: Driver, postgres: LocalPostgres, tmp_path: Path, sslmode: str) -> None:
    with tls_front(postgres.port, tmp_path, host="localhost") as (port, certificate):
        secured = Driver(
            pg.dsn, schema=pg.schema, host="localhost", port=port, sslmode=sslmode, sslrootcert=certificate
        )
        secured.write(ROWS)
    assert pg.rows() == [(1, "a")]


def test_verify_full_rejects_a_certificate_of_another_host(pg: Driver, postgres: LocalPostgres, tmp_path: Path) -> None:
    with (
        tls_front(postgres.port, tmp_path, host="elsewhere.example") as (port, certificate),
        pytest.raises(StreamlingError, match="does not match host name") as raised,
    ):
        Driver(pg.dsn, host="localhost", port=port, sslmode="verify-full", sslrootcert=certificate).write(ROWS)
    assert not raised.value.retriable


def test_require_rejects_a_server_without_tls(pg: Driver) -> None:
    with pytest.raises(StreamlingError, match="SSL") as raised:
        Driver(pg.dsn, sslmode="require").write(ROWS)
    assert not raised.value.retriable
