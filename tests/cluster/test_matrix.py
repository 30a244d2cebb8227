"""The same pipelines on this machine and on a standalone cluster: started by the command, ``spark.master`` is the only
difference, and everything that comes out is the same."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest

from tests.cluster.matrix import Run, answer, fill_topics, write_files
from tests.endpoint import endpoint
from tests.engine.harness import eventually
from tests.recovery.accounts import expected
from tests.sources.kafka_driver import Topic

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.slow]

LOCAL, CLUSTER = "onlocal", "oncluster"


@dataclass(frozen=True)
class Matrix:
    local: Run
    cluster: Run
    dsn: str
    brokers: str
    topic: Topic


@pytest.fixture(scope="module")
def matrix(tmp_path_factory, cluster, kafka, registry, postgres) -> Iterator[Matrix]:
    folder = tmp_path_factory.mktemp("matrix")
    write_files(folder / "data")
    topics = [Topic(kafka, registry, name=name, partitions=2) for name in ("cluster-accounts", "cluster-clicks")]
    fill_topics(*topics)
    services = {**kafka.variables(), **registry.variables(), **postgres.variables()}
    with endpoint(answer) as server:
        runs = [
            Run(place, folder / place, master, folder / "data", server, services)
            for place, master in ((LOCAL, "local[2]"), (CLUSTER, cluster.master))
        ]
        yield Matrix(*runs, postgres.dsn, kafka.brokers, topics[0])


# ── bounded ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def printed(matrix: Matrix) -> tuple[str, str]:
    """Both pipelines of bounded sources have ended; what they printed."""
    with psycopg.connect(matrix.dsn) as connection:
        for place in (LOCAL, CLUSTER):
            connection.execute(f"CREATE SCHEMA {place}".encode())
            connection.execute(
                f"CREATE TABLE {place}.allowed (value TEXT PRIMARY KEY, updated_at TIMESTAMP DEFAULT now())".encode()
            )
            connection.execute(f"INSERT INTO {place}.allowed VALUES ('tea'), ('jam')".encode())
    return matrix.local.run("files.yaml"), matrix.cluster.run("files.yaml")


#: table → rows that it has to have, so that two empty ones are not taken for equal
TABLES = {
    "spread": 200,
    "scripted": 180,
    "fragile": 196,
    "rejected": 4,
    "scored": 200,
    "permitted": 80,
    "together": 400,
    "doubled": 200,
    "minted": 200,
    "turnover": 5,
}


@pytest.mark.parametrize("table", TABLES)
def test_tables_are_the_same(matrix, printed, table):
    columns = "id, node, position, error, payload" if table == "rejected" else "*"
    here = matrix.local.table(matrix.dsn, table, columns)
    assert len(here) == TABLES[table]
    assert matrix.cluster.table(matrix.dsn, table, columns) == here


def test_the_print_sink_prints_the_same_rows(printed):
    here, there = (sorted(lines.splitlines()) for lines in printed)
    assert len(here) == 5
    assert there == here


def test_topics_hold_the_same_messages(matrix, printed):
    here = matrix.local.json_topic(matrix.brokers, f"{LOCAL}-json")
    assert len(here) == 180
    assert matrix.cluster.json_topic(matrix.brokers, f"{CLUSTER}-json") == here
    here = matrix.local.avro_topic(matrix.topic, f"{LOCAL}-avro")
    assert len(here) == 200
    assert matrix.cluster.avro_topic(matrix.topic, f"{CLUSTER}-avro") == here


def test_webhook_and_plugin_sink_get_the_same_rows(matrix, printed):
    assert len(matrix.local.hooked()) == 200
    assert matrix.cluster.hooked() == matrix.local.hooked()
    assert [row["square"] for row in matrix.local.written()] != []
    assert matrix.cluster.written() == matrix.local.written()


def test_operators_of_a_plugin_file_run_on_the_executors(matrix, printed):
    assert len(matrix.local.workers()) == 1
    assert matrix.cluster.workers().isdisjoint(matrix.local.workers())
    assert len(matrix.cluster.workers()) > 1


def test_metrics_count_the_same_rows(matrix, printed):
    names = ("streamling_input_rows_total", "streamling_output_rows_total", "streamling_squared_total")
    here = matrix.local.counted("files.yaml", *names)
    assert here["streamling_squared_total squares"] == here["streamling_output_rows_total squares"] == 100
    assert len(here) > 40
    assert matrix.cluster.counted("files.yaml", *names) == here


# ── without end ─────────────────────────────────────────────────────────────────────────────────────────────

STREAMED = {"owners": "id, owner, cents", "pages": "*", "unreadable": "id, node, error, payload", "arrivals": "*"}


def streamed(run: Run, dsn: str) -> dict[str, list[tuple[object, ...]]]:
    return {table: run.table(dsn, table, columns) for table, columns in STREAMED.items()}


@pytest.fixture(scope="module")
def drained(matrix: Matrix) -> None:
    """Both pipelines of sources without end have read everything and were stopped."""
    for run in (matrix.local, matrix.cluster):
        line, how = run.command("streams.yaml")
        log = run.folder / "streams.log"
        with log.open("w") as output, subprocess.Popen(line, **how, stdout=output, stderr=output) as process:
            try:
                eventually(lambda run=run, process=process: process.poll() is not None or complete(run, matrix), 180)
                process.terminate()
                assert process.wait(60) == 0, log.read_text()[-6000:]
            finally:
                process.kill()


def complete(run: Run, matrix: Matrix) -> bool:
    tables = streamed(run, matrix.dsn)
    sizes = {name: len(rows) for name, rows in tables.items() if name != "owners"}
    owners = {id: (owner, cents) for id, owner, cents, *_ in tables["owners"]}
    return sizes == {"unreadable": 5, "pages": 195, "arrivals": 200} and owners == expected(matrix.topic)


def test_streams_leave_the_same_tables_and_topics(matrix, drained):
    assert streamed(matrix.cluster, matrix.dsn) == streamed(matrix.local, matrix.dsn)
    here = matrix.local.avro_topic(matrix.topic, f"{LOCAL}-owners")
    assert here
    assert matrix.cluster.avro_topic(matrix.topic, f"{CLUSTER}-owners") == here
