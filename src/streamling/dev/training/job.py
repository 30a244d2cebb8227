"""The small job that trains a start-up archive: what pipelines do in their first seconds.

`streamling.spark.jvm.archive` runs this module as a process; it reports on stdout, one JSON object per line.
"""

from __future__ import annotations

import json
import math
import os
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from streamling.errors import StreamlingError
from streamling.spark.arrow_map import map_in_arrow
from streamling.spark.jvm.archive import Archive
from streamling.spark.jvm.session import SparkDriver

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from streamling.engine.run.run import PipelineRun
    from streamling.pipeline.config import AppConfig

_ROWS = 50

# The share of each phase in the time of a build, for the progress bar.
_SHARE_START = 0.2
_SHARE_STEPS = 0.4
_SHARE_WRITING = 0.39
_WRITING_SECONDS = 12

#: a typical pipeline; every format that needs no Spark package
_PIPELINE = """
sources:
  raw: {{type: file, path: "{folder}", format: {format}, mode: {{type: bounded}}, primary_key: id}}
transforms:
  shaped:
    type: sql
    primary_key: id
    sql: |
      SELECT id, round(amount * 2, 2) AS twice, upper(name) || '-' || id::text AS label, coalesce(name, 'none') AS name,
             at + interval '1 hour' AS later, now() AS seen, amount::decimal(20, 2) AS exact, day, ok,
             CASE WHEN ok THEN 'yes' ELSE 'no' END AS answer, name IN ('n1', 'n2') AS few
      FROM raw
      WHERE amount * 2 >= 3 AND name LIKE 'n%' OR id IN (1, 2, 3) OR at < now()
  half:
    type: sql
    primary_key: id
    sql: SELECT id, label FROM shaped WHERE id > 10 UNION ALL SELECT id, label FROM shaped WHERE id < 5
sinks:
  rows: {{type: memory, from: shaped}}
  hole: {{type: blackhole, from: shaped}}
  few: {{type: memory, from: half}}
"""

TOPIC = "changes"
CHANGE = {
    "type": "record",
    "name": "Change",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 4}},
    ],
}
KAFKA_PIPELINE = f"""
sources:
  raw: {{type: kafka, topic: {TOPIC}, primary_key: id}}
transforms:
  shaped:
    type: sql
    primary_key: id
    sql: SELECT id, lower(name) AS name, amount * 1.1 AS amount, price FROM raw WHERE id >= 0 AND name <> ''
sinks:
  rows: {{type: memory, from: shaped}}
"""
#: rows arrive within a second or two, or never
_KAFKA_SECONDS = 60


def steps(session: SparkSession, folder: Path, spark_packages: frozenset[str]) -> list[tuple[str, Callable[[], None]]]:
    """Return the job as named steps, so that progress can be shown. ``folder`` is empty."""
    chosen: list[tuple[str, Callable[[], None]]] = [
        ("csv", lambda: _pipeline(session, folder, "csv")),
        ("json", lambda: _pipeline(session, folder, "json")),
        ("parquet", lambda: _pipeline(session, folder, "parquet")),
        ("arrow", lambda: _arrow(session)),
        ("wrong SQL", lambda: _wrong_sql(session)),
        ("python worker", lambda: _python_worker(session)),
    ]
    if "avro" in spark_packages:
        chosen.append(("avro", lambda: _avro(session)))
    if "kafka" in spark_packages:
        chosen.append(("kafka", lambda: _kafka(session)))
    return chosen


def _rows() -> list[dict[str, object]]:
    return [
        {
            "id": number,
            "amount": number * 1.5,
            "name": f"n{number}",
            "at": f"2024-01-02T03:04:{number:02}",
            "day": "2024-01-02",
            "ok": number % 2 == 0,
            "_gs_op": "i",
        }
        for number in range(_ROWS)
    ]


def _pipeline(session: SparkSession, folder: Path, format: str) -> None:
    """Run a pipeline with the real engine."""
    from streamling.pipeline.config import AppConfig

    files = folder / format
    files.mkdir()
    _write(files / f"a.{format}", format)
    with prepared_run(session, _PIPELINE.format(folder=files, format=format), AppConfig()) as run:
        run.start()
        run.wait()


def prepared_run(session: SparkSession, text: str, config: AppConfig) -> AbstractContextManager[PipelineRun]:
    from streamling.engine.launch.launcher import Launcher

    launcher = Launcher.of(config)
    return launcher.prepared(launcher.parse(text, "training.yaml"), lambda packages: lambda: session, in_memory=True)


def _write(file: Path, format: str) -> None:
    rows = _rows()
    if format == "csv":
        lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
        file.write_text("\n".join(lines), encoding="utf-8")
    elif format == "json":
        file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    else:
        import pyarrow as pa
        from pyarrow import parquet

        parquet.write_table(pa.Table.from_pylist(rows), file)


