"""Kafka → handler → Postgres and a webhook: changes keep their kind and order on the way over HTTP."""

from __future__ import annotations

import json
import random

import pytest

from streamling.dev.services.topics import Message
from tests.connectors.kafka.source_driver import framed, record
from tests.flagship.bench import Flagship
from tests.harness.endpoint import Reply, Request, endpoint
from tests.harness.pipelines import finish

pytestmark = [pytest.mark.spark, pytest.mark.services]

_ITEM = record(("id", "string"), ("v", ["null", "string"], None))
_KINDS = {"c": "i", "u": "u", "d": "d"}


def test_changes_pass_a_handler_in_order(spark, kafka, registry, postgres) -> None:
    chance = random.Random(7)
    print("seed 7")
    changes = [(chance.choice("cuud"), f"k{chance.randrange(12)}", str(number)) for number in range(200)]
    flagship = Flagship(spark, kafka, registry, postgres)
    topic = flagship.topic()
    id = topic.register(_ITEM)
    topic.send(
        *(
            Message(framed(id, _ITEM, {"id": key, "v": value}), headers=(("dbz.op", op.encode()),))
            for op, key, value in changes
        )
    )

    def answer(request: Request) -> Reply:
        if request.path.endswith("/hook"):
            return Reply()
        if request.number % 13 == 0:
            return Reply(503)
        row = request.json
        row["data"]["v"] = f"updated-{row['data']['v']}"
        return Reply.of(row, seconds=chance.random() / 200)

    with endpoint(answer) as server:
        nodes = {
            "sources": {"rows": {"type": "kafka", "topic": topic.name, "primary_key": "id"}},
            "transforms": {
                "asked": {
                    "type": "handler",
                    "from": "rows",
                    "primary_key": "id",
                    "url": server.url,
                    "one_row_per_request": True,
                    "payload_version": 1,
                }
            },
            "sinks": {
                "table": {"type": "postgres", "from": "asked", "schema": flagship.pg.schema, "table": "items"},
                "hook": {"type": "webhook", "from": "asked", "url": server.url + "/hook", "batch_size": 10},
            },
        }
        run = flagship.start(json.dumps(nodes), **flagship.config())
        try:
            flagship.committed(run, topic)
        finally:
            run.stop("the test has what it wants")
            finish(run)
        assert server.most_at_once > 1

    last = {key: (op, value) for op, key, value in changes}
    expected = {key: f"updated-{value}" for key, (op, value) in last.items() if op != "d"}
    assert dict(flagship.table("items")) == expected
    hooked = [row for request in server.accepted if request.path.endswith("/hook") for row in request.rows]
    for key in last:
        seen = [(row["_gs_op"], row["v"]) for row in hooked if row["id"] == key]
        assert seen == [(_KINDS[op], f"updated-{value}") for op, other, value in changes if other == key]
