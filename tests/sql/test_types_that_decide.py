"""If the meaning of an operator depends on a type, Spark's analysis decides, and decimals keep all their digits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import time
from decimal import Decimal
from typing import Any

import datafusion as oracle
import pyarrow as pa
import pytest

from streamling.sql.frames import SparkStatement
from streamling.sql.plan import Column
from streamling.sql.statement import Statement
from streamling.types.spark import to_spark_schema

pytestmark = pytest.mark.spark

ROWS = pa.table(
    {
        "id": pa.array([0, 1, 2]),
        "i": pa.array([7, -7, None]),
        "n": pa.array([7, -7, None], pa.int32()),
        "big": pa.array([2**32 - 1, 2**53 + 1, None]),
        "tenth": pa.array([Decimal("0.1"), Decimal("-9.9"), None], pa.decimal128(2, 1)),
        "f": pa.array([2.5, -0.5, None], pa.float32()),
        "x": pa.array([2.5, -0.5, None]),
        "ts": pa.array([0, 10**15 + 123456, None], pa.timestamp("us")),
        "later": pa.array([10**13, 10**15, None], pa.timestamp("us")),
        "tz": pa.array([0, 10**15 + 123456, None], pa.timestamp("us", "UTC")),
        "tm": pa.array([0, 86_399_999_999, None], pa.time64("us")),
        "day": pa.array([0, 19_000, None], pa.date32()),
        "s": pa.array(["😀a 𝒳Y", "İıſ straße", None]),
        "halves": pa.array([500_000, 250, None], pa.time64("us")),
        "lines": pa.array(["a\rb", "a\nb\n", None]),
        "digits": pa.array(["１", "x", None]),
        "pattern": pa.array(["a.b", "a.b", None]),
        "utf8": pa.array(["żó".encode(), b"", None]),
        "bytes": pa.array([b"\xff", b"a", None]),
        "ll": pa.array([[[1, 2], None, [None]], [], None], pa.list_(pa.list_(pa.int64()))),
        "lx": pa.array([[0.1, None, 1e20], [], None], pa.list_(pa.float64())),
        "st": pa.array([{"a": 7}, {"a": -7}, {"a": None}], pa.struct([("a", pa.int64())])),
        "li": pa.array([[7, 3], [-7], None], pa.list_(pa.int64())),
        "q": pa.array([Decimal("1.1250"), Decimal("0.0001"), None], pa.decimal128(20, 4)),
        "small": pa.array([Decimal("-1.55"), Decimal("1.45"), None], pa.decimal128(10, 2)),
        "wei": pa.array([Decimal("2.5"), Decimal("-1234567890123456.123456789012345678"), None], pa.decimal128(38, 18)),
        "most": pa.array([Decimal(7), Decimal("-98765432109876543210987654321098765432"), None], pa.decimal128(38, 0)),
        "p36": pa.array([Decimal("1" * 36), Decimal("-" + "9" * 36), None], pa.decimal128(36, 0)),
    }
)

SAME_AS_DATAFUSION = r"""
extract(year FROM ts) / 10
date_part('year', ts) / 10
st['a'] / 2
(i & 7) / 2
(n | 3) / 2
li[1] / 2
coalesce(st['a'], 1) / 2
CASE WHEN id = 0 THEN n & 3 ELSE 1 END / 2
-(i & 7) / 2
f + 1
f * n
f / 2
f % 2
sqrt(abs(f))
round(f, 1)
atan2(f, f)
nanvl(f, x)
coalesce(f, i)
f > i
f * q
i / f
(i & 7) % 4
floor(i)
ceil(n) / 2
floor(i & 7) || ''
CAST(CAST(big AS FLOAT) AS DOUBLE)
CAST(TRY_CAST(big AS FLOAT) AS DOUBLE)
cos(CAST(big AS FLOAT))
CAST(big AS FLOAT) = CAST(big AS DOUBLE)
CAST(CAST(tenth AS FLOAT) AS DOUBLE)
CAST(f * big AS DOUBLE)
CAST(coalesce(big, f) AS DOUBLE)
tm + INTERVAL '1 hour'
tm - INTERVAL '25 hours'
tm + INTERVAL '1 month'
extract(hour FROM later - ts)
extract(minute FROM (ts - later))
extract(epoch FROM tm)
CAST(day AS INT)
CAST(day AS BIGINT) / 7
CAST(n AS DATE)
TRY_CAST(bytes AS TEXT)
CAST(utf8 AS TEXT)
length(utf8)
reverse(utf8)
left(utf8, 1)
right(utf8, -1)
concat(s, utf8)
encode(digest(s, 'sha512'), 'base64')
decode(encode(repeat(s, 30), 'base64'), 'base64')
concat(bytes, utf8)
bytes || utf8
utf8 || s
initcap(s)
CAST(ll AS TEXT)
CAST(lx AS TEXT)
CAST([ts, later] AS TEXT)
CAST(lx AS TEXT[])[3]
CAST(ll AS TEXT[])[1]
CAST([ts, later] AS TEXT[])[1]
CAST([[x]] AS TEXT[][])[1][1]
CAST([s] AS TEXT[])[1]
TRY_CAST(['1.5d', '2'] AS DOUBLE[])[1]
TRY_CAST(['2024', '2024-05-06'] AS DATE[])[2]
TRY_CAST(['2024', '2024-05-06'] AS DATE[])[1]
CAST([i, n] AS FLOAT[])[1]
CAST(li AS INT[])[1]
CAST(cardinality(ll) AS BIGINT)
CAST(array_length([li, li], 2) AS BIGINT)
CAST(array_length([NULL, li], 2) AS BIGINT)
CAST(tm AS TEXT)
CAST(halves AS TEXT)
CAST(f * 0.000001::float AS TEXT)
CAST(CAST('9.9e-7' AS FLOAT) AS TEXT)
CAST(CAST('1e13' AS FLOAT) AS TEXT)
CAST(CAST('9.9e12' AS FLOAT) AS TEXT)
nullif(small, q)
nullif(n, q)
nullif(n, x)
nullif(f, x)
nullif(f, n)
nullif(n, i)
array_replace([n], 7, 2.5)[1]
array_replace_n([n], 7, i, 1)[1]
CASE WHEN id = 0 THEN named_struct('a', 1, 'b', coalesce(s, 'x')) END
CASE WHEN id = 0 THEN struct(1, 'x') END
lines ~ 'a.b'
lines ~* 'A.'
lines !~ 'a.'
digits ~ '\d'
regexp_like(lines, 'a.')
regexp_like(lines, 'b$')
regexp_like(lines, 'b$', 'm')
regexp_like(lines, '[$]|b\$|^a.b$')
regexp_like(lines, pattern)
CAST(st['a'] * 1.5 AS TEXT)
st['a'] * 1.5 || '!'
round(st['a'] / 2)
wei * 2
wei * 0
q * q
q * q * q
small * small
q + wei
wei - 1
q % small
coalesce(q, wei)
coalesce(wei, most)
CASE WHEN id = 0 THEN q ELSE wei END
CASE WHEN id = 0 THEN n ELSE small END
least(q, wei)
greatest(small, wei, q)
greatest(q, i)
-wei
-most
-p36
abs(wei)
abs(most)
abs(p36)
-(p36 + 0)
round(q * q, 2)
round(q, 2)
round(wei, 3)
round(small)
round(small, -1)
floor(small)
ceil(q)
floor(wei)
trunc(small)
trunc(small, 1)
trunc(wei, 17)
trunc(small, -1)
q / small
q / 3
q / q
q / i
small / 3
small / n
small / wei
-7 / small
3 / small
CAST(q / small AS TEXT)
CAST(floor(small) AS TEXT)
CAST(small * small AS TEXT)
q * 1.5
q = 1.125
q > small
wei < q
q IN (small, 1)
q BETWEEN small AND wei
q IS DISTINCT FROM (small + 1)
q IS NOT DISTINCT FROM (q)
floor(most) >= TRY_CAST(3 AS DECIMAL(38, 18))
most = CAST(7 AS DECIMAL(38, 18))
most <> CAST(7 AS DECIMAL(38, 18))
CAST(7 AS DECIMAL(38, 18)) > most
most IN (CAST(7 AS DECIMAL(38, 18)))
most BETWEEN CAST(-1 AS DECIMAL(38, 18)) AND CAST(7 AS DECIMAL(38, 18))
most IS DISTINCT FROM CAST(7 AS DECIMAL(38, 18))
"""

#: functions that only Spark has
SPARK_ONLY = {
    "year(ts) / 10": [197, 200, None],
    "bit_count(i) / 2": [1, 31, None],
    "transform(li, e -> e / 2)": [[3, 1], [-3], None],
    "transform(li, (e, place) -> (e & 7) / (place + 2))": [[3, 1], [0], None],
    "aggregate(li, 0, (total, e) -> total + e / 2)": [4, -3, None],
    "negative(most)": [Decimal(-7), Decimal("98765432109876543210987654321098765432"), None],
    "year(ts) || '!'": ["1970!", "2001!", None],
}


@pytest.fixture(scope="module")
def frame(spark: Any) -> Any:
    return spark.createDataFrame(ROWS, to_spark_schema(ROWS.schema)).coalesce(1).cache()


def evaluated(spark: Any, frame: Any, expressions: Sequence[str], source: str = "t") -> dict[str, Any]:
    items = ", ".join(f"{expression} AS v{number}" for number, expression in enumerate(expressions))
    statement = SparkStatement("node", Statement(f"SELECT id, {items} FROM {source}"))
    found = statement.apply(spark, {"t": frame}).toArrow().sort_by("id")
    return {expression: found[f"v{number}"] for number, expression in enumerate(expressions)}


def test_types_of_operands_decide_as_in_datafusion(spark: Any, frame: Any) -> None:
    expressions = SAME_AS_DATAFUSION.strip().split("\n")
    context = oracle.SessionContext()
    context.from_arrow(ROWS, "t")
    ours = evaluated(spark, frame, expressions)
    differing = {}
    for expression in expressions:
        wanted = context.sql(f"SELECT {expression} AS v FROM t ORDER BY id").to_arrow_table()["v"]
        got = ours[expression]
        if got.to_pylist() != wanted.to_pylist() or _kind(got.type) != _kind(wanted.type):
            differing[expression] = (wanted.type, wanted.to_pylist(), got.type, got.to_pylist())
    assert not differing


def _kind(type_: pa.DataType) -> Any:
    """Decimals by their scale: Spark chooses the digits before the point in places."""
    if pa.types.is_decimal(type_):
        return "decimal", type_.scale
    if pa.types.is_time(type_):
        return "time"
    return "string" if pa.types.is_string_view(type_) else str(type_)


@pytest.mark.parametrize("expression", ["CAST(bytes AS TEXT)", "s || bytes", "concat(s, bytes)", "length(bytes)"])
def test_bytes_that_are_not_utf8_do_not_become_text(spark: Any, frame: Any, expression: str) -> None:
    with pytest.raises(Exception, match="INVALID_UTF8_STRING"):
        evaluated(spark, frame, [expression])


def test_a_timestamp_becomes_a_time_of_day(spark: Any, frame: Any) -> None:
    for found in evaluated(spark, frame, ["CAST(ts AS TIME)", "CAST(tz AS TIME)"]).values():
        assert found.to_pylist() == [time(0), time(1, 46, 40, 123456), None]


def test_minus_zero_keeps_its_sign(spark: Any, frame: Any) -> None:
    expressions = [
        "ceil(x)",
        "ceil(x * 0)",
        "floor(x * 0)",
        "ceil(f)",
        "trunc(x)",
        "round(x / 2)",
        "(f * 0) / 2",
        "CAST(x * 0 AS FLOAT)",
    ]
    context = oracle.SessionContext()
    context.from_arrow(ROWS, "t")
    for expression, found in evaluated(spark, frame, expressions).items():
        wanted = context.sql(f"SELECT {expression} AS v FROM t ORDER BY id").to_arrow_table()["v"]
        assert repr(found.to_pylist()) == repr(wanted.to_pylist()), expression


def test_functions_that_only_spark_has(spark: Any, frame: Any) -> None:
    found = evaluated(spark, frame, list(SPARK_ONLY))
    assert {expression: values.to_pylist() for expression, values in found.items()} == SPARK_ONLY


def test_types_are_followed_through_subqueries_and_aliases(spark: Any, frame: Any) -> None:
    source = "(SELECT id, year(ts) AS y, bit_count(i) + 1 AS b, b / 3 AS third FROM t) AS s"
    found = evaluated(spark, frame, ["y / 10", "third / 1", "(b - 1) / 2"], source)
    assert {name: values.to_pylist() for name, values in found.items()} == {
        "y / 10": [197, 200, None],
        "third / 1": [1, 21, None],
        "(b - 1) / 2": [1, 31, None],
    }


def test_conditions_are_decided_by_spark_too(spark: Any, frame: Any) -> None:
    statement = SparkStatement("node", Statement("SELECT id FROM t WHERE year(ts) / 10 = 197 AND bit_count(i) / 2 = 1"))
    assert statement.apply(spark, {"t": frame}).toArrow()["id"].to_pylist() == [0]


def test_a_union_of_different_scales_keeps_all_digits(spark: Any, frame: Any) -> None:
    sql = "SELECT id, wei AS v FROM t UNION ALL SELECT id + 3, q FROM t UNION ALL SELECT id + 6, small FROM t"
    found = SparkStatement("node", Statement(sql)).apply(spark, {"t": frame}).toArrow().sort_by("id")["v"].to_pylist()
    assert found == [value for name in ("wei", "q", "small") for value in ROWS[name].to_pylist()]


@pytest.mark.parametrize(
    "expression", ["wei * 1000000000000000000", "most + most", "coalesce(most, wei)", "ceil(most * 10)", "most / q"]
)
def test_digits_that_do_not_fit_are_an_error(spark: Any, frame: Any, expression: str) -> None:
    statement = SparkStatement("node", Statement(f"SELECT {expression} AS v FROM t WHERE id = 1"))
    with pytest.raises(Exception, match=r"NUMERIC_VALUE_OUT_OF_RANGE|NUMERIC_OUT_OF_SUPPORTED_RANGE|does not fit"):
        statement.apply(spark, {"t": frame}).toArrow()


def test_a_product_with_too_many_digits_after_the_point_is_rejected() -> None:
    columns = [Column("a", pa.decimal128(38, 20))]
    [problem] = Statement("SELECT a * a AS v FROM t").compile({"t": columns}).problems
    assert "40 digits after the point" in str(problem)
    assert "DECIMAL(76, 20)" in str(problem)


def test_a_cast_to_a_wide_decimal_carries_what_38_digits_cannot(spark: Any, frame: Any) -> None:
    sql = "SELECT CAST(CAST(most AS DECIMAL(76, 0)) * most AS TEXT) AS v FROM t WHERE id = 1"
    [found] = SparkStatement("node", Statement(sql)).apply(spark, {"t": frame}).toArrow()["v"].to_pylist()
    assert found == str(98765432109876543210987654321098765432**2)


class Counted:
    """Counts how often Spark analyses a type."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, plan: Any, items: Any) -> None:
        self.asked += items


@pytest.mark.parametrize(
    ("sql", "asked"),
    [
        ("SELECT i / 2, n + 1, q * q, upper(CAST(x AS TEXT)), round(q * 2, 2), (i & 7) / 2, -q FROM t", []),
        ("SELECT bit_count(i) / 2 FROM t", ["BIT_COUNT(`i`)"]),
    ],
)
def test_spark_analyses_only_unknown_types(sql: str, asked: Sequence[str]) -> None:
    columns: Mapping[str, Any] = {"t": [Column(field.name, field.type) for field in ROWS.schema]}
    counted = Counted()
    assert not Statement(sql).compile(columns, analyse=counted).problems
    assert counted.asked == list(asked)
