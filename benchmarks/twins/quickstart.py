"""examples/quickstart in plain PySpark: CSV files, one SQL query, a JSON object per line.

Arguments: the folder of the files, and `forever` to wait for more files.
"""

import json
import sys

from pyspark.sql import DataFrame, SparkSession

SCHEMA = """order_id bigint, ordered_at timestamp_ntz, customer string, country string, item string, quantity bigint,
            unit_price double"""
SQL = """
    SELECT
      order_id,
      ordered_at,
      customer,
      upper(item)                       AS item,
      round(quantity * unit_price, 2)   AS total,
      country IN ('DE', 'ES', 'FR')     AS in_europe
    FROM orders
    WHERE quantity * unit_price >= 50
"""


def session() -> SparkSession:
    builder = SparkSession.builder.master("local[*]").appName("quickstart").config("spark.ui.enabled", "false")
    return builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()


def show(orders: DataFrame) -> None:
    orders.createOrReplaceTempView("orders")
    for row in orders.sparkSession.sql(SQL).collect():
        print(json.dumps(row.asDict(), default=str), flush=True)


def once(folder: str) -> None:
    spark = session()
    show(spark.read.schema(SCHEMA).option("header", "true").csv(folder))
    spark.stop()


def forever(folder: str) -> None:
    files = session().readStream.schema(SCHEMA).option("header", "true").csv(folder)
    files.writeStream.foreachBatch(lambda batch, number: show(batch)).start().awaitTermination()


if __name__ == "__main__":
    (forever if sys.argv[2:] == ["forever"] else once)(sys.argv[1])
