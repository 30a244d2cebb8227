"""`--update`: the rows that were found become the expectation; the rest of the file stays as it is."""

import pytest
from tests.dev.pipeline_tests.driver import Suite

from streamling.dev.pipeline_tests.update import record

pytestmark = pytest.mark.spark

BEFORE = """\
# what this file is about

cases:
  wrong rows:   # a case
    input:
      orders: [{id: 1, item: tea, price: 2}]   # one order
    expect:
      # of the transform
      large:
        - {id: 9, item: X, price: 2}   # goes away
      # of the sink
      table: {ordered: true, rows: []}

  some columns:
    input: {orders: [{id: 1, item: tea, price: 2}]}
    expect:
      large:
        columns: subset
        rows:
        - {item: x}
      table:   # to be recorded

  nothing yet:
    input:
      orders:
        - {id: 1, item: "yes", price: 2, _gs_op: d}
    # the end of the case

  correct:
    expect: {table: []}
"""
AFTER = """\
# what this file is about

cases:
  wrong rows:   # a case
    input:
      orders: [{id: 1, item: tea, price: 2}]   # one order
    expect:
      # of the transform
      large:
        - {id: 1, item: TEA, price: 2.00}   # goes away
      # of the sink
      table: {ordered: true, rows: [{id: 1, item: TEA, price: 2.00}]}

  some columns:
    input: {orders: [{id: 1, item: tea, price: 2}]}
    expect:
      large:
        columns: subset
        rows:
        - {item: TEA}
      table:
        - {id: 1, item: TEA, price: 2.00}   # to be recorded

  nothing yet:
    input:
      orders:
        - {id: 1, item: "yes", price: 2, _gs_op: d}
    expect:
      table:
        - {id: 1, item: YES, price: 2.00, _gs_op: d}
    # the end of the case

  correct:
    expect: {table: []}
"""


def test_only_expected_rows_change(suite: Suite):
    results = suite.run(BEFORE)
    assert [record(result) for result in results.values()] == [True, True, True, False]
    text = (suite.folder / "pipeline.test.yaml").read_text()
    assert text == f"pipeline: pipeline.yaml\n{AFTER}"
    again = suite.run(AFTER)
    assert [result.passed and not record(result) for result in again.values()] == [True] * 4


def test_a_case_that_failed_is_not_recorded(suite: Suite):
    results = suite.run("cases: {one: {input: {orders: [{id: x}]}, expect: {table: []}}}")
    assert not record(results["one"])
    assert not results["one"].passed
