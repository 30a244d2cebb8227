"""What a row finds in a dynamic table: everything that earlier rows appended, nothing that it appends itself."""

from __future__ import annotations

import pytest

from streamling.connectors.memory import collected_rows
from tests.transforms.dynamic_table.pipelines import ids, rows, run_pipeline

pytestmark = pytest.mark.spark


def pipeline(check: str, *, fill: str = "SELECT v FROM s", more: str = "") -> str:
    return f"""
sources:
  s: {{type: given, primary_key: id}}
transforms:
  seen: {{type: dynamic_table, backend_type: InMemory, backend_entity_name: seen, sql: "{fill}"}}
  {more}
  out_rows: {{type: sql, primary_key: id, sql: "{check}"}}
sinks:
  out: {{type: memory, from: out_rows}}
"""


DEDUPLICATION = pipeline("SELECT * FROM s WHERE NOT dynamic_table_check('seen', v)")


def test_the_first_occurrence_passes_within_a_batch_and_between_batches(spark):
    given = {"s": [rows("a", "b", "a", "c"), rows("b", "d", "d", "a", first=5)]}
    assert ids(run_pipeline(spark, DEDUPLICATION, given)) == [1, 2, 4, 6]


def test_a_value_is_found_by_later_rows_of_the_same_batch_and_not_by_earlier_ones(spark):
    text = pipeline("SELECT * FROM s WHERE dynamic_table_check('seen', w)", fill="SELECT v FROM s WHERE v <> 'no'")
    batch = [
        {"id": 1, "v": "a", "w": "b"},
        {"id": 2, "v": "b", "w": "b"},
        {"id": 3, "v": "no", "w": "b"},
        {"id": 4, "v": None, "w": "no"},
        {"id": 5, "v": "c", "w": "a"},
    ]
    assert ids(run_pipeline(spark, text, {"s": [batch]})) == [3, 5]


def test_the_order_is_that_of_the_rows_also_in_a_batch_of_several_partitions(spark):
    text = DEDUPLICATION
    values = [f"v{number % 700}" for number in range(5000)]
    assert ids(run_pipeline(spark, text, {"s": [rows(*values)]})) == list(range(1, 701))


def test_null_is_neither_in_the_table_nor_not(spark):
    text = pipeline("SELECT id, dynamic_table_check('seen', w) AS found FROM s")
    batch = [{"id": 1, "v": None, "w": None}, {"id": 2, "v": "a", "w": "a"}, {"id": 3, "v": None, "w": "a"}]
    found = collected_rows(run_pipeline(spark, text, {"s": [batch]}), "out").column("found").to_pylist()
    assert found == [None, False, True]


def test_a_list_is_found_when_one_of_its_elements_is(spark):
    text = pipeline("SELECT id, dynamic_table_check('seen', tags) AS found FROM s")
    lists = [["a"], ["a", "x"], ["x", None, "y"], [], None, [None]]
    batch = [{"id": number, "v": "a", "tags": tags} for number, tags in enumerate(lists)]
    found = collected_rows(run_pipeline(spark, text, {"s": [batch]}), "out").column("found").to_pylist()
    assert found == [False, True, False, False, None, False]


def test_checks_work_anywhere_in_a_statement_and_nested(spark):
    text = pipeline(
        "SELECT id, CASE WHEN dynamic_table_check('seen', upper(w)) THEN 'known' ELSE 'new' END AS kind,"
        " dynamic_table_check('seen', CASE WHEN dynamic_table_check('other', v) THEN w ELSE 'A' END) AS nested"
        " FROM (SELECT * FROM s WHERE id > 1 OR NOT dynamic_table_check('other', w)) AS t"
        " WHERE v IS NOT NULL AND NOT (dynamic_table_check('seen', v) AND dynamic_table_check('other', v))",
        more="other: {type: dynamic_table, backend_type: InMemory, backend_entity_name: o, sql: 'SELECT w FROM s'}",
    )
    batch = [
        {"id": 1, "v": "A", "w": "x"},  # tables are empty
        {"id": 2, "v": "x", "w": "a"},  # seen: A; other: x
        {"id": 3, "v": "x", "w": "x"},  # seen and other have x: dropped
        {"id": 4, "v": "q", "w": "q"},  # neither
        {"id": 5, "v": None, "w": "x"},
    ]
    table = collected_rows(run_pipeline(spark, text, {"s": [batch]}), "out").drop(["_gs_op"])
    assert table.to_pylist() == [
        {"id": 1, "kind": "new", "nested": False},
        {"id": 2, "kind": "known", "nested": False},
        {"id": 4, "kind": "new", "nested": True},
    ]


