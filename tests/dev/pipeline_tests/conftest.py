import pytest
from tests.dev.pipeline_tests.driver import Suite


@pytest.fixture
def suite(tmp_path, spark) -> Suite:
    return Suite(tmp_path, spark)
