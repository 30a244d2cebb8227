"""Wide numbers in SQL: Spark's results after our rewriting compared with Python's integers and `decimal`."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

from streamling.errors import StreamlingError
from streamling.sql.compiler import Compiled
from streamling.sql.plan import Column
from streamling.sql.statement import Statement
from streamling.types.spark import logical_type, physical_type, to_arrow_schema, to_spark_schema
from streamling.types.wide.layout import I256, U256, WideDecimal, contains_wide, layout_of
from tests.transforms.sql.test_transform import transform
from tests.types.wide.wide_numbers import edges, held, some

SEED = 1907
D, E = WideDecimal(100, 20), pa.decimal256(76, 10)
TYPES: dict[str, pa.DataType] = {"u": U256, "v": U256, "i": I256, "j": I256, "d": D, "e": E}
OTHERS: dict[str, pa.DataType] = {
    "id": pa.int64(),
    "n": pa.decimal128(20, 2),
    "q": pa.uint64(),
    "t": pa.string(),
    "x": pa.float64(),
    "b": pa.bool_(),
    "l": pa.list_(U256),
    "s": pa.struct([("a", U256), ("z", pa.int64())]),
    "m": pa.map_(pa.string(), I256),
}
SCHEMA = pa.schema({**OTHERS, **TYPES})
_SOME = 60


def _values() -> list[dict[str, Any]]:
    """Rows of Python numbers: every edge, and numbers of all sizes."""
    chance = random.Random(SEED)
    columns = {name: [*edges(type_), *some(type_, _SOME, chance)] for name, type_ in TYPES.items()}
    count = max(map(len, columns.values()))
    rows = []
    for number in range(count):
        row = {name: values[number % len(values)] for name, values in columns.items()}
        row |= {"id": number - 3, "n": Decimal(number).scaleb(-2), "q": 2**64 - 1 - number, "t": str(row["i"])}
        row |= {"x": number * 1.5e10, "b": number % 3 == 0, "l": [row["u"], None], "s": {"a": row["v"], "z": 1}}
        rows.append(row | {"m": [("k", row["i"])]})
    return [*rows, dict.fromkeys(rows[0])]


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    """In Spark's representation."""

    def column(name: str, type_: pa.DataType) -> pa.Array:
        values = [row[name] for row in rows]
        if contains_wide(type_):
            return pa.array([_held(value, type_) for value in values], physical_type(type_))
        return pa.array(values, type_).cast(physical_type(type_))

    return pa.table({field.name: column(field.name, field.type) for field in SCHEMA})


def _held(value: Any, type_: pa.DataType) -> Any:
    layout = layout_of(type_)
    if value is None or layout is not None:
        return None if value is None else held(type_).encode(value)
    if pa.types.is_list(type_):
        return [_held(item, type_.value_type) for item in value]
    if pa.types.is_map(type_):
        return [(key, _held(item, type_.item_type)) for key, item in value]
    return {field.name: _held(value[field.name], field.type) for field in type_} if pa.types.is_struct(type_) else value


def _meant(value: Any, type_: pa.DataType) -> Any:
    """A value of Spark as a Python value."""
    layout = layout_of(type_)
    if value is None:
        return None
    if layout is not None:
        number = layout.decode(value)
        return Fraction(number, 10**layout.scale) if layout.scale else number
    if pa.types.is_list(type_):
        return [_meant(item, type_.value_type) for item in value]
    if pa.types.is_struct(type_):
        return {field.name: _meant(value[field.name], field.type) for field in type_}
    return value


def _cut(a: int, b: int) -> int:
    return math.trunc(Fraction(a, b))


def _fraction(row: dict[str, Any], name: str) -> Fraction:
    return Fraction(row[name], 10 ** held(TYPES[name]).scale)