def _arrow(session: SparkSession) -> None:
    import pyarrow as pa

    frame = session.createDataFrame(pa.Table.from_pylist(_rows()))
    frame.createOrReplaceTempView("raw")
    frame.selectExpr("id * 2 AS twice", "name").filter("twice > 3").toArrow()
    session.sql("SELECT name, count(*) AS n, max(id) AS m FROM raw GROUP BY name ORDER BY n").toArrow()


def _wrong_sql(session: SparkSession) -> None:
    from pyspark.errors import PySparkException

    for text in ("SELECT nothing FROM raw", "SELECT FROM WHERE", "SELECT id FROM missing"):
        try:
            session.sql(text).toArrow()
        except PySparkException as error:
            error.getCondition()
            error.getMessage()


def _python_worker(session: SparkSession) -> None:
    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return batches

    map_in_arrow(session.range(10).toDF("id"), same, "id bigint").toArrow()


def _avro(session: SparkSession) -> None:
    from pyspark.sql.avro.functions import from_avro, to_avro
    from pyspark.sql.functions import struct

    schema = json.dumps(
        {
            "type": "record",
            "name": "row",
            "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"], "default": None}],
        }
    )
    encoded = session.sql("SELECT id, name FROM raw").select(to_avro(struct("id", "name"), schema).alias("value"))
    encoded.select(from_avro("value", schema, {"mode": "FAILFAST"}).alias("row")).select("row.*").toArrow()


def _kafka(session: SparkSession) -> None:
    """Run the real source on a fake Kafka. A failure here only makes starts slower."""
    from streamling.connectors.kafka.config import KafkaSourceSettings
    from streamling.dev.training.fake_kafka import fake_kafka
    from streamling.pipeline.config import AppConfig

    with (
        suppress(StreamlingError),
        fake_kafka(TOPIC, CHANGE, [encoded_change(number) for number in range(_ROWS)]) as there,
    ):
        settings = KafkaSourceSettings(brokers=there.brokers, schema_registry_url=there.registry_url)
        with prepared_run(session, KAFKA_PIPELINE, AppConfig(kafka_source=settings)) as run:
            seen = threading.Event()
            run.on_first_rows(seen.set)
            run.start()
            seen.wait(_KAFKA_SECONDS)
            run.stop("learnt")
            run.wait()


def encoded_change(number: int) -> bytes:
    """Return a `CHANGE` in Avro: a zigzag number below 64, a text, a double, a number of cents."""
    name = f"n{number}".encode()
    return bytes([2 * number, 2 * len(name)]) + name + struct.pack("<d", number * 1.5) + bytes([2, number])


def main(arguments: list[str]) -> int:
    """Build the archive that the last argument describes."""
    background = "--background" in arguments
    if background:
        os.nice(10)
    order = json.loads(arguments[-1])
    cache_dir, conf, spark_packages = Path(order["cache_dir"]), order["conf"], frozenset(order["spark_packages"])
    try:
        archive = Archive.for_settings(cache_dir=cache_dir, conf=conf, spark_packages=spark_packages)
        existed = archive.exists()
        with archive.build_lock(None if background else _report_waiting) as ours:
            if not ours:
                raise StreamlingError("another process is building it")
            if existed or not archive.exists():  # otherwise another process has built it in the meantime
                _build(archive, cache_dir, conf, spark_packages)
    except StreamlingError as error:
        print(error, file=sys.stderr)
        return 1
    _report_progress(archive=str(archive.path))
    return 0


def _build(archive: Archive, cache_dir: Path, conf: dict[str, str], spark_packages: frozenset[str]) -> None:
    _report_progress(doing="starting Spark", done=0.0)
    archive.prepare()
    driver = SparkDriver.start(
        master="local[2]", conf=conf, cache_dir=cache_dir, spark_packages=spark_packages, record=True
    )
    _train(driver)
    if not archive.publish():
        archive.record_failure(driver.last_output())
        raise StreamlingError(driver.last_output() or "Java wrote no archive")


def _report_waiting() -> None:
    _report_progress(doing="waiting for another process that is building it", done=0.0)


def _train(driver: SparkDriver) -> None:
    try:
        session = driver.session()
        # not in the scratch folder of the run: file sources do not read those
        with tempfile.TemporaryDirectory(prefix="streamling-training-") as folder:
            todo = steps(session, Path(folder), driver.spark_packages)
            for number, (name, step) in enumerate(todo):
                _report_progress(doing=f"training: {name}", done=_SHARE_START + _SHARE_STEPS * number / len(todo))
                step()
    finally:
        _stop(driver)


def _stop(driver: SparkDriver) -> None:
    """Stop Spark, which writes the archive. That takes a third of the time and reports nothing: advance the bar
    slowly."""
    ended = threading.Thread(target=driver.stop)
    ended.start()
    since = time.monotonic()
    while ended.is_alive():
        part = 1 - math.exp(-(time.monotonic() - since) / _WRITING_SECONDS)
        _report_progress(doing="writing the archive", done=_SHARE_START + _SHARE_STEPS + _SHARE_WRITING * part)
        ended.join(0.5)


def _report_progress(**what: object) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
