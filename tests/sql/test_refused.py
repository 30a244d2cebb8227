"""SQL that is invalid in a stateless transform: message, position of the caret, remedy. No Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest

from streamling.sql.plan import Column
from streamling.sql.problems import InvalidSql, SqlProblem
from streamling.sql.statement import Statement

ORDERS = [
    Column("id", pa.int64()),
    Column("name", pa.string()),
    Column("Mixed", pa.string()),
    Column("tags", pa.list_(pa.int64())),
    Column("place", pa.struct([("city", pa.string())])),
    Column("_gs_op", pa.string()),
]


def problems_of(sql: str) -> list[SqlProblem]:
    try:
        return list(Statement(sql).compile({"raw.orders": ORDERS, "other": None}).problems)
    except InvalidSql as refused:
        return list(refused.problems)


# the text, with ‸ before and after what the caret marks; words of the message; words of the remedy
CASES = [
    # not a single valid query
    ("", "empty", "SELECT"),
    ("  -- nothing\n", "empty", "SELECT"),
    ("‸DROP‸ TABLE x", "starts with DROP", "SELECT"),
    ("‸INSERT‸ INTO x SELECT id FROM raw.orders", "starts with INSERT", "SELECT"),
    ("‸SET‸ spark.sql.ansi.enabled = false", "starts with SET", "SELECT"),
    ("‸SELEC‸ id FROM raw.orders", "starts with SELEC", "SELECT"),
    ("‸VALUES‸ (1)", "starts with VALUES", "SELECT"),
    ("‸EXPLAIN‸ SELECT 1", "starts with EXPLAIN", "SELECT"),
    ("SELECT id FROM raw.orders‸;‸ SELECT 2", "more than one statement", "one sql transform for each"),
    ("SELECT * FORM ‸raw‸.orders", "'raw' is not expected here", None),
    ("SELECT id FROM raw.orders ‸WHERE‸", "missing after 'WHERE'", None),
    ("SELECT id FROM raw.orders WHERE id ‸=‸", "missing after '='", None),
    ("SELECT (id ‸FROM‸ raw.orders", "expecting )", None),
    ("SELECT 'open FROM raw.orders", "never closed", "close it"),
    ("SELECT id /* open FROM raw.orders", "never closed", "close it"),
    # units of time that are not defined
    ("SELECT CAST(‸now()‸ AS BIGINT) FROM raw.orders", "no defined unit", "extract(epoch FROM x)"),
    ("SELECT ‸arrow_cast(now(), 'Int64')‸ FROM raw.orders", "no defined unit", "extract(epoch FROM x)"),
    ("SELECT CAST(current_time AS BIGINT) FROM raw.orders", "no defined unit", "extract(epoch FROM x)"),
    ("SELECT CAST(‸id‸ AS TIMESTAMP) FROM raw.orders", "no defined unit", "to_timestamp_millis(x)"),
    ("SELECT TRY_CAST(‸id‸ AS TIMESTAMP WITH TIME ZONE) FROM raw.orders", "no defined unit", "to_timestamp_millis(x)"),
    # clauses
    ("SELECT a.id FROM raw.orders a ‸JOIN‸ other b ON a.id = b.id", "a join", "UNION ALL"),
    ("SELECT id FROM raw.orders‸,‸ other", "a join", "UNION ALL"),
    ("SELECT id FROM raw.orders CROSS ‸JOIN‸ other", "a join", "UNION ALL"),
    ("SELECT id FROM raw.orders NATURAL ‸JOIN‸ other", "a join", "UNION ALL"),
    ("SELECT id FROM raw.orders\n‸GROUP BY‸ id", "GROUP BY", "postgres_aggregate"),
    ("SELECT id FROM raw.orders ‸HAVING‸ id > 1", "HAVING", "postgres_aggregate"),
    ("SELECT id FROM raw.orders\nWHERE id > 1\n‸ORDER BY‸ id", "ORDER BY", "order of the source"),
    ("SELECT id FROM raw.orders ‸SORT BY‸ id", "SORT BY", "order of the source"),
    ("SELECT id FROM raw.orders ‸CLUSTER BY‸ id", "CLUSTER BY", "order of the source"),
    ("SELECT id FROM raw.orders ‸DISTRIBUTE BY‸ id", "DISTRIBUTE BY", "parallelism"),
    ("SELECT id FROM raw.orders ‸LIMIT‸ 5", "LIMIT", "WHERE"),
    ("SELECT id FROM raw.orders ‸OFFSET‸ 5", "OFFSET", "WHERE"),
    ("SELECT ‸DISTINCT‸ id FROM raw.orders", "DISTINCT", "primary key"),
    ("SELECT id FROM raw.orders ‸TABLESAMPLE‸ (10 PERCENT)", "TABLESAMPLE", "rand()"),
    ("SELECT id FROM raw.orders ‸LATERAL‸ VIEW explode(tags) t", "LATERAL", "unnest"),
    ("SELECT id FROM raw.orders ‸QUALIFY‸ id = 1", "QUALIFY", "other rows"),
    ("WITH ‸RECURSIVE‸ x AS (SELECT id FROM raw.orders) SELECT * FROM x", "RECURSIVE", "WITH"),
    ("SELECT * FROM (SELECT id FROM raw.orders ‸LIMIT‸ 1)", "LIMIT", "WHERE"),
    ("WITH x AS (SELECT ‸DISTINCT‸ id FROM raw.orders) SELECT * FROM x", "DISTINCT", "primary key"),
    # set operations
    ("SELECT id FROM raw.orders ‸UNION‸ SELECT id FROM other", "UNION without ALL", "UNION ALL"),
    ("SELECT id FROM raw.orders ‸INTERSECT‸ SELECT id FROM other", "INTERSECT", "WHERE"),
    ("SELECT id FROM raw.orders ‸EXCEPT‸ SELECT id FROM other", "EXCEPT", "WHERE"),
    ("SELECT id FROM raw.orders UNION ALL SELECT ‸id, name FROM raw.orders‸", "2 columns, the first has 1", "same"),
    ("SELECT ‸id FROM raw.orders UNION ALL BY NAME SELECT id FROM other‸", "BY NAME", "same order"),
    # where rows come from
    ("‸SELECT‸ 1", "no FROM", "FROM <node>"),
    ("SELECT * ‸FROM‸ (VALUES (1)) AS t", "VALUES is not allowed in FROM", "name a source"),
    ("SELECT * ‸FROM‸ range(10)", "table function", "name a source"),
    ("SELECT * ‸FROM‸ unnest([1, 2])", "table function", "name a source"),
    ("SELECT id FROM ‸nowhere‸", "no node 'nowhere'", None),
    ("SELECT id FROM raw.orders AS o(‸a‸)", "after a table alias", "in the SELECT"),
    ("WITH ‸x‸ AS (SELECT * FROM other) SELECT id FROM raw.orders", "the CTE 'x' is never used", "remove"),
    # subqueries as values
    ("SELECT id FROM raw.orders WHERE id IN (‸SELECT‸ id FROM other)", "subquery", "only in FROM"),
    ("SELECT id FROM raw.orders WHERE EXISTS (‸SELECT‸ id FROM other)", "subquery", "only in FROM"),
    ("SELECT (‸SELECT‸ id FROM other) AS x FROM raw.orders", "subquery", "only in FROM"),
    # functions
    ("SELECT ‸sum(id)‸ AS s FROM raw.orders", "sum() combines rows", "postgres_aggregate"),
    ("SELECT ‸count(*)‸ AS s FROM raw.orders", "count() combines rows", "postgres_aggregate"),
    ("SELECT id FROM raw.orders WHERE ‸max(id)‸ > 1", "max() combines rows", "postgres_aggregate"),
    ("SELECT ‸row_number()‸ OVER (PARTITION BY id) AS n FROM raw.orders", "window function", "other rows"),
    ("SELECT ‸lag(id)‸ OVER (PARTITION BY id) AS n FROM raw.orders", "window function", "other rows"),
    ("SELECT ‸lenght(name)‸ AS n FROM raw.orders", "no function lenght()", "did you mean length()?"),
    (
        "SELECT ‸dynamic_table_chek('t', name)‸ AS n FROM raw.orders",
        "no function",
        "did you mean dynamic_table_check()?",
    ),
    ("SELECT id FROM raw.orders WHERE ‸dynamic_table_check('t', id)‸", "text or a list of texts, not int64", "CAST"),
    ("SELECT id FROM raw.orders WHERE ‸dynamic_table_check('t', tags)‸", "not list<", "CAST"),
    ("SELECT id FROM raw.orders WHERE ‸dynamic_table_check('t')‸", "a table and a value, not 1", "'table', value"),
    (
        "SELECT id FROM raw.orders WHERE ‸dynamic_table_check(name, name)‸",
        "not a quoted name of a table",
        "'table', value",
    ),
    (
        "SELECT filter(split(name, ''), x -> ‸dynamic_table_check('t', x)‸) AS n FROM raw.orders",
        "is not allowed inside a lambda",
        "the whole list",
    ),
    ("SELECT ‸java_method('a', 'b')‸ AS n FROM raw.orders", "not allowed", None),
    ("SELECT place.city.‸java_method('a', 'b')‸ AS n FROM raw.orders", "cannot be qualified", "only its name"),
    ("SELECT ‸* RENAME (id AS x)‸ FROM raw.orders", "RENAME", "AS"),
    ("SELECT ‸array_has(tags)‸ AS n FROM raw.orders", "does not take 1 argument(s)", None),
    ("SELECT ‸posexplode(tags)‸ FROM raw.orders", "returns several rows", "unnest(list)"),
    ("SELECT id FROM raw.orders WHERE ‸unnest(tags)‸ > 1", "returns several rows", "unnest(list)"),
    ("SELECT ‸unnest(id)‸ AS n FROM raw.orders", "takes a list, not int64", None),
    ("SELECT ‸unnest(place)‸ AS n FROM raw.orders", "takes a list", "s.field"),
    ("SELECT ‸unnest(tags, tags)‸ AS n FROM raw.orders", "takes one list", "one unnest() per list"),
    ("SELECT ‸arrow_field(id)‸ AS n FROM raw.orders", "arrow_field() is not supported", "typeof(x) instead"),
    # names
    ("SELECT ‸idd‸ FROM raw.orders", "no column 'idd'", "did you mean id?"),
    ("SELECT ‸zzz‸ FROM raw.orders", "no column 'zzz'", "columns: id, name, Mixed"),
    ('SELECT ‸"mixed"‸ FROM raw.orders', "no column 'mixed'", 'did you mean "Mixed"?'),
    ("SELECT orders.‸idd‸ FROM raw.orders", "no column 'idd'", "did you mean id?"),
    ("SELECT ‸o‸.id FROM raw.orders", "no column or table 'o'", "columns"),
    ("SELECT ‸o.*‸ FROM raw.orders", "no table 'o'", None),
    ("SELECT id FROM raw.orders WHERE\n  name = 'x' AND ‸amount‸ > 1", "no column 'amount'", "columns"),
    ("SELECT * EXCEPT (‸nope‸) FROM raw.orders", "no column 'nope' to exclude", "columns"),
    ("SELECT place.‸town‸ FROM raw.orders", "no field 'town'", "fields: city"),
    ("SELECT name.‸x‸ FROM raw.orders", "no field 'x'", "string"),
    ("SELECT id, ‸id‸ FROM raw.orders", "two columns have the name 'id'", "AS"),
    ("SELECT id, ‸name‸ AS id FROM raw.orders", "two columns have the name 'id'", "AS"),
    # types and the row kind
    ("SELECT CAST(‸id‸ AS bigin) AS x FROM raw.orders", "type bigin is unknown", "BIGINT?"),
    (
        "SELECT CAST(‸id‸ AS DECIMAL(1001, 2)) AS x FROM raw.orders",
        "type DECIMAL(1001, 2) is unknown",
        "DECIMAL(38, 10)",
    ),
    ("SELECT id FROM raw.orders WHERE ‸id‸", "true or false, not int64", None),
    ("SELECT *, ‸'d'‸ AS _gs_op FROM raw.orders", "two columns have the name '_gs_op'", "EXCEPT (_gs_op)"),
    ("SELECT id, ‸'x'‸ AS _gs_op FROM raw.orders", "cannot be 'x'", "'i', 'u' or 'd'"),
    ("SELECT name, ‸id‸ AS _gs_op FROM raw.orders", "must be text", "'i', 'u' or 'd'"),
]


@pytest.mark.parametrize(("marked", "message", "remedy"), CASES, ids=[case[0] for case in CASES])
def test_is_rejected_with_location_and_remedy(marked: str, message: str, remedy: str | None) -> None:
    before, *rest = marked.split("‸")
    problems = problems_of(marked.replace("‸", ""))
    assert problems, "accepted"
    problem = problems[0]
    assert message in problem.message
    assert remedy is None or remedy in (problem.remedy or "")
    if rest:
        assert problem.line == before.count("\n") + 1
        assert problem.column == len(before) - (before.rfind("\n") + 1) + 1
        line, carets = problem.excerpt.split("\n")
        assert line[carets.index("^") : carets.rindex("^") + 1] == rest[0]


def test_all_problems_are_reported_in_the_order_of_the_text() -> None:
    problems = problems_of("SELECT nope, foo(id)\nFROM raw.orders\nWHERE nada = 1 AND sum(id) > 2")
    assert [(p.line, p.column) for p in problems] == [(1, 8), (1, 14), (3, 7), (3, 20)]


def test_the_caret_is_below_its_character_after_tabs() -> None:
    problem = problems_of("SELECT id,\n\t\tnope FROM raw.orders")[0]
    assert problem.excerpt == "  \t\tnope FROM raw.orders\n  \t\t^^^^"


def test_columns_of_an_unknown_node_are_not_checked() -> None:
    assert problems_of("SELECT whatever + 1 AS x FROM other WHERE thing > 2") == []


def test_deep_nesting_is_a_problem_and_not_a_crash() -> None:
    sql = "SELECT " + "(" * 3000 + "id" + ")" * 3000 + " AS x FROM raw.orders"
    assert "nested too deeply" in problems_of(sql)[0].message
