"""The change records of the Rust implementation's benchmark: Avro schema, values, and the computation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: the schema of the messages
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Change",
    "fields": [
        {"name": "id", "type": "long"},
        *({"name": name, "type": "string"} for name in ("user_id", "email", "country", "device")),
        {"name": "amount", "type": "double"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 4}},
        {"name": "ts", "type": "long"},
        {"name": "sel_key", "type": "int"},
    ],
}
#: the projection, and the filter condition that a tenth of the rows passes
COLUMNS = (
    *("id", "user_id", "email", "lower(country) AS country", "device", "amount * 1.1 AS amount", "price", "ts"),
    "sel_key",
)
TENTH = "sel_key = 0"
#: the projection as a Postgres table
POSTGRES_COLUMNS = {
    "id": "bigint PRIMARY KEY",
    **dict.fromkeys(("user_id", "email", "country", "device"), "text"),
    "amount": "double precision",
    "price": "numeric(20, 4)",
    "ts": "bigint",
    "sel_key": "integer",
}
#: the projection as a ClickHouse table, and its rows
CLICKHOUSE_COLUMNS = {
    "id": "Int64",
    **dict.fromkeys(("user_id", "email", "country", "device"), "String"),
    "amount": "Float64",
    "price": "Decimal(20, 4)",
    "ts": "Int64",
    "sel_key": "Int32",
}
CLICKHOUSE_ROWS = """SELECT number, concat('user-', leftPad(toString(number % 1000), 6, '0')),
concat('user', toString(number % 1000), '@mail.example.com'),
['de', 'es', 'fr', 'in', 'jp', 'us'][number % 1000 % 6 + 1], ['desktop', 'smartphone', 'tablet'][number % 1000 % 3 + 1],
number % 1000 * 1.375, number % 1000 * toDecimal64(0.0375, 4), 1700000000000 + number % 1000, number % 10"""

#: a record of about 76 bytes from a number ``n`` below 1000; only ``id`` is unique
_VALUES = (
    *("id", "concat('user-', lpad(n, 6, '0')) AS user_id", "concat('user', n, '@mail.example.com') AS email"),
    "element_at(array('DE', 'ES', 'FR', 'IN', 'JP', 'US'), n % 6 + 1) AS country",
    "element_at(array('desktop', 'smartphone', 'tablet'), n % 3 + 1) AS device",
    *("n * 1.25D AS amount", "CAST(n * 0.0375BD AS DECIMAL(20, 4)) AS price", "1700000000000 + n AS ts"),
    "CAST(n % 10 AS INT) AS sel_key",
)
_HEADERS = "array(named_struct('key', 'dbz.op', 'value', CAST('c' AS BINARY)))"
_PRODUCER = {"kafka.linger.ms": "20", "kafka.batch.size": str(2**18), "kafka.acks": "1"}


def rows(spark: SparkSession, count: int, first: int = 0) -> DataFrame:
    """Return ``count`` records."""
    numbered = spark.range(first, first + count).selectExpr("id", "CAST(id % 1000 AS INT) AS n")
    return numbered.selectExpr(*_VALUES)


def tables(spark: SparkSession, count: int, batch: int) -> Iterator[pa.Table]:
    """Yield ``count`` records after the projection, in batches."""
    for first in range(0, count, batch):
        yield rows(spark, min(batch, count - first), first).selectExpr(*COLUMNS).toArrow()


def write_topic(spark: SparkSession, brokers: str, topic: str, schema_id: int, count: int, *, headers: bool) -> None:
    """Append ``count`` messages to ``topic``, optionally with the header ``dbz.op``."""
    from pyspark.sql import functions as f
    from pyspark.sql.avro.functions import to_avro

    encoded = to_avro(f.struct("*"), json.dumps(SCHEMA))
    value = f.concat(f.lit(bytearray(b"\x00" + schema_id.to_bytes(4, "big"))), encoded).alias("value")
    messages = rows(spark, count).select(value, *([f.expr(_HEADERS).alias("headers")] if headers else []))
    options = {"kafka.bootstrap.servers": brokers, "topic": topic, "includeHeaders": str(headers).lower()}
    messages.write.format("kafka").options(**options, **_PRODUCER).mode("append").save()
