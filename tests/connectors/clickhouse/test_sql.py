"""Rows that Spark computes: types that it does not have reach ClickHouse as what they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.connectors.clickhouse.driver import Database
from tests.harness.pipelines import Bench

pytestmark = [pytest.mark.services, pytest.mark.spark]


@pytest.fixture
def bench(spark, tmp_path: Path) -> Bench:
    return Bench(spark)


def run(
    bench: Bench, database: Database, folder: Path, rows: list[dict[str, object]], sql: str, **sink: object
) -> None:
    data = folder / "in"
    data.mkdir()
    (data / "rows.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    nodes = {
        "sources": {
            "rows": {
                "type": "file",
                "path": str(data),
                "format": "json",
                "mode": {"type": "bounded"},
                "primary_key": "id",
            }
        },
        "transforms": {"out": {"type": "sql", "primary_key": "id", "sql": sql}},
        "sinks": {"ch": {"type": "clickhouse", "from": "out", "table": "t", "primary_key": "id", **sink}},
    }
    bench.run(json.dumps(nodes), clickhouse_sink=database.settings)


def test_every_type_of_sql_becomes_the_matching_type(bench: Bench, database: Database, tmp_path: Path) -> None:
    sql = """
        SELECT id, to_u256(big) AS u, to_i256('-' || big) AS i, CAST(big AS DECIMAL(38, 0)) AS d, id = 1 AS b,
               CAST('2024-02-29' AS DATE) AS day, TIMESTAMP '2024-02-29 12:30:15.123456' AS ts,
               array(id, NULL) AS l, map('k', id) AS m, named_struct('a', id, 'b', big) AS s, CAST(id AS FLOAT) AS f,
               CAST(NULL AS INT) AS n, x'00ff' AS bin
        FROM rows
    """
    big = str(10**37)
    run(bench, database, tmp_path, [{"id": 1, "big": big}], sql)
    types = {name: type_.removeprefix("Nullable(") for name, type_ in database.types("t").items()}
    expected = {
        "u": ("UInt256)", big),
        "i": ("Int256)", f"-{big}"),
        "d": ("Decimal(38, 0))", big),
        "b": ("UInt8)", "1"),
        "day": ("Date)", "2024-02-29"),
        "ts": ("DateTime64(6))", "2024-02-29 12:30:15.123456"),
        "l": ("Array(Nullable(Int64))", "[1,NULL]"),
        "m": ("Map(String, Nullable(Int64))", "{'k':1}"),
        "s": ("Tuple(a Nullable(Int64), b Nullable(String))", f"(1,'{big}')"),
        "f": ("Float32)", "1"),
        "n": ("Int32)", None),
    }
    (texts,) = database.rows(f"SELECT {', '.join(f'toString({name})' for name in expected)} FROM t FINAL")
    found = {name: (types[name], text) for name, text in zip(expected, texts, strict=True)}
    assert found == expected
    assert database.rows("SELECT hex(bin) FROM t FINAL") == [("00FF",)]


def test_a_name_that_is_removed_and_added_again_fits_a_table_with_fewer_columns(
    bench: Bench, database: Database, tmp_path: Path
) -> None:
    database.execute(
        "CREATE TABLE t (id Int64, amount Decimal(10, 2), is_deleted UInt8, insert_time DateTime DEFAULT now())"
        " ENGINE ReplacingMergeTree(insert_time, is_deleted) ORDER BY id"
    )
    rows = [{"id": n, "amount": f"{n}.50", "note": "x", "more": n} for n in range(3)]
    sql = "SELECT * EXCEPT (amount), CAST(amount AS DECIMAL(10, 2)) AS amount FROM rows"
    run(bench, database, tmp_path, rows, sql)
    assert database.rows("SELECT id, toString(amount) FROM t FINAL ORDER BY id") == [(0, "0.5"), (1, "1.5"), (2, "2.5")]
