"""Random tables, page sizes, filters and restarts: what is read equals what `SELECT … FINAL` shows, row by row."""

from __future__ import annotations

import os
from random import Random

import pytest

from tests.connectors.clickhouse.driver import Database
from tests.connectors.clickhouse.random_tables import COLUMNS, FILTERS, RandomTable, Read
from tests.connectors.clickhouse.source_driver import SourceDriver
from tests.harness.services import ClickHouse

pytestmark = pytest.mark.services

SEEDS = int(os.environ.get("STREAMLING_TEST_CLICKHOUSE_SEEDS", "6"))
FIRST_SEED = int(os.environ.get("STREAMLING_TEST_SEED", "20261117"))


def read_with_restarts(random: Random, driver: SourceDriver, **fields: object) -> list[Read]:
    """Read a table with a source that is killed after any batch: rows after the last stored position are lost and read
    again by the next source."""
    durable: list[Read] = []
    for _ in range(10_000):
        survives = random.random() < 0.3
        with driver.running(columns=COLUMNS, **fields) as run:
            pending: list[Read] = []
            while (table := run.step()) is not None:
                pending += [tuple(map(str, row.values())) for row in table.to_pylist()]
                if random.random() < 0.5:
                    durable += pending
                    pending = []
                    driver.state.store(run.position)
                if not survives and random.random() < 0.2:
                    break
            else:
                driver.state.store(run.position)
                return durable + pending
    raise AssertionError("the source did not end")


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_what_is_read_equals_final(seed: int, clickhouse: ClickHouse) -> None:
    random = Random(seed)
    with Database.created(clickhouse) as database:
        table = RandomTable(random, database)
        table.create()
        for _ in range(random.randint(0, 4)):
            table.insert(random.choice([1, 10, 60, 150]))
        config = {"page_size": random.choice([1, 3, 10, 40, 1000]), "sort_key_range": random.choice([100, 10**6])}
        filter = random.choice([*FILTERS, None])
        found = read_with_restarts(random, SourceDriver(database), config=config, filter=filter)
        described = ", ".join(f"{key.expression} of {key.type}" for key in table.keys)
        assert table.differences(found, filter) == {}, f"{table.engine} ORDER BY {described}, {config}, {filter}"
