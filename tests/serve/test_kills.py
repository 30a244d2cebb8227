"""Kafka → Postgres pipelines, some of which read the same topic, under load and racing API calls, while the server is
killed with -9 again and again.

At the end every table is what its topic says, and every pipeline is in its desired state.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import threading
from contextlib import ExitStack

import psycopg
import pytest

from streamling.dev.services.topics import Message, consume, create_topic, produce
from tests.recovery.load import Load
from tests.serve.server import Client, ServeProcess

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.slow]

#: enough for every run of the suite; `make soak` kills as often as for a release
KILLS = int(os.environ.get("STREAMLING_TEST_SERVE_KILLS", "1"))
PIPELINES = int(os.environ.get("STREAMLING_TEST_SERVE_PIPELINES", "3"))
SEED = int(os.environ.get("STREAMLING_TEST_SEED", "20261117"))
SIZES = ("xs", "s", "m", "l", "xl")
#: when to kill the server: seconds after its start
EARLIEST, LATEST = 0.5, 8.0


class Pipeline:
    """The last value of each key of a topic becomes a row of a table. Half of the pipelines share their topics: each of
    them has every second key."""

    def __init__(self, number: int, brokers: str, dsn: str) -> None:
        self.name = f"serve-kills-{number}"
        self.path = f"/pipelines/default/{self.name}"
        self._topic = f"serve-kills-{number - number % 2 if number % 4 < 2 else number}"
        self._condition = f"id % 2 = {number % 2}" if number % 4 < 2 else "true"
        self._brokers = brokers
        self._dsn = dsn
        if self._topic == self.name:
            create_topic(brokers, self._topic, partitions=1)

    def body(self, size: str = "m") -> dict[str, str]:
        """The size is also in the definition: a change is applied as a whole or not at all."""
        definition = f"""
sources:
  numbers:
    type: kafka
    topic: {self._topic}
    data_format: json
    primary_key: id
    schema: {{id: int64, value: int64}}
transforms:
  doubled: {{type: sql, primary_key: id, sql: "SELECT id, value * 2 AS value FROM numbers WHERE {self._condition}"}}
sinks:
  table: {{type: postgres, from: doubled, schema: serve_kills, table: "{self.name}"}}
# size {size}
"""
        return {"definition": definition, "size": size}

    def produce(self, chance: random.Random) -> None:
        rows = [{"id": chance.randrange(50), "value": chance.randrange(10**9)} for _ in range(chance.randrange(1, 50))]
        produce(self._brokers, self._topic, [Message(json.dumps(row).encode()) for row in rows])

    def expected(self) -> dict[int, int]:
        rows = (json.loads(message.value or b"") for message in consume(self._brokers, self._topic))
        return {row["id"]: row["value"] * 2 for row in rows if self._has(row["id"])}

    def _has(self, id: int) -> bool:
        return self._condition == "true" or f"id % 2 = {id % 2}" == self._condition

    def stored(self) -> dict[int, int]:
        with psycopg.connect(self._dsn) as connection:
            try:
                return dict(connection.execute(f'SELECT id, value FROM serve_kills."{self.name}"'.encode()).fetchall())
            except psycopg.errors.UndefinedTable:
                return {}


class Records(Load):
    """Records for all topics."""

    def __init__(self, pipelines: list[Pipeline], chance: random.Random) -> None:
        super().__init__()
        self._pipelines = pipelines
        self._chance = chance

    def produce_some(self) -> None:
        for pipeline in self._pipelines:
            pipeline.produce(self._chance)


class Calls(Load):
    """Calls of the API; some of them meet a server that has just been killed."""

    def __init__(self, server: ServeProcess, pipelines: list[Pipeline], chance: random.Random) -> None:
        super().__init__()
        self._server = server
        self._pipelines = pipelines
        self._chance = chance
        self.statuses: set[int] = set()

    def produce_some(self) -> None:
        client, pipeline = Client(self._server.address), self._chance.choice(self._pipelines)
        try:
            self.statuses.add(self._call(client, pipeline))
        except (OSError, http.client.HTTPException, json.JSONDecodeError):
            return

    def _call(self, client: Client, pipeline: Pipeline) -> int:
        action = self._chance.choice(["pause", "resume", "resume", "restart", "put", "put", "delete"])
        if action == "delete":
            state = self._chance.choice(["keep", "delete"])
            return client.request("DELETE", f"{pipeline.path}?state={state}").status
        if action != "put":
            return client.post(f"{pipeline.path}/{action}").status
        etag = client.get(pipeline.path).headers.get("ETag")
        condition = {"If-Match": etag} if etag else {"If-None-Match": "*"}
        return client.request("PUT", pipeline.path, pipeline.body(self._chance.choice(SIZES)), headers=condition).status


def test_everything_is_as_desired_after_many_kills(tmp_path, kafka, postgres):
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    with psycopg.connect(postgres.dsn) as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS serve_kills")
    pipelines = [Pipeline(number, kafka.brokers, postgres.dsn) for number in range(PIPELINES)]
    variables = {
        **kafka.variables(),
        **postgres.variables(),
        "STREAMLING__STATE_BACKEND__BACKEND_TYPE": "Postgres",
        "STREAMLING__STATE_BACKEND__POSTGRES__STATE_SCHEMA_NAME": "serve_kills_state",
        "STREAMLING__CHECKPOINT_INTERVAL_SEC": "0.5",
    }
    server = ServeProcess(tmp_path, variables)
    calls = Calls(server, pipelines, random.Random(SEED + 1))
    try:
        client = server.start()
        for pipeline in pipelines:
            assert client.create(pipeline.name, **pipeline.body()).status == 201
        with ExitStack() as loads:
            loads.enter_context(Records(pipelines, random.Random(SEED + 2)))
            server.eventually(lambda: all(pipeline.stored() for pipeline in pipelines))
            loads.enter_context(calls)
            for _ in range(KILLS):
                threading.Event().wait(chance.uniform(EARLIEST, LATEST))
                server.kill()
                client = server.start()
        server.eventually(lambda: all(is_settled(client, pipeline) for pipeline in pipelines))
        for pipeline in pipelines:
            found = client.pipeline(pipeline.name)
            assert client.state(pipeline.name) == "absent" or f"# size {found['size']}\n" in found["definition"]
            bring_back(client, pipeline)
        server.eventually(lambda: all(pipeline.stored() == pipeline.expected() for pipeline in pipelines), 180)
        assert {client.state(pipeline.name) for pipeline in pipelines} == {"running"}
        assert calls.statuses <= {200, 201, 202, 404, 409, 412}
        assert server.terminate() == 0, server.log()[-3000:]
    finally:
        server.kill()


def is_settled(client: Client, pipeline: Pipeline) -> bool:
    """Whether the pipeline is where it should be."""
    found = client.pipeline(pipeline.name)
    return "error" in found and found.get("state") in (None, found.get("desired"))


def bring_back(client: Client, pipeline: Pipeline) -> None:
    if client.state(pipeline.name) == "absent":
        assert client.create(pipeline.name, **pipeline.body()).status == 201
    else:
        assert client.post(f"{pipeline.path}/resume").status == 202
