"""Differences between expected and found rows."""

import pyarrow as pa
import pytest

from streamling.dev.pipeline_tests.compare import compare_rows
from streamling.dev.pipeline_tests.model import Expectation

FOUND = pa.table(
    {"id": [1, 2, 3], "name": ["a", "b", "c"], "_gs_op": ["i", "u", "i"]},
    schema=pa.schema([("id", pa.int64()), ("name", pa.string()), ("_gs_op", pa.string())]),
)


def lines(rows, **options):
    return compare_rows(Expectation(rows=rows, **options), FOUND)


A, B, C = {"id": 1, "name": "a"}, {"id": 2, "name": "b", "_gs_op": "u"}, {"id": 3, "name": "c"}


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        ([A, B, C], {}),
        ([C, A, B], {}),
        ([A, B, C], {"ordered": True}),
        ([{"id": 1}, {"id": 2}, {"name": "c"}], {"columns": "subset"}),
        ([{"id": 3}, {"id": 1}, {"_gs_op": "u"}], {"columns": "subset"}),
    ],
)
def test_rows_that_are_as_expected_have_no_difference(rows, options):
    assert lines(rows, **options) == []


def test_a_differing_column_is_shown_beside_those_that_agree():
    assert lines([A, {**B, "name": "x"}, C]) == ["~ {id: 2, _gs_op: u}", "~     name: expected x, found b"]


def test_a_row_without_a_kind_is_expected_to_be_an_insert():
    assert lines([A, {"id": 2, "name": "b"}, C]) == ["~ {id: 2, name: b}", "~     _gs_op: expected i, found u"]


def test_missing_and_unexpected_rows():
    assert lines([A, C]) == ["  2 rows expected, 3 rows found", "+ {id: 2, name: b, _gs_op: u}"]
    assert lines([A, B, C, {"id": 9, "name": "z"}]) == ["  4 rows expected, 3 rows found", "- {id: 9, name: z}"]


def test_another_order_counts_only_if_the_order_matters():
    assert lines([B, A, C]) == []
    assert lines([B, A, C], ordered=True) != []


def test_exact_columns_must_all_be_listed():
    assert "name: expected no such column, found a" in "\n".join(lines([{"id": 1}, B, C]))


def test_the_same_row_twice_has_to_be_found_twice():
    assert lines([A, A, B, C]) == ["  4 rows expected, 3 rows found", "- {id: 1, name: a}"]
