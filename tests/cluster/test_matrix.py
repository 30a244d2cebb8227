"""The same pipeline on this machine and on a standalone cluster: started by the command, ``spark.master`` is the only
difference, and everything that comes out is the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest

from tests.cluster.matrix import Run, answer, fill_ledger, fill_topics, write_files
from tests.connectors.hybrid.driver import Database
from tests.connectors.kafka.source_driver import Topic
from tests.harness.endpoint import endpoint
from tests.recovery.accounts import expected

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.slow]

LOCAL, CLUSTER = "onlocal", "oncluster"

#: table → rows that it has to have, so that two empty ones are not taken for equal
TABLES = {
    "spread": 200,
    "scripted": 180,
    "fragile": 196,
    "rejected": 4,
    "scored": 200,
    "permitted": 80,
    "together": 400,
    "cubed": 100,
    "doubled": 200,
    "minted": 200,
    "turnover": 5,
    "pages": 195,
    "unreadable": 5,
    "arrivals": 200,
    "readings": 120,
    "archive": 100,
    "entries": 306,
}
#: what is not the same in every run is left out: when a row was rejected
COLUMNS = {
    "rejected": "id, node, error, payload",
    "unreadable": "id, node, position, error, payload",
    "owners": "id, owner, cents",
}


@dataclass(frozen=True)
class Matrix:
    """Both runs, ended."""

    local: Run
    cluster: Run
    dsn: str
    brokers: str
    accounts: Topic
    clickhouse: Database

    def tables(self, name: str) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
        columns = COLUMNS.get(name, "*")
        return self.local.table(self.dsn, name, columns), self.cluster.table(self.dsn, name, columns)


@pytest.fixture(scope="module")
def matrix(tmp_path_factory, cluster, kafka, registry, postgres, clickhouse) -> Iterator[Matrix]:
    folder = tmp_path_factory.mktemp("matrix")
    write_files(folder / "data")
    accounts, clicks = (
        Topic(kafka, registry, name=name, partitions=2) for name in ("cluster-accounts", "cluster-clicks")
    )
    fill_topics(accounts, clicks)
    owners = expected(accounts)
    database = Database(clickhouse, "cluster_matrix")
    fill_ledger(database, Topic(kafka, registry, name="cluster-ledger", partitions=2))
    services = {**kafka.variables(), **registry.variables(), **postgres.variables(), **database.variables()}
    services |= {name.replace("_SOURCE__", "_SINK__"): value for name, value in database.variables().items()}
    with endpoint(answer) as server:
        runs = []
        for place, master in ((LOCAL, "local[2]"), (CLUSTER, cluster.master)):
            allow(postgres.dsn, place)
            run = Run(place, folder / place, master, folder / "data", server, services)
            run.run(lambda run=run: is_complete(run, postgres.dsn, owners))
            runs.append(run)
        yield Matrix(*runs, postgres.dsn, kafka.brokers, accounts, database)


def allow(dsn: str, place: str) -> None:
    """The table that the pipeline looks items up in."""
    with psycopg.connect(dsn) as connection:
        connection.execute(f"CREATE SCHEMA {place}".encode())
        connection.execute(
            f"CREATE TABLE {place}.allowed (value TEXT PRIMARY KEY, updated_at TIMESTAMP DEFAULT now())".encode()
        )
        connection.execute(f"INSERT INTO {place}.allowed VALUES ('tea'), ('jam')".encode())


def is_complete(run: Run, dsn: str, owners: dict[int, tuple[str, int]]) -> bool:
    """Whether every source has been read to its end."""
    if not run.has_rows(dsn, TABLES):
        return False
    found = {id: (owner, cents) for id, owner, cents in run.table(dsn, "owners", COLUMNS["owners"])}
    return found == owners and len(run.written()) == 100 and len(run.hooked()) == 200


@pytest.mark.parametrize("table", TABLES)
def test_tables_are_the_same(matrix: Matrix, table: str) -> None:
    here, there = matrix.tables(table)
    assert len(here) == TABLES[table]
    assert there == here


def test_changes_of_a_topic_end_as_the_same_table(matrix: Matrix) -> None:
    here, there = matrix.tables("owners")
    assert len(here) > 50
    assert there == here


@pytest.mark.parametrize(("table", "columns"), [("owners", "id, owner, cents"), ("minted", "id, supply, triple")])
def test_clickhouse_has_the_same_rows_as_postgres(matrix: Matrix, table: str, columns: str) -> None:
    wanted = sorted(matrix.local.table(matrix.dsn, table, columns))
    for place in (LOCAL, CLUSTER):
        texts = ", ".join(f"toString({column}) AS {column}" for column in columns.split(", "))
        rows = matrix.clickhouse.rows(
            f"SELECT {texts} FROM {place}_{table} AS {table} FINAL ORDER BY toInt64({table}.id)"
        )
        assert [tuple(row.values()) for row in rows] == [tuple(map(str, row)) for row in wanted], place


def test_the_print_sink_prints_the_same_rows(matrix: Matrix) -> None:
    here = matrix.local.printed()
    assert len(here) == 5
    assert matrix.cluster.printed() == here


def test_topics_hold_the_same_messages(matrix: Matrix) -> None:
    here = matrix.local.json_topic(matrix.brokers, f"{LOCAL}-json")
    assert len(here) == 180
    assert matrix.cluster.json_topic(matrix.brokers, f"{CLUSTER}-json") == here
    here = matrix.local.avro_topic(matrix.accounts, f"{LOCAL}-avro")
    assert len(here) == 200
    assert matrix.cluster.avro_topic(matrix.accounts, f"{CLUSTER}-avro") == here
    here = matrix.local.avro_topic(matrix.accounts, f"{LOCAL}-owners")
    assert len(here) == 80
    assert matrix.cluster.avro_topic(matrix.accounts, f"{CLUSTER}-owners") == here


def test_webhook_and_plugin_sink_get_the_same_rows(matrix: Matrix) -> None:
    assert len(matrix.local.hooked()) == 200
    assert matrix.cluster.hooked() == matrix.local.hooked()
    assert len(matrix.local.written()) == 100
    assert matrix.cluster.written() == matrix.local.written()


def test_a_side_output_sees_the_same_rows(matrix: Matrix) -> None:
    assert matrix.local.seen() == list(range(100))
    assert matrix.cluster.seen() == matrix.local.seen()


def test_operators_of_a_plugin_file_run_on_the_executors(matrix: Matrix) -> None:
    assert matrix.local.workers() == {matrix.local.driver}
    # how many of them get a task is up to Spark
    assert matrix.cluster.workers()
    assert matrix.cluster.driver not in matrix.cluster.workers()


def test_metrics_count_the_same_rows(matrix: Matrix) -> None:
    names = ("streamling_input_rows_total", "streamling_output_rows_total", "streamling_squared_total")
    here = matrix.local.counted(*names)
    assert here["streamling_squared_total squares"] == here["streamling_output_rows_total squares"] == 100
    assert len(here) > 50
    assert matrix.cluster.counted(*names) == here