#: SQL, its result for a row without nulls, and its type; an exception marks a row that the SQL must not evaluate
CASES: list[tuple[str, Callable[[dict[str, Any]], Any], pa.DataType]] = [
    # comparison and order
    ("u < v", lambda r: r["u"] < r["v"], pa.bool_()),
    ("i >= j", lambda r: r["i"] >= r["j"], pa.bool_()),
    ("u = 9223372036854775808", lambda r: r["u"] == 2**63, pa.bool_()),
    (f"u <> {2**256 - 1}", lambda r: r["u"] != 2**256 - 1, pa.bool_()),
    ("5 < i", lambda r: r["i"] > 5, pa.bool_()),
    (f"i > -{2**255}", lambda r: r["i"] > -(2**255), pa.bool_()),
    ("i = t", lambda r: True, pa.bool_()),
    (f"u BETWEEN 1 AND {2**128}", lambda r: 1 <= r["u"] <= 2**128, pa.bool_()),
    (f"u NOT IN (0, v, '{2**255}')", lambda r: r["u"] not in (0, r["v"], 2**255), pa.bool_()),
    ("u IS DISTINCT FROM v", lambda r: r["u"] != r["v"], pa.bool_()),
    ("i > id", lambda r: r["i"] > r["id"], pa.bool_()),
    ("u > q", lambda r: r["u"] > r["q"], pa.bool_()),
    ("d > e", lambda r: _fraction(r, "d") > _fraction(r, "e"), pa.bool_()),
    ("d BETWEEN -0.5 AND 1e30", lambda r: Fraction(-1, 2) <= _fraction(r, "d") <= 10**30, pa.bool_()),
    ("e < n", lambda r: _fraction(r, "e") < Fraction(r["n"]), pa.bool_()),
    ("greatest(u, v, 7)", lambda r: max(r["u"], r["v"], 7), U256),
    ("least(i, j)", lambda r: min(r["i"], r["j"]), I256),
    # arithmetic, guarded if it has no result
    ("CASE WHEN u >= v THEN u - v ELSE v - u END", lambda r: abs(r["u"] - r["v"]), U256),
    ("u / 3 * 2 + u % 3", lambda r: r["u"] // 3 * 2 + r["u"] % 3, U256),
    ("i / 7", lambda r: _cut(r["i"], 7), I256),
    ("i % -7", lambda r: r["i"] - -7 * _cut(r["i"], -7), I256),
    ("mod(j, 1000)", lambda r: math.copysign(1, r["j"]) * (abs(r["j"]) % 1000), I256),
    ("(i / 2 + j / 2) * 1", lambda r: _cut(r["i"], 2) + _cut(r["j"], 2), I256),
    ("CASE WHEN j <> 0 THEN (i / 2) / j END", lambda r: _cut(_cut(r["i"], 2), r["j"]) if r["j"] else None, I256),
    ("-(i / 2)", lambda r: -_cut(r["i"], 2), I256),
    ("abs(i / 2)", lambda r: abs(_cut(r["i"], 2)), I256),
    ("i256_sub(i / 2, 1)", lambda r: _cut(r["i"], 2) - 1, I256),
    ("u256_div(u, 10)", lambda r: r["u"] // 10, U256),
    ("d + e", lambda r: _fraction(r, "d") + _fraction(r, "e"), WideDecimal(101, 20)),
    ("e * e - 1.5", lambda r: _fraction(r, "e") ** 2 - Fraction(3, 2), WideDecimal(153, 20)),
    ("d + u", lambda r: _fraction(r, "d") + r["u"], WideDecimal(101, 20)),
    ("d / 7", lambda r: Fraction(math.trunc(_fraction(r, "d") / 7 * 10**20), 10**20), WideDecimal(100, 20)),
    # choices
    ("coalesce(u, 5)", lambda r: r["u"], U256),
    ("coalesce(nullif(u, v), 0)", lambda r: r["u"] if r["u"] != r["v"] else 0, U256),
    ("if(b, i, -1)", lambda r: r["i"] if r["b"] else -1, I256),
    ("CASE i WHEN 0 THEN 'none' WHEN -1 THEN 'less' END", lambda r: {0: "none", -1: "less"}.get(r["i"]), pa.string()),
    # casts
    ("CAST(u AS TEXT)", lambda r: str(r["u"]), pa.string()),
    ("i::varchar", lambda r: str(r["i"]), pa.string()),
    ("i256_to_string(i)", lambda r: str(r["i"]), pa.string()),
    ("CAST(d AS STRING)", lambda r: _digits(r["d"], 20), pa.string()),
    ("if(u < v, '-', CAST(u - v AS TEXT))", lambda r: "-" if r["u"] < r["v"] else str(r["u"] - r["v"]), pa.string()),
    ("'#' || u", lambda r: f"#{r['u']}", pa.string()),
    ("concat(u, '/', i)", lambda r: f"{r['u']}/{r['i']}", pa.string()),
    ("CAST(t AS I256)", lambda r: r["i"], I256),
    ("to_i256(t)", lambda r: r["i"], I256),
    ("TRY_CAST(t AS U256)", lambda r: r["i"] if r["i"] >= 0 else None, U256),
    ("to_u256('0xff')", lambda r: 255, U256),
    ("CAST(id AS I256)", lambda r: r["id"], I256),
    ("TRY_CAST(id AS U256)", lambda r: r["id"] if r["id"] >= 0 else None, U256),
    ("CAST(q AS U256)", lambda r: r["q"], U256),
    ("CAST(n AS U256)", lambda r: int(r["n"]), U256),
    ("CAST(x AS U256)", lambda r: int(r["x"]), U256),
    ("CAST(u AS DOUBLE)", lambda r: float(r["u"]), pa.float64()),
    ("TRY_CAST(i AS BIGINT)", lambda r: r["i"] if -(2**63) <= r["i"] < 2**63 else None, pa.int64()),
    ("TRY_CAST(i AS DECIMAL(38))", lambda r: r["i"] if abs(r["i"]) < 10**38 else None, pa.decimal128(38, 0)),
    ("TRY_CAST(i AS U256)", lambda r: r["i"] if r["i"] >= 0 else None, U256),
    ("TRY_CAST(u AS I256)", lambda r: r["u"] if r["u"] < 2**255 else None, I256),
    ("CAST(u AS DECIMAL(90, 5))", lambda r: r["u"], WideDecimal(90, 5)),
    ("CAST(i AS BINARY)", lambda r: r["i"].to_bytes(32, "big", signed=True), pa.binary()),
    ("CAST(CAST(i AS BINARY) AS I256)", lambda r: r["i"], I256),
    ("CAST(CAST(u AS BINARY) AS U256)", lambda r: r["u"], U256),
    # inside others
    ("l[1]", lambda r: r["u"], U256),
    ("s.a", lambda r: r["v"], U256),
    ("m['k']", lambda r: r["i"], I256),
    ("s.a / 2", lambda r: r["v"] // 2, U256),
    ("array(u, 5)", lambda r: [r["u"], 5], pa.list_(U256)),
    ("struct(u AS a, id)", lambda r: {"a": r["u"], "c1": r["id"]}, pa.struct([("a", U256), ("c1", pa.int64())])),
    ("u", lambda r: r["u"], U256),
]  # fmt: skip


def _digits(number: int, scale: int) -> str:
    with localcontext(prec=1000):
        return f"{Decimal(number).scaleb(-scale):f}"


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return _values()


@pytest.fixture(scope="module")
def frame(spark: Any, rows: list[dict[str, Any]]) -> Any:
    return spark.createDataFrame(_table(rows), to_spark_schema(SCHEMA)).coalesce(1)


@pytest.mark.spark
def test_every_expression_equals_python(spark: Any, frame: Any, rows: list[dict[str, Any]]) -> None:
    items = ", ".join(f"{sql} AS c{number}" for number, (sql, _, _) in enumerate(CASES))
    out = transform(f"SELECT id, {items} FROM src").apply(spark, {"src": frame})
    declared = to_arrow_schema(out.schema)
    table = out.toArrow()
    for number, (sql, expected, type_) in enumerate(CASES):
        assert logical_type(declared.field(f"c{number}")) == type_, sql
        assert logical_type(table.schema.field(f"c{number}")) == type_, sql
        found = table[f"c{number}"].to_pylist()
        for row, value in zip(rows[:-1], found, strict=False):
            assert _meant(value, type_) == expected(row), (sql, row)
        constants = (
            "to_u256('0xff')",
            "coalesce",
            "CASE i WHEN",
            "if(",
            "concat",
            "array",
            "struct",
            "u IS",
            "greatest",
        )
        assert found[-1] is None or sql.startswith(constants), sql


@pytest.mark.spark
def test_columns_keep_their_type_through_stars_filters_unions_and_unnest(spark: Any, frame: Any) -> None:
    sql = """WITH some AS (SELECT * FROM src WHERE u > 1 AND i < 0)
        SELECT id, NULL AS w, unnest(l) AS element FROM some UNION ALL SELECT id, u AS w, s.a AS element FROM some"""
    out = transform(sql).apply(spark, {"src": frame})
    again = transform("SELECT id, w + 1 AS w, element FROM first WHERE w IS NOT NULL").apply(spark, {"first": out})
    for made in (out, again):
        schema = to_arrow_schema(made.schema)
        assert [logical_type(schema.field(name)) for name in ("w", "element")] == [U256, U256]
    assert again.count() > 0


@pytest.mark.spark
@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (f"SELECT id, u + {2**256 - 1} AS x FROM src WHERE u = 1", f"1 + {2**256 - 1} does not fit into u256"),
        ("SELECT id, u - 2 AS x FROM src WHERE u = 1", "1 - 2 does not fit into u256 (line 1, column 12 of the SQL)"),
        ("SELECT id, u / (u - u) AS x FROM src WHERE u = 1", "division by zero (line 1, column 12 of the SQL)"),
        ("SELECT id FROM src WHERE i % 0 = 1", "division by zero (line 1, column 26 of the SQL)"),
        ("SELECT id, CAST(i AS U256) AS x FROM src WHERE i = -1", "-1 does not fit into u256"),
        ("SELECT id, CAST(id AS U256) AS x FROM src WHERE id = -1", "-1 does not fit into u256"),
        ("SELECT id, u + id AS x FROM src WHERE id = -1", "-1 does not fit into u256"),
        ("SELECT id, CAST(u AS BIGINT) AS x FROM src WHERE u > 9223372036854775807", "does not fit into BIGINT"),
        ("SELECT id, to_u256('a' || t) AS x FROM src WHERE i = 1", "'a1' is not a number (line 1, column 12"),
    ],
)  # fmt: skip
def test_errors_at_run_time_are_translated(spark: Any, frame: Any, sql: str, message: str) -> None:
    node = transform(sql)
    out = node.apply(spark, {"src": frame})
    with pytest.raises(Exception) as failure:
        out.toArrow()
    explained = node.translate_error(failure.value)
    assert isinstance(explained, StreamlingError)
    assert message in str(explained)
    assert not explained.internal
    assert "Traceback" not in str(explained)
    assert transform("SELECT id, u * 3 AS other FROM src").translate_error(failure.value) is None


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("u = b", "u256 and bool cannot be combined"),
        ("u + x", "u256 and double cannot be combined"),
        ("u > i", "u256 and i256 cannot be combined"),
        ("u + i", "u256 and i256 cannot be combined"),
        ("u > -1", "-1 does not fit into u256"),
        (f"u < {2**256}", f"{2**256} does not fit into u256"),
        ("u = 'x'", "'x' is not a number"),
        ("u < 1.5", "'1.5' is not a whole number"),
        ("-u", "u256 has no negative numbers"),
        ("hex(u)", "hex() does not take u256"),
        ("u & 1", "u & 1 is not supported for u256"),
        ("u LIKE '1%'", "is not supported for u256"),
        ("CAST(u AS BOOLEAN)", "no cast from u256 to BOOLEAN"),
        ("CAST(b AS U256)", "no cast from bool to u256"),
        ("u256_add(u)", "u256_add() takes 2 arguments, not 1"),
        ("to_u256('-1')", "-1 does not fit into u256"),
        ("u = n", "u256 and decimal128(20, 2) cannot be combined"),
        ("d > x", "cannot be combined"),
    ],
)
def test_invalid_expressions_are_rejected_without_spark(item: str, message: str) -> None:
    problems = compiled(f"SELECT id, {item} AS x FROM src").problems
    assert [message in problem.message for problem in problems] == [True]
    assert problems[0].excerpt


def test_numbers_of_different_types_cannot_be_one_column_of_a_union() -> None:
    problems = compiled("SELECT id, u AS x FROM src UNION ALL SELECT id, i FROM src").problems
    assert "column 'x' is u256 and i256" in problems[0].message


def test_comparisons_need_no_function() -> None:
    sql = "SELECT u, i > -5 AS x FROM src WHERE u > 10 AND u IN (1, 2) AND u BETWEEN 1 AND v AND id > 3"
    assert "streamling_wide" not in str(compiled(sql).plan)


def test_the_static_check_knows_the_result_types() -> None:
    columns = compiled("SELECT u + 1 AS x, CAST(u AS TEXT) AS t, l FROM src").columns
    assert columns is not None
    assert [column.type for column in columns] == [U256, pa.string(), pa.list_(U256)]


def compiled(sql: str) -> Compiled:
    return Statement(sql).compile({"src": [Column(field.name, field.type) for field in SCHEMA]})
