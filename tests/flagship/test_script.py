"""Kafka → TypeScript → Postgres, all real: production code with a schema, types coerced, checkpoints going on."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from streamling.dev.services.topics import Message
from tests.connectors.kafka.source_driver import Topic, framed, record
from tests.flagship.bench import Flagship, Sinks
from tests.transforms.script.test_transform import PRODUCTION, PRODUCTION_SCHEMA, transfers

pytestmark = [pytest.mark.spark, pytest.mark.services]

_TRANSFER = record(
    ("id", "string"),
    ("from_address", "string"),
    ("to_address", ["null", "string"], None),
    ("value", "string"),
    ("block_timestamp", "long"),
)


class Scripted(Flagship):
    """With a script between the topic and the sink."""

    script: Mapping[str, Any]

    def text(self, topic: Topic, sinks: Sinks, source: Mapping[str, Any]) -> str:
        nodes = json.loads(super().text(topic, sinks, source))
        nodes["transforms"]["scripted"] = {"type": "script", "from": "rows", "language": "ts", **self.script}
        for sink in nodes["sinks"].values():
            sink["from"] = "scripted"
        return json.dumps(nodes)


@pytest.fixture
def flagship(spark, kafka, registry, postgres) -> Scripted:
    return Scripted(spark, kafka, registry, postgres)


@pytest.mark.parametrize("batch_size", [0, 100])
def test_production_typescript_ends_in_a_table_with_the_declared_types(flagship: Scripted, batch_size: int) -> None:
    topic = flagship.topic()
    id = topic.register(_TRANSFER)
    rows = transfers(8)
    changes = [("c", row) for row in rows] + [("u", {**rows[0], "value": "2000000000000000001"}), ("d", rows[1])]
    topic.send(*(Message(framed(id, _TRANSFER, row), headers=(("dbz.op", op.encode()),)) for op, row in changes))
    flagship.script = {
        "primary_key": "transfer_id",
        "schema": PRODUCTION_SCHEMA,
        "script": PRODUCTION,
        "batch_size": batch_size,
        "parallelism": 2,
    }
    flagship.run_all(topic, {"reshaped": {}})

    columns = "transfer_id, sender, receiver, value_eth, exact, kind, timestamp, logs"
    found = flagship.table("reshaped", columns)
    assert [row[0] for row in found] == ["t0", "t2", "t3", "t4", "t5", "t6"]
    assert found[0] == (
        "t0",
        "0xabcd",
        "0x1234",
        2.0,
        Decimal("2000000000000000001"),
        "large",
        dt.datetime(2023, 11, 14, 22, 13, 20),
        0,
    )
    types = {row[0] for row in flagship.table("reshaped", "pg_typeof(exact)::text || ' ' || pg_typeof(timestamp)")}
    assert types == {"numeric timestamp without time zone"}
