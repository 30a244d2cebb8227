"""The name of a dynamic table may be a constant instead of a quoted text."""

from __future__ import annotations

import pyarrow as pa
import pytest

from streamling.sql.plan import Column, table_lookups
from streamling.sql.statement import Statement

COLUMNS = {"s": [Column("id", pa.int64()), Column("v", pa.string()), Column("t", pa.string())]}

CONSTANTS = [
    "SELECT id FROM s WHERE dynamic_table_check('seen', v)",
    "SELECT id FROM s WHERE dynamic_table_check(('seen'), v)",
    "SELECT id FROM s WHERE dynamic_table_check(CAST('seen' AS TEXT), v)",
    "SELECT id FROM s WHERE dynamic_table_check('seen'::varchar, v)",
    "SELECT id FROM (SELECT id, v, 'seen' AS name FROM s) AS x WHERE dynamic_table_check(name, v)",
    "SELECT id FROM (SELECT id, v, CAST('seen' AS TEXT) AS name FROM s) AS x WHERE dynamic_table_check(X.Name, v)",
    "WITH x AS (SELECT *, 'seen' AS name FROM s) SELECT id FROM x WHERE dynamic_table_check(name, v)",
    "WITH x AS (SELECT id, v, 'seen' AS n FROM s), y AS (SELECT id, v, n AS name FROM x) "
    "SELECT id, dynamic_table_check(name, v) AS found FROM (SELECT * FROM y) AS z",
    "WITH s AS (SELECT *, 'seen' AS name FROM s) SELECT id FROM s WHERE dynamic_table_check(name, v)",
]


@pytest.mark.parametrize("sql", CONSTANTS)
def test_a_constant_can_name_the_table(sql):
    assert [lookup.table for lookup in Statement(sql).lookups] == ["seen"]
    compiled = Statement(sql).compile(COLUMNS)
    assert not compiled.problems
    assert [lookup.table for lookup in table_lookups(compiled.plan)] == ["seen"]


OTHERS = [
    "SELECT id FROM s WHERE dynamic_table_check(t, v)",
    "SELECT id FROM (SELECT *, 'seen' AS name FROM s) AS x WHERE dynamic_table_check(t, v)",
    "SELECT id FROM (SELECT id, v, upper('seen') AS name FROM s) AS x WHERE dynamic_table_check(name, v)",
    "SELECT id FROM (SELECT id, v, 'a' AS n FROM s UNION ALL SELECT id, v, 'b' AS n FROM s) AS x "
    "WHERE dynamic_table_check(n, v)",
    "SELECT 'seen' AS t, dynamic_table_check(t, v) AS found FROM s",
    "SELECT id FROM s WHERE dynamic_table_check(CAST(1 AS TEXT), v)",
    "WITH s AS (SELECT * FROM s) SELECT id FROM s WHERE dynamic_table_check(t, v)",
]


@pytest.mark.parametrize("sql", OTHERS)
def test_values_that_differ_between_rows_cannot_name_a_table(sql):
    assert Statement(sql).lookups == ()
    messages = [problem.message for problem in Statement(sql).compile(COLUMNS).problems]
    assert len(messages) == 1
    assert "first argument of dynamic_table_check() is not a quoted name of a table" in messages[0]
