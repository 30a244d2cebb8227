"""A database of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamling.dev.services.clickhouse import LocalClickHouse
from tests.connectors.clickhouse.driver import Database
from tests.harness.clickhouse import clear_faults
from tests.harness.services import ClickHouse


@pytest.fixture
def database(clickhouse: ClickHouse) -> Iterator[Database]:
    with Database.created(clickhouse) as database:
        yield database


@pytest.fixture
def local_database(local_clickhouse: LocalClickHouse) -> Iterator[Database]:
    """One of the server that has faults when a test wants them."""
    with Database.created(local_clickhouse) as database:
        yield database
        clear_faults(local_clickhouse)
