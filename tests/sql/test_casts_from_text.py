"""Casts of text accept what DataFusion accepts, and nothing else."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import datafusion as oracle
import pyarrow as pa
import pytest
import yaml

from streamling.sql.frames import SparkTypes, prepare
from streamling.sql.plan import Column
from streamling.sql.statement import Statement

pytestmark = pytest.mark.spark

GROUPS = yaml.safe_load((Path(__file__).parents[1] / "corpus/sql/casts.yaml").read_text())
COLUMNS = [Column("id", pa.int64()), Column("x", pa.string())]


def _plain(value: pa.Scalar) -> Any:
    if pa.types.is_timestamp(value.type):
        return value.cast(pa.timestamp("us", value.type.tz), safe=False).value
    if pa.types.is_time(value.type):
        return value.cast(pa.time64("us"), safe=False).value
    plain = value.as_py()
    return "NaN" if isinstance(plain, float) and math.isnan(plain) else plain


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group["types"][0])
def test_text_is_cast_as_in_datafusion(spark: Any, group: dict[str, list[str]]) -> None:
    texts, types = group["texts"], group["types"]
    table = pa.table({"id": range(len(texts)), "x": texts})
    context = oracle.SessionContext()
    context.from_arrow(table, "t")
    casts = ", ".join(f"TRY_CAST(x AS {type_}) AS v{number}" for number, type_ in enumerate(types))
    expected = context.sql(f"SELECT id, {casts} FROM t ORDER BY id").to_arrow_table()
    compiled = Statement(f"SELECT id, {casts} FROM t").compile({"t": COLUMNS})
    frame = spark.createDataFrame(table.to_pylist(), "id bigint, x string")
    actual = prepare(spark, compiled.plan).run({"t": frame}).orderBy("id").toArrow()
    for number, type_ in enumerate(types):
        found = {text: _plain(value) for text, value in zip(texts, actual[f"v{number}"], strict=True)}
        wanted = {text: _plain(value) for text, value in zip(texts, expected[f"v{number}"], strict=True)}
        assert found == wanted, type_
        _assert_stops(spark, frame, type_, next(text for text, value in found.items() if value is None))


def _assert_stops(spark: Any, frame: Any, type_: str, text: str) -> None:
    """CAST fails where TRY_CAST returns NULL."""
    compiled = Statement(f"SELECT CAST(x AS {type_}) AS v FROM t").compile({"t": COLUMNS})
    with pytest.raises(Exception, match=r"CAST_INVALID_INPUT|CANNOT_PARSE|CAST_OVERFLOW"):
        prepare(spark, compiled.plan).run({"t": frame.where(frame.x == text)}).collect()


@pytest.mark.parametrize(
    ("parts", "rows"),
    [
        (["s", "n"], ["0123", "123"]),
        (["n", "s"], ["123", "0123"]),
        (["x", "s"], ["123.5", "0123"]),
        (["[n]", "[s]"], [["123"], ["0123"]]),
        (["[x * 1e20]", "[s]"], [["1.235e22"], ["0123"]]),
        (["CASE WHEN n > 1 THEN s ELSE n END", "n"], ["0123", "123"]),
        (["NULL", "s"], [None, "0123"]),
        (["[named_struct('b', s)][1]['b']", "n"], ["0123", "123"]),
        (["n", "[named_struct('b', s)][1]['b']"], ["123", "0123"]),
        (["elt(1, s)", "year(DATE '2024-01-01')"], ["0123", "2024"]),
    ],
)
def test_text_beside_numbers_stays_text_in_a_union(spark: Any, parts: list[str], rows: list[Any]) -> None:
    columns = [Column("s", pa.string()), Column("n", pa.int64()), Column("x", pa.float64())]
    frame = spark.createDataFrame([("0123", 123, 123.5)], "s string, n bigint, x double")
    sql = " UNION ALL ".join(f"SELECT {part} AS v FROM t" for part in parts)
    compiled = Statement(sql).compile({"t": columns}, analyse=SparkTypes(spark, {"t": frame}))
    assert [row.v for row in prepare(spark, compiled.plan).run({"t": frame}).collect()] == rows
    assert compiled.columns is not None
    assert compiled.columns[0].type in (pa.string(), pa.list_(pa.string()))
