"""A stream of lines from a socket in plain PySpark; prints them as JSON. Argument: the port on this machine."""

import json
import sys

from pyspark.sql import DataFrame, SparkSession


def show(batch: DataFrame, number: int) -> None:
    for row in batch.collect():
        print(json.dumps(row.asDict()), flush=True)


def main(port: str) -> None:
    spark = SparkSession.builder.master("local[*]").appName("lines").config("spark.ui.enabled", "false").getOrCreate()
    lines = spark.readStream.format("socket").option("host", "127.0.0.1").option("port", port).load()
    lines.writeStream.foreachBatch(show).start().awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1])
