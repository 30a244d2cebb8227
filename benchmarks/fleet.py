"""Fleet: many pipelines in one process.

What they cost while idle, how soon a new one delivers, and their latency with and without a large backlog beside them.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import quantiles

from benchmarks.figures import Figure, Goal, Unit
from benchmarks.records import COLUMNS
from benchmarks.served import Served, served
from benchmarks.sizes import Sizes
from benchmarks.usage import usage
from benchmarks.workbench import Scenario
from streamling.dev.services.extra import require
from streamling.dev.services.topics import Message, create_topic, produce
from streamling.errors import StreamlingError

_MEMORY_GOAL = Goal(bound=2500.0)
_CPU_GOAL = Goal(bound=25.0)
_DEPLOY_GOAL = Goal(bound=0.5)
_BACKFILL_GOAL = Goal(ratio=2.0)
#: records per second and pipeline
_RATE = 10
#: After its start, a pipeline joins its consumer group: 500 of them have done so, and checked their groups, after this
#: many times the seconds in which a single one settles.
_JOINING = 6
#: the longest wait for the last records
_LAST_SECONDS = 120.0

_PIPELINE = """
sources:
  records: {{type: kafka, topic: {topic}, data_format: json, schema: {{id: int64, sent: double}}, primary_key: id}}
transforms:
  shaped: {{type: sql, primary_key: id, sql: "SELECT id, sent, '{topic}' AS topic FROM records"}}
sinks:
  screen: {{type: print, from: shaped}}
"""
_BACKFILL = """
sources:
  changes: {{type: kafka, topic: {topic}, primary_key: id}}
transforms:
  shaped: {{type: sql, primary_key: id, sql: "SELECT {columns} FROM changes"}}
sinks:
  nowhere: {{type: blackhole, from: shaped}}
