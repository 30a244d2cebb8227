"""Fixtures for tests that run pipelines."""

from __future__ import annotations

import pytest
from tests.harness.pipelines import Bench


@pytest.fixture
def bench(spark) -> Bench:
    return Bench(spark)
