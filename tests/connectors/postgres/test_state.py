from __future__ import annotations

import threading
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from pydantic import SecretStr

from streamling.connectors.postgres.config import PostgresStateSettings
from streamling.connectors.postgres.state import PostgresState
from streamling.dev.services.postgres import LocalPostgres
from streamling.errors import StreamlingError
from streamling.plugins.state_backend import FencedError
from tests.connectors.postgres.tls import tls_front
from tests.harness.concurrent import failures_of
from tests.harness.pipelines import eventually

pytestmark = pytest.mark.services


def rows(server: LocalPostgres, settings: PostgresStateSettings, columns: str) -> list[tuple[object, ...]]:
    table = sql.Identifier(settings.state_schema_name, settings.state_table_name)
    with psycopg.connect(server.dsn) as connection:
        query = sql.SQL("SELECT {} FROM {}").format(sql.SQL(columns), table)  # type: ignore[arg-type]
        return connection.execute(query).fetchall()


def test_the_table_has_the_layout_that_other_tools_expect(
    postgres: LocalPostgres, settings: PostgresStateSettings
) -> None:
    with PostgresState("app", settings) as state:
        state.put("key", {"offset": 1})

    assert rows(postgres, settings, "namespace, key, data, pg_typeof(data)::text, pg_typeof(created_at)::text") == [
        ("app", "key", {"offset": 1}, "jsonb", "timestamp with time zone")
    ]


def test_an_update_keeps_the_time_of_creation(postgres: LocalPostgres, settings: PostgresStateSettings) -> None:
    with PostgresState("app", settings) as state:
        state.put("key", 1)
        before = rows(postgres, settings, "created_at")
        state.put("key", 2)

    assert rows(postgres, settings, "created_at") == before


def test_processes_that_start_together_may_all_create_the_table(settings: PostgresStateSettings) -> None:
    def start(number: int) -> None:
        with PostgresState(f"app{number}", settings) as state:
            state.put("key", number)

    assert failures_of(8, start) == []


@pytest.mark.parametrize("field", ["state_schema_name", "state_table_name"])
def test_an_invalid_identifier_is_rejected(settings: PostgresStateSettings, field: str) -> None:
    bad = settings.model_copy(update={field: 'x"; DROP SCHEMA public; --'})

    with pytest.raises(StreamlingError, match=f"state_backend.postgres.{field}"):
        PostgresState("app", bad)


def test_a_user_without_the_right_to_create_may_use_an_existing_table(
    postgres: LocalPostgres, settings: PostgresStateSettings
) -> None:
    PostgresState("app", settings).close()
    schema = sql.Identifier(settings.state_schema_name)
    role = sql.Identifier(f"{settings.state_schema_name}_user")
    with psycopg.connect(postgres.dsn) as connection:
        for statement in (
            "CREATE ROLE {role} LOGIN",
            "GRANT USAGE ON SCHEMA {schema} TO {role}",
            "GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role}",
        ):
            connection.execute(sql.SQL(statement).format(schema=schema, role=role))  # type: ignore[arg-type]
    limited = settings.model_copy(update={"user": f"{settings.state_schema_name}_user"})

    with PostgresState("app", limited) as state:
        state.put("key", 1)
        assert state.get("key") == 1


def kill_connections(server: LocalPostgres) -> None:
    with psycopg.connect(server.dsn) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'streamling state'"
        )


def test_a_connection_that_died_while_idle_is_replaced(
    postgres: LocalPostgres, settings: PostgresStateSettings
) -> None:
    with PostgresState("app", settings) as state:
        state.put("key", 1)
        kill_connections(postgres)
        state.put("key", 2)
        kill_connections(postgres)
        assert state.get("key") == 2


def test_state_is_available_after_the_server_restarts(postgres_folder: Path, settings: PostgresStateSettings) -> None:
    server = LocalPostgres(postgres_folder)
    server.start()
    with PostgresState("app", settings.model_copy(update={"port": server.port})) as state:
        state.put("key", 1)
        server.stop()
        with pytest.raises(StreamlingError) as raised:
            state.put("key", 2)
        assert raised.value.retriable
        server.start()
        state.put("key", 3)

        assert state.get("key") == 3
    server.stop()


def test_an_unavailable_server_is_a_transient_failure(settings: PostgresStateSettings) -> None:
    unreachable = settings.model_copy(update={"port": 1, "password": SecretStr("hunter2")})

    with pytest.raises(StreamlingError, match=r"cannot connect to Postgres at 127\.0\.0\.1:1/postgres") as raised:
        PostgresState("app", unreachable)
    assert raised.value.retriable
    assert "hunter2" not in "".join([str(raised.value), *raised.value.causes()])


def test_a_database_that_does_not_exist_is_a_permanent_failure(settings: PostgresStateSettings) -> None:
    with pytest.raises(StreamlingError, match="has no database 'nowhere'") as raised:
        PostgresState("app", settings.model_copy(update={"db": "nowhere"}))
    assert not raised.value.retriable


