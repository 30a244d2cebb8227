from __future__ import annotations

import pytest

from streamling.dev.postgres import LocalPostgres
from tests.sinks.postgres_driver import Driver, batch

pytestmark = pytest.mark.services


@pytest.fixture
def pg(postgres: LocalPostgres) -> Driver:
    return Driver(postgres.dsn)


# ── keys, updates, deletes ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("together", [True, False], ids=["one batch", "a batch each"])
@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param([("i", 1, "a"), ("u", 1, "b")], [(1, "b")], id="insert, update"),
        pytest.param([("i", 1, "a"), ("d", 1, "a")], [], id="insert, delete"),
        pytest.param([("i", 1, "a"), ("d", 9, None)], [(1, "a")], id="delete of an unknown key"),
        pytest.param([("i", 1, "a"), ("d", 1, None), ("i", 1, "c")], [(1, "c")], id="insert, delete, insert"),
        pytest.param([("u", 1, "a")], [(1, "a")], id="update of an unseen key inserts"),
        pytest.param([("i", 1, str(n)) for n in range(10)], [(1, "9")], id="ten duplicates: last wins"),
        pytest.param(
            [("i", 1, "a"), ("i", 2, "a"), ("u", 1, "b"), ("u", 2, "b"), ("u", 1, "c")],
            [(1, "c"), (2, "b")],
            id="interleaved updates",
        ),
        pytest.param(
            [("i", 1, "a"), ("i", 2, "a"), ("i", 3, "a"), ("i", 4, "a"), ("d", 4, None), ("u", 2, "b"), ("i", 5, "a")],
            [(1, "a"), (2, "b"), (3, "a"), (5, "a")],
            id="mixed batch",
        ),
        pytest.param([(None, 1, "a"), ("x", 2, "b")], [(1, "a"), (2, "b")], id="no or unknown operation inserts"),
    ],
)
def test_the_last_operation_of_each_key_counts(pg: Driver, rows, expected, together: bool) -> None:
    pg.write(*([batch(*rows)] if together else [batch(row) for row in rows]))

    assert pg.rows() == expected
