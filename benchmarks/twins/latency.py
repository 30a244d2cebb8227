"""Messages from Kafka to Kafka, Postgres or an HTTP endpoint as a bare Structured Streaming query.

Arguments: jars, brokers, topic, the function of this module that writes, and where to.
"""

import http.client
import json
import sys
import tempfile
from collections.abc import Callable
from urllib.parse import urlsplit

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

_SCHEMA = "id BIGINT, sent DOUBLE, name STRING"


def to_kafka(rows: DataFrame, brokers: str, topic: str, checkpoint: str) -> None:
    messages = rows.selectExpr("CAST(id AS STRING) AS key", "to_json(struct(*)) AS value")
    query = messages.writeStream.format("kafka").option("kafka.bootstrap.servers", brokers).option("topic", topic)
    query.option("checkpointLocation", checkpoint).start().awaitTermination()


def to_postgres(rows: DataFrame, brokers: str, address: str, checkpoint: str) -> None:
    import psycopg

    dsn, _, table = address.rpartition(" ")
    connection = psycopg.connect(dsn, autocommit=True)
    statement = f"""INSERT INTO {table} VALUES (%s, %s, %s)
        ON CONFLICT (id) DO UPDATE SET sent = EXCLUDED.sent, name = EXCLUDED.name""".encode()

    def write(batch: DataFrame, number: int) -> None:
        with connection.transaction(), connection.cursor() as cursor:
            cursor.executemany(statement, [tuple(row) for row in batch.collect()])

    _run(rows, write, checkpoint)


def to_webhook(rows: DataFrame, brokers: str, url: str, checkpoint: str) -> None:
    connection = http.client.HTTPConnection(urlsplit(url).netloc)

    def write(batch: DataFrame, number: int) -> None:
        found = [row.asDict() for row in batch.collect()]
        if found:
            connection.request("POST", "/", json.dumps(found), {"Content-Type": "application/json"})
            connection.getresponse().read()

    _run(rows, write, checkpoint)


def _run(rows: DataFrame, write: Callable[[DataFrame, int], None], checkpoint: str) -> None:
    rows.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint).start().awaitTermination()


def main(jars: str, brokers: str, topic: str, function: str, address: str) -> None:
    builder = SparkSession.builder.master("local[*]").appName("latency")
    spark = builder.config("spark.ui.enabled", "false").config("spark.jars", jars).getOrCreate()
    options = {"kafka.bootstrap.servers": brokers, "subscribe": topic, "startingOffsets": "earliest"}
    messages = spark.readStream.format("kafka").options(**options).load()
    row = f.from_json(f.col("value").cast("string"), _SCHEMA).alias("row")
    rows = messages.select(row).selectExpr("row.id", "row.sent", "upper(row.name) AS name").where("id >= 0")
    with tempfile.TemporaryDirectory() as checkpoint:
        globals()[function](rows, brokers, address, checkpoint)


if __name__ == "__main__":
    main(*sys.argv[1:])
