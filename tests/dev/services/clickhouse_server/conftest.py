from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest
from tests.harness.clickhouse import query
from tests.harness.services import ClickHouse


@pytest.fixture
def table(clickhouse: ClickHouse) -> Iterator[str]:
    """An empty table with the columns ``id Int64`` and ``name String``."""
    name = f"t_{uuid4().hex}"
    query(clickhouse, f"CREATE TABLE {name} (id Int64, name String) ENGINE MergeTree ORDER BY id")
    yield name
    query(clickhouse, f"DROP TABLE {name}")
