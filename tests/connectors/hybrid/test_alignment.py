"""The columns of the tables are those of the topic, by name and type."""

from __future__ import annotations

from typing import Any

import pytest

from streamling.errors import InvalidPipeline
from tests.connectors.hybrid.driver import ORDERS
from tests.connectors.kafka.source_driver import record

pytestmark = [pytest.mark.spark, pytest.mark.services]


def optional(name: str, type_: Any) -> tuple[str, Any, None]:
    return (name, ["null", type_], None)


def test_columns_are_matched_by_name_and_others_are_left_out(bench):
    bench.database.execute(
        "CREATE TABLE archive (loaded_at DateTime DEFAULT now(), name String, id UInt64, note String) "
        "ENGINE = MergeTree ORDER BY id",
        "INSERT INTO archive (name, id) VALUES ('a', 1)",
    )
    topic = bench.topic()
    topic.write(ORDERS, {"id": 2, "name": "b"})
    assert bench.read(topic, "archive", count=2) == [
        {"id": 1, "name": "a", "_gs_op": "i"},
        {"id": 2, "name": "b", "_gs_op": "i"},
    ]


def test_types_that_differ_are_converted(bench):
    schema = record(
        "id",
        optional("text", "string"),
        optional("small", "int"),
        optional("real", "double"),
        optional("flag", "boolean"),
        optional("day", {"type": "int", "logicalType": "date"}),
        optional("at", {"type": "long", "logicalType": "timestamp-millis"}),
        optional("price", {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 4}),
        optional("tags", {"type": "array", "items": "string"}),
    )
    bench.database.execute(
        "CREATE TABLE archive (id UInt32, text LowCardinality(String), small Nullable(Int8), real Float32, flag UInt8, "
        "day Date, at DateTime, price Decimal(18, 2), tags Array(String)) ENGINE = MergeTree ORDER BY id",
        "INSERT INTO archive VALUES "
        "(1, 'x', NULL, 0.5, 1, '2024-05-31', '2024-05-31 12:00:00', 12.34, ['a', 'b']), "
        "(2, '', 7, -1, 0, '1970-01-01', '1970-01-01 00:00:00', 0, [])",
    )
    topic = bench.topic()
    topic.write(schema, dict.fromkeys([field["name"] for field in schema["fields"]]) | {"id": 3})
    sql = (
        "SELECT id, text, small, real, flag, CAST(day AS TEXT) AS day, CAST(at AS TEXT) AS at, CAST(price AS TEXT) AS "
        "price, tags FROM orders"
    )
    rows = bench.read(topic, "archive", count=3, sql=sql)
    assert [tuple(row.values())[:-1] for row in rows] == [
        (1, "x", None, 0.5, True, "2024-05-31", "2024-05-31T12:00:00", "12.3400", ["a", "b"]),
        (2, "", 7, -1.0, False, "1970-01-01", "1970-01-01T00:00:00", "0.0000", []),
        (3, *[None] * 8),
    ]


def problems(bench, *tables: str, schema: Any = ORDERS) -> str:
    topic = bench.topic()
    topic.register(schema)
    with pytest.raises(InvalidPipeline) as caught:
        bench.begin(topic, *tables)
    (problem,) = caught.value.problems
    return f"{problem.message} ({problem.remedy})".replace(bench.database.name, "DB")


def test_a_missing_column_names_the_column_and_the_table(bench):
    bench.database.orders("first", 0, 1)
    bench.database.execute("CREATE TABLE second (id UInt64) ENGINE = MergeTree ORDER BY id")
    found = problems(bench, "first", "second")
    assert found.startswith("hybrid source 'orders': bounded_sources[1]: ")
    assert "'name'" in found
    assert "DB.second" in found


def test_types_that_cannot_be_converted_name_the_column_and_both_types(bench):
    bench.database.execute("CREATE TABLE archive (id UInt64, name Array(UInt8)) ENGINE = MergeTree ORDER BY id")
    found = problems(bench, "archive", schema=record("id", optional("name", "double")))
    assert found.startswith("hybrid source 'orders': bounded_sources[0]: ")
    assert "'name'" in found
    assert "Array(UInt8)" in found
    assert "double" in found or "float64" in found or "Float64" in found


def test_a_missing_table_is_named(bench):
    found = problems(bench, "archive")
    assert found.startswith("hybrid source 'orders': bounded_sources[0]: ")
    assert "DB.archive" in found


def test_the_primary_key_is_not_inferred(bench):
    """Neither from the schema of the topic nor from the sorting key of the table."""
    bench.database.orders("archive", 0, 1)
    topic = bench.topic()
    topic.register(record("id", optional("name", "string"), doc='{"primaryKeys": ["id"]}'))
    source = bench.source(topic, "archive")
    del source["primary_key"]
    run = bench.prepare(bench.text(source))
    assert run.pipeline["orders"].primary_key == ()
