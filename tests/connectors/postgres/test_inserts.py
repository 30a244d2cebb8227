from __future__ import annotations

import pytest

from streamling.connectors.postgres.sink import InsertBackoff
from streamling.dev.services.postgres import LocalPostgres
from streamling.errors import StreamlingError
from tests.connectors.postgres.driver import Driver
from tests.connectors.sink_driver import Row, batch


@pytest.fixture
def pg(postgres: LocalPostgres) -> Driver:
    """Counts the statements that could update: an INSERT … ON CONFLICT is one, whether or not it finds rows; a COPY is
    not."""
    pg = Driver(postgres.dsn)
    pg.create("id bigint PRIMARY KEY, v text")
    pg.execute("CREATE TABLE {s}.upserts (n int)")
    pg.execute(
        "CREATE FUNCTION {s}.count() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN EXECUTE format('INSERT INTO %I.upserts VALUES (1)', TG_TABLE_SCHEMA); RETURN NULL; END $$"
    )
    pg.execute("CREATE TRIGGER count AFTER UPDATE ON {t} EXECUTE FUNCTION {s}.count()")
    return pg


def upserts(pg: Driver) -> int:
    return len(pg.execute("SELECT n FROM {s}.upserts"))


@pytest.mark.services
@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param([("i", 2, "b"), ("i", 3, "c")], 0, id="new keys"),
        pytest.param([("i", 2, "b"), ("i", 1, "b")], 1, id="a key that exists"),
        pytest.param([("i", 2, "b"), ("i", 2, "c")], 1, id="a key twice"),
        pytest.param([("i", 2, "b"), ("u", 3, "c")], 1, id="an update"),
        pytest.param([("i", 2, "b"), (None, 3, "c")], 1, id="an unknown operation"),
    ],
)
def test_inserts_become_upserts_only_if_necessary(pg: Driver, rows: list[Row], expected: int) -> None:
    pg.execute("INSERT INTO {t} VALUES (1, 'a')")

    pg.write(batch(*rows))

    assert upserts(pg) == expected
    assert pg.rows() == sorted({1: "a", **{id: v for _, id, v in rows}}.items())


@pytest.mark.services
def test_after_existing_keys_some_batches_are_upserted_without_an_attempt(pg: Driver) -> None:
    pg.execute("INSERT INTO {t} VALUES (1, 'a')")

    pg.write(*[batch(("i", id, "b")) for id in (1, 2, 3)])

    assert upserts(pg) == 2
    assert pg.rows() == [(1, "b"), (2, "b"), (3, "b")]


@pytest.mark.services
def test_an_index_dropped_under_a_running_sink_is_a_permanent_error(pg: Driver) -> None:
    first, second = batch(("i", 1, "a")), batch(("i", 1, "b"))
    with pg.opened(first.schema) as sink:
        sink.write(first)
        pg.execute("ALTER TABLE {t} DROP CONSTRAINT t_pkey")
        with pytest.raises(StreamlingError, match="42P10") as caught:
            sink.write(second)

    assert not caught.value.retriable
    assert pg.rows() == [(1, "a")]


def test_inserts_back_off_while_rows_exist() -> None:
    hope = InsertBackoff()
    pauses = []
    for _ in range(9):
        hope.failed()
        pauses.append(0)
        while not hope.should_try():
            pauses[-1] += 1

    assert pauses == [1, 2, 4, 8, 16, 32, 64, 64, 64]

    hope.succeeded()
    hope.failed()
    assert [hope.should_try(), hope.should_try()] == [False, True]
