"""The sql transform as the engine sees it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from streamling.errors import StreamlingError
from streamling.pipeline.config import AppConfig
from streamling.plugins.context import NodeContext
from streamling.plugins.placeholders import NoopMetrics, UnavailableState
from streamling.sql.problems import InvalidSql
from streamling.transforms.sql.transform import SqlTransform, SqlTransformOptions
from streamling.types.names import is_known


def transform(sql: str, name: str = "big") -> SqlTransform:
    options = SqlTransformOptions(type="sql", sql=sql, primary_key="id")
    return SqlTransform(NodeContext(name, options, AppConfig(), UnavailableState("none"), NoopMetrics()))


def upstreams(sql: str) -> list[str]:
    return list(SqlTransformOptions(type="sql", sql=sql, primary_key="id").upstreams())


# ── options ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT * FROM orders", ["orders"]),
        ("SELECT * FROM raw.Transactions", ["raw.Transactions"]),
        ('SELECT * FROM "raw.Trans actions"', ["raw.Trans actions"]),
        ("SELECT * FROM a.b.c.d.e AS x", ["a.b.c.d.e"]),
        ("SELECT * FROM a UNION ALL SELECT * FROM b UNION ALL SELECT * FROM a", ["a", "b"]),
        ("WITH x AS (SELECT * FROM a) SELECT * FROM X", ["a"]),
        ("WITH a AS (SELECT * FROM a) SELECT * FROM a", ["a"]),
        ("SELECT * FROM (SELECT * FROM (SELECT * FROM deep))", ["deep"]),
        ("SELECT * FROM a JOIN b ON a.id = b.id", ["a", "b"]),
        ("SELECT 'FROM nowhere' AS x FROM a -- FROM comment", ["a"]),
        ("SELECT 1", []),
    ],
)
def test_upstreams_are_the_tables_as_written(sql: str, names: list[str]) -> None:
    assert upstreams(sql) == names


def test_upstreams_of_invalid_sql_are_an_error_with_its_location() -> None:
    with pytest.raises(InvalidSql) as refused:
        upstreams("SELECT *\nFROM a WHERE")
    assert (refused.value.problems[0].line, refused.value.problems[0].column) == (2, 8)
    assert not refused.value.internal


@pytest.mark.parametrize("missing", ["sql", "primary_key"])
def test_sql_and_primary_key_are_required(missing: str) -> None:
    fields = {"type": "sql", "sql": "SELECT * FROM a", "primary_key": "id"}
    with pytest.raises(ValidationError, match=missing):
        SqlTransformOptions(**{key: value for key, value in fields.items() if key != missing})  # type: ignore[arg-type]


# ── the check without Spark ───────────────────────────────────────────────────────────────────────────────

ORDERS = pa.schema({"id": pa.int64(), "amount": pa.int32(), "_gs_op": pa.string()})


def test_the_check_gives_the_output_columns_with_their_types() -> None:
    problems, schema = transform("SELECT id, amount / 2 AS half, now() AS at FROM orders").static_check(
        {"orders": ORDERS}
    )
    assert problems == []
    assert schema == pa.schema(
        {"id": pa.int64(), "half": pa.int64(), "at": pa.timestamp("us", "UTC"), "_gs_op": pa.string()}
    )


def test_a_type_that_only_spark_knows_is_marked() -> None:
    _, schema = transform("SELECT id, sequence(1, 2) AS s FROM orders").static_check({"orders": ORDERS})
    assert schema is not None
    assert [is_known(field) for field in schema] == [True, False, True]


def test_columns_of_an_unknown_upstream_are_not_checked() -> None:
    assert transform("SELECT anything FROM orders WHERE foo > 1").static_check({"orders": None})[0] == []


def test_a_star_over_an_unknown_upstream_has_unknown_columns() -> None:
    assert transform("SELECT *, 1 AS one FROM orders").static_check({"orders": None}) == ([], None)


def test_the_check_reports_problems_instead_of_raising() -> None:
    problems, schema = transform("SELECT nope FROM orders LIMIT 1").static_check({"orders": ORDERS})
    assert schema is None
    assert "LIMIT" in problems[0].message


# ── on Spark ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def orders(spark: Any) -> Any:
    return spark.createDataFrame([(1, 5, "i"), (2, 0, "u")], "id long, amount int, _gs_op string")


@pytest.mark.spark
def test_apply_gives_the_rows_and_their_kind(spark: Any, orders: Any) -> None:
    frame = transform("SELECT id FROM Raw.Orders WHERE amount = 0").apply(spark, {"raw.orders": orders})
    assert frame.toArrow().to_pylist() == [{"id": 2, "_gs_op": "u"}]


@pytest.mark.spark
def test_apply_leaves_no_trace_in_the_session(spark: Any, orders: Any) -> None:
    transform("SELECT id FROM orders").apply(spark, {"orders": orders}).collect()
    assert spark.catalog.listTables() == []


@pytest.mark.spark
def test_apply_follows_a_schema_that_changes_between_batches(spark: Any, orders: Any) -> None:
    everything = transform("SELECT * EXCEPT (amount) FROM orders")
    assert everything.apply(spark, {"orders": orders}).columns == ["id", "_gs_op"]
    wider = orders.selectExpr("*", "'x' AS note")
    assert everything.apply(spark, {"orders": wider}).columns == ["id", "_gs_op", "note"]


@pytest.mark.spark
def test_apply_from_several_threads_at_once(spark: Any) -> None:
    shared = transform("SELECT id + 1 AS id FROM t")
    together = threading.Barrier(4)

    def run(number: int) -> list[dict[str, Any]]:
        frame = spark.range(number, number + 1)
        together.wait()
        rows: list[dict[str, Any]] = shared.apply(spark, {"t": frame}).toArrow().to_pylist()
        return rows

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, range(4))) == [[{"id": number + 1}] for number in range(4)]


@pytest.mark.spark
def test_problems_of_the_text_stop_apply_with_line_and_caret(spark: Any, orders: Any) -> None:
    with pytest.raises(StreamlingError) as failed:
        transform("SELECT id\nFROM orders\nWHERE amont > 1").apply(spark, {"orders": orders})
    assert str(failed.value) == (
        "line 3, column 7: there is no column 'amont' (did you mean amount?)\n  WHERE amont > 1\n        ^^^^^"
    )


@pytest.mark.spark
def test_the_error_of_a_failing_row_names_the_node_whose_sql_failed(spark: Any, orders: Any) -> None:
    first = transform("SELECT id, amount, id / amount AS share FROM orders")
    second = transform("SELECT id, upper('x') AS x, share FROM first")
    frame = second.apply(spark, {"first": first.apply(spark, {"orders": orders})})
    with pytest.raises(Exception) as failed:  # whatever Spark raises
        frame.collect()
    explained = first.translate_error(failed.value)
    assert explained is not None
    assert "division by zero" in str(explained)
    assert second.translate_error(failed.value) is None


@pytest.mark.spark
def test_errors_that_are_not_about_sql_are_not_translated() -> None:
    assert transform("SELECT id FROM orders").translate_error(OSError("disk full")) is None


@pytest.mark.spark
def test_now_is_evaluated_for_every_batch(spark: Any, orders: Any) -> None:
    clock = transform("SELECT now() AS at FROM orders")
    first = clock.apply(spark, {"orders": orders}).toArrow()["at"][0].as_py()
    second = clock.apply(spark, {"orders": orders}).toArrow()["at"][0].as_py()
    assert first < second
    assert first.tzinfo is not None
