"""Streamling's contract tests for the plugins, and further tests."""

import json

import pyarrow as pa
import pytest
from NAME import Lines, Numbers, Times

from streamling.testing import PipelineHarness, SinkContract, SourceContract, TransformContract


class TestNumbers(SourceContract):
    operator = Numbers

    def options(self):
        return {"count": 25, "rows_per_read": 4}

    def expected(self):
        return [{"id": number, "_gs_op": "i"} for number in range(25)]


class TestTimes(TransformContract):
    operator = Times

    def options(self):
        return {"column": "id", "factor": 3}

    def input(self):
        return pa.record_batch({"id": list(range(20)), "_gs_op": ["i"] * 20})

    def expected(self):
        return [{"id": number, "_gs_op": "i", "product": 3 * number} for number in range(20)]


class TestLines(SinkContract):
    operator = Lines

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path):
        self._file = tmp_path / "rows.jsonl"

    def options(self):
        return {"file": str(self._file)}

    def durable(self):
        """Return the rows that survive a crash, read independently of the sink."""
        return [json.loads(line) for line in self._file.read_text().splitlines()] if self._file.exists() else []


def test_a_missing_column_is_reported():
    with pytest.raises(Exception, match="there is no column 'missing'"):
        PipelineHarness(Times, {"column": "missing"}).prepare([pa.record_batch({"id": [1]})])
