"""Rows of a test file as Arrow, and back."""

from decimal import Decimal

import pyarrow as pa
import pytest

from streamling.dev.pipeline_tests.rows import arrow_rows, declared_schema, inferred_schema, normalized, plain_rows
from streamling.dev.pipeline_tests.written_rows import write_row
from streamling.errors import StreamlingError

SCHEMA = declared_schema({"id": "int64", "price": "decimal(10, 2)", "at": "timestamp", "big": "u256", "name": "string"})
ROW = {"id": 1, "price": 9.5, "at": "2024-07-01", "big": "1" + "0" * 30, "name": "Ann"}


def test_values_get_the_types_of_the_columns():
    batch = arrow_rows([ROW, {"id": 2, "_gs_op": "d"}], SCHEMA)
    assert batch.column("price").to_pylist() == [Decimal("9.50"), None]
    assert batch.column("_gs_op").to_pylist() == ["i", "d"]


def test_rows_come_back_as_they_were_written():
    (row,) = plain_rows(pa.Table.from_batches([arrow_rows([ROW], SCHEMA)]))
    assert row == normalized({**ROW, "_gs_op": "i"}, SCHEMA)
    assert write_row(row) == f"{{id: 1, price: 9.50, at: 2024-07-01T00:00:00, big: {ROW['big']}, name: Ann}}"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"idd": 1}, "input row 1 has the column 'idd'"),
        ({"id": "one"}, "input row 1 has \"one\" for the column 'id', expected int64"),
        ({"id": 1, "_gs_op": "x"}, "`_gs_op` is 'x' in an input row"),
    ],
)
def test_a_row_that_does_not_fit_is_an_error_with_a_remedy(row, message):
    with pytest.raises(StreamlingError) as error:
        arrow_rows([row], SCHEMA)
    assert message in str(error.value)
    assert error.value.remedy
    assert not error.value.internal


def test_types_are_inferred_from_values():
    schema = inferred_schema([{"id": 1, "tags": ["a"]}, {"id": None, "score": 0.5, "none": None}])
    assert [(field.name, str(field.type)) for field in schema] == [
        ("id", "int64"), ("tags", "list<item: string>"), ("score", "double"), ("none", "string"), ("_gs_op", "string"),
    ]  # fmt: skip
    with pytest.raises(StreamlingError, match="'id' cannot be inferred"):
        inferred_schema([{"id": 1}, {"id": "a"}])


@pytest.mark.parametrize(
    "value",
    [
        "yes",
        "null",
        "1",
        "1e3",
        "0x1f",
        "a: b",
        "a:b",
        "x #y",
        "- a",
        "-",
        "",
        " a",
        "{a}",
        "ä",
        "a\nb",
        "12:30",
        "a,b",
        "~",
        "@a",
    ],
)
def test_every_text_survives_being_written_as_yaml(value):
    from streamling.pipeline.document.loader import load_yaml

    text = write_row({"value": value, "number": 1, "flag": True, "none": None, "list": [value]})
    data = load_yaml(f"- {text}\n", "x").data[0]
    assert data == {"value": value, "number": 1, "flag": True, "none": None, "list": [value]}
