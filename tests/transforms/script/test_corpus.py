"""Odd results of scripts, kept as data: each gives the expected rows or an error that names the row."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest
import yaml

from streamling.errors import BadRow, StreamlingError
from tests.paths import TESTS

CASES = yaml.safe_load((TESTS / "corpus/scripts/results.yaml").read_text(encoding="utf-8"))
_TYPES = {
    "int64": pa.int64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "double": pa.float64(),
    "float": pa.float32(),
    "timestamp": pa.timestamp("us"),
    "date32": pa.date32(),
    "decimal128(38, 2)": pa.decimal128(38, 2),
}
INPUT = pa.RecordBatch.from_pylist([{"id": n + 1, "name": "abc"[n], "_gs_op": "i"} for n in range(3)])


def type_of(name: str) -> pa.DataType:
    inner = re.fullmatch("list<(.*)>", name)
    return pa.list_(_TYPES[inner[1]]) if inner else _TYPES[name]


def shown(value: Any) -> Any:
    if isinstance(value, list):
        return [shown(item) for item in value]
    if isinstance(value, bytes):
        return value.hex()
    return value if value is None or isinstance(value, int | float | str) else str(value)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["script"].replace("\n", " ")[:80])
def test_result(scripts, case):
    columns = case.get("columns", {"id": "int64", "name": "string"})
    outputs = pa.schema([*((name, type_of(kind)) for name, kind in columns.items()), ("_gs_op", pa.string())])
    if "rows" in case:
        found = scripts.batch(case["script"], INPUT, outputs).drop_columns(["_gs_op"]).to_pylist()
        assert repr([{name: shown(value) for name, value in row.items()} for row in found]) == repr(case["rows"])
        return
    with pytest.raises(StreamlingError, match=case["error"]) as raised:
        scripts.batch(case["script"], INPUT, outputs)
    assert not raised.value.internal
    if "row" in case:
        assert isinstance(raised.value, BadRow)
        assert f"row {case['row']} of the batch" in str(raised.value)
