from __future__ import annotations

from typing import Any

import pytest

from tests.connectors.hybrid.driver import HybridBench


@pytest.fixture
def bench(spark: Any, kafka: Any, registry: Any, clickhouse: Any) -> HybridBench:
    return HybridBench(spark, kafka, registry, clickhouse)
