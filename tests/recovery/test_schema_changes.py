"""Change streams whose schema grows at any moment of the start or the run: the table equals the model.

Two scenarios by default; ``STREAMLING_TEST_CDC_SCENARIOS=50`` runs as many as a release needs. The moment of the first
change is a question to the schema registry: a proxy in front of it lets the change happen right before it is answered.
"""

from __future__ import annotations

import json
import os
import random
import threading
from typing import Any

import pytest

from streamling.connectors.kafka.config import KafkaSourceSettings
from streamling.dev.services.topics import Message
from tests.connectors.kafka.source_driver import Topic, framed, record
from tests.flagship.bench import Flagship
from tests.fuzz.budget import FIRST_SEED
from tests.harness.endpoint import Reply, Request, endpoint
from tests.harness.pipelines import finish
from tests.harness.proxy import watched

pytestmark = [pytest.mark.spark, pytest.mark.services]

SCENARIOS = int(os.environ.get("STREAMLING_TEST_CDC_SCENARIOS", "2"))
#: what stands between the topic and the table
CHAINS = (
    ("script", "handler"),
    ("script", "sql"),
    (),
    ("sql",),
    ("script",),
    ("handler",),
    ("handler", "sql", "script"),
    ("sql", "script", "sql"),
)
KEYS = 12


class Stream:
    """Writes changes, remembers what the table has to hold, and changes the schema."""

    def __init__(self, topic: Topic, chance: random.Random) -> None:
        self._topic = topic
        self._chance = chance
        self._lock = threading.RLock()
        self._numbers = 0
        self.columns = ["v0"]
        self.rows: dict[int, dict[str, Any]] = {}
        self.write(20)

    @property
    def _schema(self) -> Any:
        return record("id", *((name, ["null", "string"], None) for name in self.columns))

    def write(self, count: int) -> None:
        with self._lock:
            id = self._topic.register(self._schema)
            self._topic.send(*(self._message(id) for _ in range(count)))

    def grow(self) -> None:
        """Another column, and rows that have it."""
        with self._lock:
            self.columns.append(f"v{len(self.columns)}")
            self.write(10)

    def _message(self, id: int) -> Message:
        key, op = self._chance.randrange(KEYS), self._chance.choice("cuud")
        self._numbers += 1
        row = {name: f"{name}-{self._numbers}" for name in self.columns}
        if op == "d":
            self.rows.pop(key, None)
        else:
            self.rows[key] = row
        value = framed(id, self._schema, {"id": key, **row})
        return Message(value, key=str(key).encode(), headers=(("dbz.op", op.encode()),))


def echo(request: Request) -> Reply:
    return Reply.of(request.json)


@pytest.mark.parametrize("number", range(SCENARIOS))
def test_the_table_equals_the_model(spark, kafka, registry, postgres, number: int) -> None:
    chance = random.Random(FIRST_SEED + number)
    moment, chain = chance.randrange(1, 5), CHAINS[number % len(CHAINS)]
    # scripts hand over anything from single rows to all that wait
    together = chance.choice((1, 2, 7, 100, 1000))
    print(
        f"seed {FIRST_SEED + number}: the schema changes at question {moment}; chain {chain}, {together} rows at once"
    )
    flagship = Flagship(spark, kafka, registry, postgres)
    topic = flagship.topic()
    stream, changed = Stream(topic, chance), threading.Event()

    def change(question: int) -> None:
        if question >= moment and not changed.is_set():
            changed.set()
            stream.grow()

    with watched(registry.url, change) as url, endpoint(echo) as handler:
        services = {"brokers": kafka.brokers, "schema_registry_url": url}
        config = {**flagship.config(), "kafka_source": KafkaSourceSettings(**services)}
        run = flagship.start(pipeline(flagship, topic, chain, handler.url, together), **config)
        try:
            change(moment)  # a start that asks less often is over
            for _ in range(chance.randrange(1, 4)):
                flagship.committed(run, topic)
                stream.grow()
                stream.write(chance.randrange(1, 20))
            flagship.committed(run, topic)
        finally:
            run.stop("the test has what it wants")
            finish(run)
    columns = sorted(stream.columns)
    found = {id: dict(zip(columns, values, strict=True)) for id, *values in table(flagship, columns)}
    assert found == {id: {name: row.get(name) for name in columns} for id, row in stream.rows.items()}


def pipeline(flagship: Flagship, topic: Topic, chain: tuple[str, ...], url: str, together: int) -> str:
    nodes: dict[str, Any] = {}
    upstream = "rows"
    for number, type_ in enumerate(chain):
        nodes[f"{type_}_{number}"] = {"type": type_, "primary_key": "id", **_options(type_, upstream, url, together)}
        upstream = f"{type_}_{number}"
    sink = {"type": "postgres", "from": upstream, "schema": flagship.pg.schema, "table": "t", "evolve": "add_columns"}
    source = {"type": "kafka", "topic": topic.name, "primary_key": "id"}
    return json.dumps({"sources": {"rows": source}, "transforms": nodes, "sinks": {"out": sink}})


def _options(type_: str, upstream: str, url: str, together: int) -> dict[str, Any]:
    if type_ == "sql":
        return {"sql": f"SELECT * FROM {upstream}"}
    if type_ == "script":
        script = "function process(row) { return row; }"
        return {"from": upstream, "language": "js", "script": script, "batch_size": together}
    return {"from": upstream, "url": url}


def table(flagship: Flagship, columns: list[str]) -> list[tuple[Any, ...]]:
    return flagship.table("t", ", ".join(["id", *columns]))