def test_elements_of_a_list_and_parts_of_a_union_are_checked_one_by_one(spark):
    text = pipeline(
        "SELECT id, tag FROM (SELECT id, unnest(tags) AS tag FROM s) AS t WHERE dynamic_table_check('seen', tag)"
        " UNION ALL SELECT id, w AS tag FROM (SELECT id, w FROM s UNION ALL SELECT id, v FROM s) AS u"
        " WHERE dynamic_table_check('seen', w)"
    )
    batch = [{"id": 1, "v": "a", "w": "b", "tags": ["a"]}, {"id": 2, "v": "b", "w": "a", "tags": ["x", "a", "b"]}]
    table = collected_rows(run_pipeline(spark, text, {"s": [batch]}), "out")
    assert sorted(zip(*table.select(["id", "tag"]).to_pydict().values(), strict=True)) == [(2, "a"), (2, "a")]


def test_non_deterministic_rows_are_the_same_for_table_and_check(spark):
    text = """
sources:
  s: {type: given, primary_key: id}
transforms:
  x: {type: sql, primary_key: id, sql: "SELECT id, CAST(now() AS TEXT) || uuid() AS v FROM s"}
  seen: {type: dynamic_table, backend_type: InMemory, backend_entity_name: seen, sql: SELECT v FROM x}
  known: {type: sql, primary_key: id, sql: "SELECT * FROM x WHERE NOT dynamic_table_check('seen', v)"}
  again: {type: sql, primary_key: id, sql: "SELECT * FROM known"}
sinks:
  out: {type: memory, from: again}
  all: {type: memory, from: x}
"""
    run = run_pipeline(spark, text, {"s": [rows("a", "b", "c")]})
    assert collected_rows(run, "out").column("v").to_pylist() == collected_rows(run, "all").column("v").to_pylist()
    assert len(ids(run)) == 3


def test_a_table_filled_from_another_source_has_no_order(spark):
    text = """
sources:
  accounts: {type: given, primary_key: id}
  s: {type: given, primary_key: id}
transforms:
  vip: {type: dynamic_table, backend_type: InMemory, backend_entity_name: x, sql: SELECT v FROM accounts}
  found: {type: sql, primary_key: id, sql: "SELECT id, dynamic_table_check('VIP', v) IS NOT NULL AS listed FROM s"}
sinks:
  out: {type: memory, from: found}
"""
    run = run_pipeline(spark, text, {"accounts": [rows("a")], "s": [rows("a", "b")]})
    assert collected_rows(run, "out").column("listed").to_pylist() == [True, True]


def test_flows_that_merge_in_a_node_pass_one_occurrence(spark):
    text = """
sources:
  s: {type: given, primary_key: id}
  t: {type: given, primary_key: id}
transforms:
  both: {type: sql, primary_key: id, sql: "SELECT id, v FROM s UNION ALL SELECT id, v FROM t"}
  seen: {type: dynamic_table, backend_type: InMemory, backend_entity_name: seen, sql: SELECT v FROM both}
  first: {type: sql, primary_key: id, sql: "SELECT * FROM both WHERE NOT dynamic_table_check('seen', v)"}
sinks:
  out: {type: memory, from: first}
"""
    values = [f"v{number % 20}" for number in range(40)]
    given = {"s": [rows(*values)] * 3, "t": [rows(*reversed(values))] * 3}
    passed = collected_rows(run_pipeline(spark, text, given), "out").column("v").to_pylist()
    assert sorted(passed) == sorted(set(values))


def test_parallelism_of_the_node_that_fills_a_table_does_not_change_the_order(spark):
    text = """
sources:
  s: {type: given, primary_key: id}
transforms:
  some: {type: sql, primary_key: id, parallelism: 2, sql: "SELECT * FROM s WHERE id > 0"}
  seen: {type: dynamic_table, backend_type: InMemory, backend_entity_name: seen, sql: SELECT v FROM some}
  first: {type: sql, primary_key: id, sql: "SELECT * FROM some WHERE NOT dynamic_table_check('seen', v)"}
sinks:
  out: {type: memory, from: first}
  all: {type: memory, from: some}
"""
    values = [f"v{number % 90}" for number in range(300)]
    run = run_pipeline(spark, text, {"s": [rows(*values)]})
    assert ids(run) == list(range(1, 91))
    assert sorted(ids(run, "all")) == list(range(1, 301))
