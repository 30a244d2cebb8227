"""Valid statements with their rows on Spark; the static check predicts their columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from streamling.sql.frames import prepare
from streamling.sql.plan import Column, Read
from streamling.sql.statement import Statement
from streamling.types.spark import to_spark_schema

pytestmark = pytest.mark.spark

TRANSACTIONS = pa.schema(
    {
        "id": pa.int64(),
        "amount": pa.int32(),
        "Owner Name": pa.string(),
        "tags": pa.list_(pa.string()),
        "codes": pa.list_(pa.int64()),
        "place": pa.struct([("City", pa.string()), ("geo", pa.struct([("lat", pa.float64())]))]),
        "_gs_op": pa.string(),
    }
)
PLAIN = pa.schema({"id": pa.int64(), "amount": pa.int32()})
NODES = {"raw.Transactions": TRANSACTIONS, "plain": PLAIN, "odd name.x": PLAIN}
ROWS: dict[str, list[dict[str, Any]]] = {
    "raw.Transactions": [
        {
            "id": 1,
            "amount": 500,
            "Owner Name": "Ann",
            "tags": ["a", "b"],
            "codes": [7],
            "place": {"City": "Oslo", "geo": {"lat": 1.5}},
            "_gs_op": "i",
        },
        {"id": 2, "amount": 1500, "Owner Name": None, "tags": [], "codes": [8, 9], "place": None, "_gs_op": "u"},
        {"id": 3, "amount": 2500, "Owner Name": "Cy", "tags": None, "codes": None, "place": None, "_gs_op": "d"},
    ],
    "plain": [{"id": 10, "amount": 1}],
    "odd name.x": [{"id": 20, "amount": 2}],
}


@pytest.fixture(scope="module")
def frames(spark: Any) -> dict[str, Any]:
    return {name: spark.createDataFrame(ROWS[name], to_spark_schema(schema)) for name, schema in NODES.items()}


CASES: list[tuple[str, list[dict[str, Any]]]] = [
    # names
    ("SELECT id FROM raw.transactions WHERE amount > 1000", [{"id": 2, "_gs_op": "u"}, {"id": 3, "_gs_op": "d"}]),
    ("select ID from RAW.TRANSACTIONS where AMOUNT = 500", [{"id": 1, "_gs_op": "i"}]),
    ('SELECT id FROM "raw.transactions" WHERE id = 1', [{"id": 1, "_gs_op": "i"}]),
    ('SELECT id FROM "raw"."Transactions" WHERE id = 1', [{"id": 1, "_gs_op": "i"}]),
    ("SELECT id FROM `raw`.transactions WHERE id = 1", [{"id": 1, "_gs_op": "i"}]),
    ('SELECT "Owner Name" FROM raw.transactions WHERE id = 1', [{"Owner Name": "Ann", "_gs_op": "i"}]),
    ('SELECT transactions."Owner Name" AS n FROM raw.transactions WHERE raw.transactions.id = 1',
     [{"n": "Ann", "_gs_op": "i"}]),
    ("SELECT t.id FROM raw.transactions AS t WHERE t.id = 1", [{"id": 1, "_gs_op": "i"}]),
    ('SELECT id FROM "odd name.x"', [{"id": 20}]),
    ('SELECT id AS "Dotted.Name", amount AS MixedCase FROM plain', [{"Dotted.Name": 10, "mixedcase": 1}]),
    ('SELECT id AS "a""b`c" FROM plain', [{'a"b`c': 10}]),
    ("SELECT place.city, place.geo.lat FROM raw.transactions WHERE id = 1",
     [{"City": "Oslo", "lat": 1.5, "_gs_op": "i"}]),
    ("SELECT t.place.city AS c FROM raw.transactions t WHERE id = 1", [{"c": "Oslo", "_gs_op": "i"}]),
    # the name of a column without an alias
    ("SELECT id::text, amount * 2 FROM plain", [{"id": "10", "amount * 2": 2}]),
    ("SELECT upper('x') FROM plain", [{"upper('x')": "X"}]),
    ("SELECT -1, id IS NULL, id IS DISTINCT FROM 1, (1 + 2) FROM plain",
     [{"-1": -1, "id IS NULL": False, "id IS DISTINCT FROM 1": True, "1 + 2": 3}]),
    ('SELECT "odd name.x".id FROM "odd name.x"', [{"id": 20}]),
    # stars
    ("SELECT * FROM plain", [{"id": 10, "amount": 1}]),
    ("SELECT *, amount + 1 AS more FROM plain", [{"id": 10, "amount": 1, "more": 2}]),
    ("SELECT p.* FROM plain p", [{"id": 10, "amount": 1}]),
    ("SELECT * EXCEPT (amount) FROM plain", [{"id": 10}]),
    ("SELECT * EXCLUDE (amount) FROM plain", [{"id": 10}]),
    ("SELECT * EXCEPT (amount), 'x' AS amount FROM plain", [{"id": 10, "amount": "x"}]),
    ("SELECT * REPLACE (amount * 2 AS amount) FROM plain", [{"id": 10, "amount": 2}]),
    # the row kind
    ("SELECT id, _gs_op FROM raw.transactions WHERE id = 3", [{"id": 3, "_gs_op": "d"}]),
    ("SELECT _gs_op, id FROM raw.transactions WHERE id = 3", [{"_gs_op": "d", "id": 3}]),
    ("SELECT id, 'd' AS _gs_op FROM raw.transactions WHERE id = 1", [{"id": 1, "_gs_op": "d"}]),
    ("SELECT id FROM (SELECT id FROM raw.transactions) WHERE id = 3", [{"id": 3, "_gs_op": "d"}]),
    ("WITH a AS (SELECT id AS k FROM raw.transactions) SELECT k FROM a WHERE k = 3", [{"k": 3, "_gs_op": "d"}]),
    ("SELECT * EXCEPT (_gs_op, tags, codes, place) FROM raw.transactions WHERE id = 2",
     [{"id": 2, "amount": 1500, "Owner Name": None, "_gs_op": "u"}]),
    ("SELECT id FROM raw.transactions WHERE _gs_op = 'd'", [{"id": 3, "_gs_op": "d"}]),
    # unions
    ("SELECT id FROM plain UNION ALL SELECT amount FROM plain", [{"id": 10}, {"id": 1}]),
    ("SELECT id FROM raw.transactions WHERE id = 3 UNION ALL SELECT id FROM plain",
     [{"id": 3, "_gs_op": "d"}, {"id": 10, "_gs_op": "i"}]),
    ("SELECT id FROM plain UNION ALL SELECT id FROM raw.transactions WHERE id = 3",
     [{"id": 10, "_gs_op": "i"}, {"id": 3, "_gs_op": "d"}]),
    ("SELECT _gs_op, id FROM raw.transactions WHERE id = 3 UNION ALL SELECT id FROM raw.transactions WHERE id = 2",
     [{"_gs_op": "d", "id": 3}, {"_gs_op": "u", "id": 2}]),
    ("(SELECT id FROM plain) UNION ALL (SELECT id FROM plain UNION ALL SELECT amount FROM plain)",
     [{"id": 10}, {"id": 10}, {"id": 1}]),
    ("SELECT k FROM (SELECT id AS k FROM plain UNION ALL SELECT amount FROM plain) u WHERE u.k > 5", [{"k": 10}]),
    # subqueries and CTEs
    ("SELECT x.d FROM (SELECT id * 2 AS d FROM plain) AS x", [{"d": 20}]),
    ("WITH a AS (SELECT id FROM plain), b AS (SELECT id + 1 AS id FROM a) SELECT * FROM b", [{"id": 11}]),
    ("WITH plain AS (SELECT id + 1 AS id FROM plain) SELECT * FROM plain", [{"id": 11}]),
    ("WITH A AS (SELECT id FROM plain) SELECT a.id FROM a", [{"id": 10}]),
    # unnest
    ("SELECT id, unnest(tags) AS tag FROM raw.transactions",
     [{"id": 1, "tag": "a", "_gs_op": "i"}, {"id": 1, "tag": "b", "_gs_op": "i"}]),
    ("SELECT unnest(codes) + 1 AS c FROM raw.transactions",
     [{"c": 8, "_gs_op": "i"}, {"c": 9, "_gs_op": "u"}, {"c": 10, "_gs_op": "u"}]),
    ("SELECT id, unnest(tags) AS tag, unnest(codes) AS code FROM raw.transactions",
     [{"id": 1, "tag": "a", "code": 7, "_gs_op": "i"}, {"id": 1, "tag": "b", "code": None, "_gs_op": "i"},
      {"id": 2, "tag": None, "code": 8, "_gs_op": "u"}, {"id": 2, "tag": None, "code": 9, "_gs_op": "u"}]),
    ("SELECT unnest([1, 2]) FROM plain", [{"unnest([1, 2])": 1}, {"unnest([1, 2])": 2}]),
    ("SELECT tag FROM (SELECT unnest(tags) AS tag FROM raw.transactions) WHERE tag = 'b'",
     [{"tag": "b", "_gs_op": "i"}]),
    ("SELECT *, unnest(tags) AS tag FROM (SELECT id, tags FROM raw.transactions)",
     [{"id": 1, "tags": ["a", "b"], "_gs_op": "i", "tag": "a"},
      {"id": 1, "tags": ["a", "b"], "_gs_op": "i", "tag": "b"}]),
    # expressions
    ("SELECT id FROM plain WHERE 'TRY_CAST(x AS Utf8)' = 'TRY_CAST(x AS Utf8)'", [{"id": 10}]),
    ("SELECT id + 0.5 AS x FROM plain", [{"x": 10.5}]),
    ("SELECT CAST(amount AS TEXT) || '!' AS x FROM plain", [{"x": "1!"}]),
    ("SELECT TRY_CAST('x' AS BIGINT) AS x FROM plain", [{"x": None}]),
    ("SELECT CAST(1 AS BIGINT UNSIGNED) = 1 AS x FROM plain", [{"x": True}]),
    ("SELECT CAST(id AS Utf8) AS x FROM plain", [{"x": "10"}]),
    ("SELECT transform([1, 2], id -> id * 10) AS x FROM plain", [{"x": [10, 20]}]),
    ("SELECT map('a', 1)['a'] AS m, from_unixtime(0, 'yyyy') AS y FROM plain", [{"m": 1, "y": "1970"}]),
    ("SELECT trunc(date '2020-05-06', 'MM') = date '2020-05-01' AS t FROM plain", [{"t": True}]),
    ("SELECT amount AS a, a + 1 AS b FROM plain", [{"a": 1, "b": 2}]),
    ("SELECT id FROM plain WHERE now() > timestamp '2020-01-01' AND now() - interval '1 hour' < now()", [{"id": 10}]),
    ("SELECT id FROM plain WHERE current_date = today() AND current_timestamp = now()", [{"id": 10}]),
    ("SELECT id /* why */ FROM plain -- because\n;", [{"id": 10}]),
    ("SELECT id FROM plain WHERE amount BETWEEN 1 AND 2 AND id IN (10, 11) AND NOT id IS NULL", [{"id": 10}]),
    ("SELECT CASE WHEN amount > 0 THEN 'pos' ELSE 'neg' END AS sign FROM plain", [{"sign": "pos"}]),
    ("SELECT id FROM plain WHERE 1 = 2", []),
]  # fmt: skip


def columns_of(schemas: Mapping[str, pa.Schema]) -> dict[str, list[Column]]:
    return {name: [Column(field.name, field.type) for field in schema] for name, schema in schemas.items()}


@pytest.mark.parametrize(("sql", "expected"), CASES, ids=[case[0] for case in CASES])
def test_returns_these_rows(spark: Any, frames: dict[str, Any], sql: str, expected: list[dict[str, Any]]) -> None:
    compiled = Statement(sql).compile(columns_of(NODES))
    assert not compiled.problems, compiled.problems
    table = prepare(spark, compiled.plan).run(frames).toArrow()
    assert table.to_pylist() == expected
    assert compiled.columns is not None
    assert [column.name for column in compiled.columns] == table.column_names
    if expected:
        assert table.column_names == list(expected[0])


def test_a_plain_star_adds_nothing_to_the_plan() -> None:
    assert Statement("SELECT * FROM plain").compile(columns_of(NODES)).plan == Read("plain")


def test_columns_that_differ_only_in_case_are_distinguished(spark: Any) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.caseSensitive", "true")
    schema = pa.schema({"id": pa.int64(), "ID": pa.int64()})
    frame = session.createDataFrame([(1, 2)], to_spark_schema(schema))
    compiled = Statement('SELECT id AS a, "ID" AS b FROM t').compile(columns_of({"t": schema}))
    assert prepare(session, compiled.plan).run({"t": frame}).toArrow().to_pylist() == [{"a": 1, "b": 2}]
