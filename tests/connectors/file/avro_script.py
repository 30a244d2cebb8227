"""Reads an Avro folder in its own process: the connector must be present when Spark starts.

Arguments: the folder and the cache folder. Prints the schema and the rows of each batch as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from streamling.connectors.file import reader as _file_reader
from streamling.connectors.file import staging as _file_staging
from streamling.jvm.session import SparkRuntime
from tests.connectors.file.driver import Run, make_source


def main(folder: str, cache_dir: str) -> None:
    source = make_source(folder, format="avro")
    schema = [[field.name, str(field.type)] for field in source.schema()]
    runtime = SparkRuntime.start(
        master="local[2]", cache_dir=Path(cache_dir), spark_packages=source.spark_packages(source.options)
    )
    try:
        run = Run(runtime.session(), source)
        batches = []
        while (table := run.step()) is not None:
            batches.append(table.to_pylist())
        source.close()
    finally:
        runtime.stop()
    print(json.dumps({"schema": schema, "batches": batches}, default=str))


if __name__ == "__main__":
    # treat files of a few hundred bytes as large
    _file_reader.SPLIT_BYTES = 400
    split_file = _file_staging.split_file
    _file_staging.split_file = lambda *arguments: split_file(*arguments, size=400)
    _file_reader.BATCH_BYTES["avro"] = 1000
    main(*sys.argv[1:])
