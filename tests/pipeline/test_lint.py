"""Warnings about valid pipelines."""

from __future__ import annotations

import pytest

from streamling.pipeline.lint import lint
from streamling.pipeline.parse import load_pipeline
from streamling.pipeline.variables import Variables
from streamling.plugins.registry import Registry

CLEAN = """\
sources:
  orders: {type: kafka, topic: orders, primary_key: id}
transforms:
  seen: {type: dynamic_table, backend_type: InMemory, backend_entity_name: seen, sql: SELECT item FROM orders}
  large:
    type: sql
    primary_key: id
    sql: |
      SELECT id, item, now() AS at
      FROM orders
      WHERE NOT dynamic_table_check('seen', item)
sinks:
  table: {type: postgres, from: large, schema: shop, table: orders}
  hook:
    type: webhook
    from: large
    url: https://hooks.example.com
    headers:
      X-Team: blue
      Authorization: Bearer ${TOKEN}
"""


@pytest.fixture
def warnings(tmp_path):
    def warnings(text):
        (tmp_path / "pipeline.yaml").write_text(text)
        pipeline = load_pipeline(
            tmp_path / "pipeline.yaml", registry=Registry.builtin(), variables=Variables({"TOKEN": "s3cret-7f"})
        )
        return [str(problem).removeprefix(f"{tmp_path}/pipeline.yaml:") for problem in lint(pipeline)]

    return warnings


def test_a_pipeline_without_risks_has_no_warnings(warnings):
    assert warnings(CLEAN) == []


#: what replaces what in the pipeline, and the place, text and remedy of the warning
RISKS = [
    (
        ("NOT dynamic_table_check('seen', item)", "id > 1"),
        ("4:3", "is filled, but no SQL looks values up in it", "dynamic_table_check('seen'"),
    ),
    (
        ("id, item, now() AS at", "*"),
        ("9:14", "SELECT * passes every new column of its input to postgres sink 'table'", "or set `evolve"),
    ),
    (("id, item, now()", "id, orders.*, now()"), ("9:18", "SELECT * passes every new column", "list the columns")),
    (
        ("now() AS at", "uuid() AS at"),
        ("9:24", "uuid() returns another value when rows are replayed, so postgres sink 'table'", "derive the value"),
    ),
    (("now() AS at", "rand() * 2 AS at"), ("9:24", "rand() returns another value", "md5")),
    (("NOT dyn", "item = NULL AND NOT dyn"), ("11:13", "a comparison = NULL is never true", "IS NULL")),
    (("NOT dyn", "item <> NULL AND NOT dyn"), ("11:13", "a comparison <> NULL is never true", "IS NOT NULL")),
    (
        ("  hook:", "  again: {type: postgres, from: large, schema: shop, table: orders}\n  hook:"),
        ("14:3", "postgres sink 'again' writes to the same place as postgres sink 'table'", "UNION ALL"),
    ),
    (
        ("  hook:", "  back: {type: kafka, from: large, topic: orders, data_format: json}\n  hook:"),
        ("14:36", "writes to the topic 'orders', which kafka source 'orders' reads", "another topic"),
    ),
    (
        ("Bearer ${TOKEN}", "Bearer s3cret-7f"),
        ("20:22", "the value of the header 'Authorization' is in the file", "${secret:NAME}"),
    ),
]


@pytest.mark.parametrize(("change", "warning"), RISKS)
def test_warnings_have_a_place_and_a_remedy(warnings, change, warning):
    place, message, remedy = warning
    assert change[0] in CLEAN
    (found,) = warnings(CLEAN.replace(*change, 1))
    assert found.startswith(f"{place}: ")
    assert message in found
    assert remedy in found
    assert "s3cret-7f" not in found


POSTGRES, PRINT = "type: postgres, from: large, schema: shop, table: orders", "type: print, from: large"
STAR = CLEAN.replace("id, item, now() AS at", "*")


@pytest.mark.parametrize(
    "text",
    [
        STAR.replace("table: orders}", "table: orders, evolve: add_columns}"),
        STAR.replace(POSTGRES, PRINT),
        CLEAN.replace("now() AS", "uuid() AS").replace(POSTGRES, PRINT),
        CLEAN.replace("FROM orders\n", "FROM (SELECT * FROM orders)\n"),
        CLEAN.replace("NOT dynamic_table_check('seen', item)", "id > 1").replace("InMemory", "Postgres"),
    ],
)
def test_what_is_harmless_is_not_reported(warnings, text):
    assert text != CLEAN
    assert warnings(text) == []


HIGHEST = """\
sources:
  orders: {type: kafka, topic: orders, primary_key: id}
transforms:
  large: {type: sql, primary_key: id, sql: "SELECT id, price FROM orders WHERE price > 1"}
sinks:
  totals:
    type: postgres_aggregate
    from: large
    schema: shop
    landing_table: landing
    agg_table: totals
    aggregate: {n: {fn: count}, highest: {fn: max, from: price}}
"""


def test_a_maximum_over_a_source_with_deletes_is_reported(warnings):
    (found,) = warnings(HIGHEST)
    assert found.startswith("12:43: postgres_aggregate sink 'totals': the first update or delete from kafka source 'or")
    assert "_gs_op = 'i'" in found


@pytest.mark.parametrize(
    "text",
    [
        HIGHEST.replace("fn: max", "fn: sum"),
        HIGHEST.replace("price > 1", "_gs_op = 'i'"),
        HIGHEST.replace("type: kafka, topic: orders", "type: file, path: orders, format: csv"),
        HIGHEST.replace("agg_table: totals\n", "agg_table: totals\n    errors: {to: bad}\n") + "  bad: {type: print}\n",
    ],
)
def test_a_maximum_without_deletes_is_not_reported(warnings, text):
    assert text != HIGHEST
    assert warnings(text) == []
