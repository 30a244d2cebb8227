from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pydantic import SecretStr

from streamling.connectors.postgres.connection import PostgresServer
from streamling.connectors.postgres.session import ClientTimeout, Session
from streamling.dev.services.postgres import LocalPostgres

pytestmark = pytest.mark.services


class Time:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def session(server: LocalPostgres, **more: Any) -> Iterator[Session]:
    where = PostgresServer("127.0.0.1", server.port, "postgres", "postgres", SecretStr(""), "disable")
    opened = Session(where, application_name="test", connect_timeout=5, **more)
    try:
        yield opened
    finally:
        opened.close()


def pid(session: Session) -> int:
    with session.exchange() as connection:
        return connection.info.backend_pid


def test_the_connection_is_reused(postgres: LocalPostgres) -> None:
    with session(postgres) as one:
        assert pid(one) == pid(one)


def test_an_expired_connection_is_replaced_between_transactions(postgres: LocalPostgres) -> None:
    time = Time()
    with session(postgres, lifetime=100, idle_timeout=60, now=time) as one:
        first = pid(one)
        time.now += 59
        one.renew()
        assert pid(one) == first
        time.now += 61
        assert pid(one) == first, "a transaction under way keeps its connection"
        one.renew()
        assert pid(one) != first


def test_a_connection_that_was_idle_for_too_long_is_replaced(postgres: LocalPostgres) -> None:
    time = Time()
    with session(postgres, idle_timeout=60, now=time) as one:
        first = pid(one)
        time.now += 61
        one.renew()
        assert pid(one) != first


def test_silence_ends_with_the_time_limit(postgres: LocalPostgres) -> None:
    with session(postgres, time_limit=0.2) as one:
        with pytest.raises(ClientTimeout, match=r"time limit of 0\.2 s"), one.exchange() as connection:
            connection.execute("SELECT pg_sleep(60)")
        one.discard()
        assert pid(one)


def test_a_quick_failure_is_not_a_timeout(postgres: LocalPostgres) -> None:
    with session(postgres, time_limit=5) as one, pytest.raises(ZeroDivisionError), one.exchange():
        raise ZeroDivisionError
