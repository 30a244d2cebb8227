"""The example runs as its page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from streamling.connectors.kafka.config import KafkaSourceSettings
from streamling.dev.services.jsonlines import messages
from streamling.dev.services.topics import create_topic, produce
from tests.connectors.clickhouse.driver import Database
from tests.harness.pipelines import Bench, eventually, finish

pytestmark = [pytest.mark.spark, pytest.mark.services]

FOLDER = Path(__file__).parents[3] / "examples" / "kafka-to-clickhouse"
QUERY = "SELECT id, market, toString(price), toString(volume), toString(traded_at, 'UTC') FROM trades FINAL ORDER BY id"


def test_the_example_shows_the_rows_of_its_page(spark, kafka, registry, database: Database) -> None:
    create_topic(kafka.brokers, topic := "trades_of_the_example")
    bench = Bench(spark)
    text = (FOLDER / "pipeline.yaml").read_text().replace("topic: trades", f"topic: {topic}")
    source = KafkaSourceSettings(brokers=kafka.brokers, schema_registry_url=registry.url)
    settings = {"kafka_source": source, "clickhouse_sink": database.settings}
    run = bench.start(text, **settings)
    try:
        send(kafka.brokers, topic, "trades.jsonl")
        page = (FOLDER / "README.md").read_text()
        shown = [tuple(line.split("\t")) for line in re.findall(r"^\d+\t.*$", page, re.MULTILINE)]
        expected = [(int(row[0]), *row[1:]) for row in shown]
        assert len(expected) == 3
        eventually(lambda: run.failure or rows(database) == expected, 60)
        send(kafka.brokers, topic, "changes.jsonl")
        eventually(lambda: run.failure or [row[0] for row in rows(database)] == [1, 2, 5], 60)
        assert rows(database)[1][3] == "30000000"
    finally:
        run.stop("the test has what it wants")
        finish(run)


def send(brokers: str, topic: str, file: str) -> None:
    produce(brokers, topic, list(messages((FOLDER / file).read_text().splitlines(), source=file, key=("id",))))


def rows(database: Database) -> list[tuple[object, ...]]:
    return database.rows(QUERY) if database.types("trades") else []