"""


class Fleet(Scenario):
    """All pipelines read topics of their own: JSON → SQL → print."""

    title = "fleet"
    needs_services = True
    needs_proc = True

    @staticmethod
    def steps(sizes: Sizes, has_pyspark: bool) -> int:
        return 7

    def figures(self) -> list[Figure]:
        bench, sizes = self._bench, self._bench.sizes
        bench.step("fleet: a topic for the backfill")
        backlog = bench.topic(sizes.records)
        bench.step("fleet: a topic for each pipeline")
        brokers = bench.services_env["STREAMLING__KAFKA_SOURCE__BROKERS"]
        topics = [f"fleet-{number}" for number in range(sizes.fleet_pipelines)]
        for topic in topics:
            create_topic(brokers, topic)
        with served(bench.place("fleet"), bench.services_env) as server:
            bench.step(f"fleet: {len(topics)} idle pipelines")
            for topic in topics:
                server.create(topic, _PIPELINE.format(topic=topic))
            server.wait_until_ready()
            cpu, memory = self._idle(server)
            bench.step("fleet: new pipelines")
            deployed = [self._deploy(server, brokers, number) for number in range(sizes.fleet_deploys)]
            active = topics[: sizes.fleet_active]
            bench.step("fleet: warm-up")
            self._latencies(server, brokers, active)
            bench.step("fleet: records for many pipelines")
            alone = self._latencies(server, brokers, active)
            bench.step("fleet: the same beside a backfill")
            with self._backfill(server, backlog):
                beside = self._latencies(server, brokers, active)
        idle = f"{len(topics)} idle pipelines"
        busy = f"{len(active)} pipelines at {_RATE} records/s"
        return [
            Figure(self.title, f"{idle}, JVM + Python", Unit.MEGABYTES, [memory], goal=_MEMORY_GOAL),
            Figure(self.title, idle, Unit.CORE, [cpu], goal=_CPU_GOAL),
            Figure(self.title, "new pipeline, to its first row", Unit.SECONDS, deployed, goal=_DEPLOY_GOAL),
            Figure(self.title, f"{busy}, median latency", Unit.MILLISECONDS, [_percentile(alone, 50)]),
            Figure(self.title, f"{busy}, p95 latency", Unit.MILLISECONDS, [_percentile(alone, 95)]),
            Figure(
                self.title,
                f"{busy}, p95 latency beside a backfill",
                Unit.MILLISECONDS,
                [_percentile(beside, 95)],
                [_percentile(alone, 95)],
                compared_with="without the backfill",
                goal=_BACKFILL_GOAL,
            ),
        ]

    def _idle(self, server: Served) -> tuple[float, float]:
        """Return per cent of a core, and megabytes."""
        sizes = self._bench.sizes
        time.sleep(sizes.settle_seconds * _JOINING)
        before, began = usage(server.pid), time.monotonic()
        time.sleep(sizes.idle_seconds)
        after, seconds = usage(server.pid), time.monotonic() - began
        return (after.cpu_seconds - before.cpu_seconds) / seconds * 100, after.memory_mb

    def _deploy(self, server: Served, brokers: str, number: int) -> float:
        """Return the seconds from the request that creates a pipeline to its first row."""
        topic = f"fleet-new-{number}"
        create_topic(brokers, topic)
        produce(brokers, topic, [Message(json.dumps({"id": 1, "sent": 0.0}).encode())])
        before = len(server.arrivals)
        began = time.time()
        server.create(topic, _PIPELINE.format(topic=topic))
        server.wait(lambda: len(server.arrivals) > before)
        elapsed = server.arrivals[before].at - began
        server.delete(topic)
        return elapsed

    def _latencies(self, server: Served, brokers: str, topics: list[str]) -> list[float]:
        """Return the milliseconds from sending to printing of all records; raises if one is missing."""
        before = len(server.arrivals)
        sent = _send(brokers, topics, self._bench.sizes.fleet_seconds)
        deadline = time.monotonic() + _LAST_SECONDS
        while len({_key(one.row) for one in server.arrivals[before:]}) < sent:
            if time.monotonic() > deadline:
                raise StreamlingError(f"{sent} records were sent, {len(server.arrivals) - before} rows arrived")
            time.sleep(0.1)
        return [(one.at - one.row["sent"]) * 1000 for one in server.arrivals[before:]]

    @contextmanager
    def _backfill(self, server: Served, topic: str) -> Iterator[None]:
        """A large pipeline that reads a backlog again and again while the block runs."""
        done, count = threading.Event(), self._bench.sizes.records
        definition = _BACKFILL.format(topic=topic, columns=", ".join(COLUMNS))

        def run() -> None:
            for number in itertools.count():
                name = f"backfill-{number}"
                if number:
                    server.create(name, definition, "xl")
                while not done.is_set() and server.pipeline(name)["rows_in"] != count:
                    time.sleep(0.2)
                server.delete(name)
                if done.is_set():
                    return

        server.create("backfill-0", definition, "xl")
        server.wait(lambda: bool(server.pipeline("backfill-0")["rows_in"]))
        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


def _send(brokers: str, topics: list[str], seconds: float) -> int:
    """Send records to all topics at the same rate, evenly spread; returns their number."""
    producer = require("confluent_kafka").Producer({"bootstrap.servers": brokers, "linger.ms": 0})
    count, began, first = int(seconds * _RATE) * len(topics), time.monotonic(), time.time_ns()
    for number in range(count):
        due = began + number / (_RATE * len(topics))
        if (left := due - time.monotonic()) > 0:
            time.sleep(left)
        value = json.dumps({"id": first + number, "sent": time.time()})
        producer.produce(topics[number % len(topics)], value)
        producer.poll(0)
    producer.flush()
    return count


def _key(row: object) -> tuple[object, object]:
    assert isinstance(row, dict)
    return row["topic"], row["id"]


def _percentile(values: list[float], percent: int) -> float:
    return quantiles(values, n=100, method="inclusive")[percent - 1]