def test_a_statement_that_hangs_times_out(postgres: LocalPostgres, settings: PostgresStateSettings) -> None:
    with PostgresState("app", settings, acquire_timeout=1) as state, psycopg.connect(postgres.dsn) as blocker:
        state.put("key", 1)
        blocker.execute(
            sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(
                sql.Identifier(settings.state_schema_name, settings.state_table_name)
            )
        )

        with pytest.raises(StreamlingError, match="statement timeout") as raised:
            state.put("key", 2)
        assert raised.value.retriable


# ── TLS ─────────────────────────────────────────────────────────────────────────────────────────────────────


def over_tls(settings: PostgresStateSettings, port: int, sslmode: str, certificate: Path | None) -> PostgresState:
    update = {"host": "localhost", "port": port, "sslmode": sslmode, "sslrootcert": certificate}
    return PostgresState("app", settings.model_copy(update=update))


@pytest.mark.parametrize("sslmode", ["require", "verify-ca", "verify-full"])
def test_state_is_kept_over_tls(
    postgres: LocalPostgres, settings: PostgresStateSettings, tmp_path: Path, sslmode: str
) -> None:
    with (
        tls_front(postgres.port, tmp_path, host="localhost") as (port, certificate),
        over_tls(settings, port, sslmode, certificate) as state,
    ):
        state.put("key", 1)
        assert state.get("key") == 1


def test_verify_full_rejects_a_certificate_of_another_host(
    postgres: LocalPostgres, settings: PostgresStateSettings, tmp_path: Path
) -> None:
    with (
        tls_front(postgres.port, tmp_path, host="elsewhere.example") as (port, certificate),
        pytest.raises(StreamlingError, match="does not match host name"),
    ):
        over_tls(settings, port, "verify-full", certificate)


def test_verify_ca_rejects_an_untrusted_certificate(
    postgres: LocalPostgres, settings: PostgresStateSettings, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    with (
        tls_front(postgres.port, tmp_path, host="localhost") as (port, _),
        tls_front(postgres.port, tmp_path / "other", host="localhost") as (_, other_certificate),
        pytest.raises(StreamlingError, match="certificate verify failed"),
    ):
        over_tls(settings, port, "verify-ca", other_certificate)


def test_require_rejects_a_server_without_tls(settings: PostgresStateSettings) -> None:
    with pytest.raises(StreamlingError, match="SSL"):
        PostgresState("app", settings.model_copy(update={"sslmode": "require"}))


# ── several instances ───────────────────────────────────────────────────────────────────────────────────────


def test_an_instance_that_hung_cannot_restore_an_old_position(settings: PostgresStateSettings) -> None:
    with PostgresState("app", settings) as stuck, PostgresState("app", settings) as next_owner:
        assert stuck.claim(["p0", "p1"]) == {}
        stuck.put_many({"p0": 5, "p1": 5})
        assert next_owner.claim(["p0"]) == {"p0": 5}
        next_owner.put_many({"p0": 9})

        with pytest.raises(FencedError) as refused:
            stuck.put_many({"p0": 6, "p1": 6})
        assert refused.value.keys == {"p0"}
        assert [next_owner.get("p0"), next_owner.get("p1")] == [9, 5]
        stuck.put_many({"p1": 7})
        assert stuck.claim(["p0"]) == {"p0": 9}
        stuck.put_many({"p0": 10})
        assert next_owner.get("p0") == 10


def test_a_claim_waits_for_a_pending_write(postgres: LocalPostgres, settings: PostgresStateSettings) -> None:
    with PostgresState("app", settings) as owner, PostgresState("app", settings) as next_owner:
        owner.claim(["p0"])
        owner.put("p0", 7)
        taken: list[dict[str, object]] = []
        writing = threading.Thread(target=owner.put, args=("p0", 8))
        claiming = threading.Thread(target=lambda: taken.append(next_owner.claim(["p0"])))
        with psycopg.connect(postgres.dsn) as connection:
            table = sql.Identifier(settings.state_schema_name, settings.state_table_name)
            connection.execute(sql.SQL("SELECT FROM {} WHERE key = 'p0' FOR UPDATE").format(table))
            writing.start()  # has checked that it owns the key, and waits for this transaction
            eventually(lambda: waiting_for_locks(postgres) == 1)
            claiming.start()
            claiming.join(0.5)
            assert taken == []
        writing.join(10)
        claiming.join(10)
        assert taken == [{"p0": 8}]


def waiting_for_locks(postgres: LocalPostgres) -> int:
    with psycopg.connect(postgres.dsn) as connection:
        query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        (count,) = connection.execute(query).fetchone() or (0,)
        return int(count)


def test_instances_that_claim_and_write_at_the_same_time_never_lose_a_position(settings: PostgresStateSettings) -> None:
    """Each continues from what it claims: the count is the number of successful writes of all instances."""
    keys = [f"p{n}" for n in range(4)]
    written: list[int] = []

    def count_up() -> None:
        done = 0
        with PostgresState("app", settings) as state:
            for _ in range(15):
                entries = state.claim(keys)
                try:
                    state.put_many({key: entries.get(key, 0) + 1 for key in keys})
                    done += 1
                except FencedError:
                    continue
        written.append(done)

    PostgresState("app", settings).close()
    threads = [threading.Thread(target=count_up) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with PostgresState("app", settings) as state:
        assert {state.get(key) for key in keys} == {sum(written)}
