"""What many idle pipelines of one process cost: threads, clients, and work while nothing happens."""

from __future__ import annotations

import json
import threading
from collections import Counter
from typing import Any

import pytest

from streamling.connectors.kafka.admin import KafkaAdmin
from streamling.connectors.kafka.config import KafkaSourceSettings
from streamling.dev.services.topics import Message, create_topic, produce
from streamling.engine.run.run import PipelineRun
from streamling.engine.state.memory import MemoryState
from streamling.pipeline.config import AppConfig
from streamling.plugins.shared import SharedResources
from streamling.tasks import running_tasks
from tests.harness.pipelines import eventually, finish, start_run

pytestmark = [pytest.mark.spark, pytest.mark.services]

PIPELINES = 4
#: seconds
SOON = 180


class CountingState(MemoryState):
    """Counts all accesses."""

    calls = 0

    def get(self, key: str) -> Any:
        self.calls += 1
        return super().get(key)

    def get_prefix(self, prefix: str) -> dict[str, Any]:
        self.calls += 1
        return super().get_prefix(prefix)

    def put_many(self, entries: Any) -> None:
        self.calls += 1
        super().put_many(entries)


def java_threads(spark: Any) -> Counter[str]:
    """The kinds of threads in the JVM that pipelines or their clients start."""
    threads = spark._jvm.java.lang.Thread.getAllStackTraces().keySet().toArray()
    names = Counter(thread.getName().split("|")[0].split("-")[0].strip() for thread in threads)
    return Counter({name: count for name, count in names.items() if name.startswith(("kafka", "Thread"))})


def started(spark: Any, brokers: str, topic: str, shared: SharedResources) -> tuple[PipelineRun, CountingState]:
    text = {
        "sources": {
            "rows": {
                "type": "kafka",
                "topic": topic,
                "data_format": "json",
                "schema": {"id": "int64"},
                "primary_key": "id",
            }
        },
        "transforms": {"shaped": {"type": "sql", "primary_key": "id", "sql": "SELECT id FROM rows"}},
        "sinks": {"out": {"type": "memory", "from": "shaped"}},
    }
    source = KafkaSourceSettings(brokers=brokers, lag_report_interval_ms=500)
    config = AppConfig(application_id=topic, checkpoint_interval_sec=0.1, kafka_source=source)
    state = CountingState()
    return start_run(json.dumps(text), spark=spark, config=config, state=state, shared=shared), state


def test_an_idle_pipeline_has_no_thread_and_does_nothing(spark, kafka) -> None:
    shared, topics = SharedResources(), [f"idle-{number}" for number in range(PIPELINES)]
    for topic in topics:
        create_topic(kafka.brokers, topic)
        produce(kafka.brokers, topic, [Message(b'{"id": 1}')])
    admin = KafkaAdmin(spark, {"bootstrap.servers": kafka.brokers})
    python, java = set(threading.enumerate()), java_threads(spark)
    runs = [started(spark, kafka.brokers, topic, shared) for topic in topics]
    try:
        # stored, reported and joined: everything that a pipeline ever does has been done
        stored = dict(zip(topics, (state for _, state in runs), strict=True))
        eventually(lambda: all(state.get(f"rows:{topic}:0") for topic, state in stored.items()), SOON)
        eventually(lambda: all(run.status().lag == 0 for run, _ in runs), SOON)
        eventually(lambda: all(admin.members(f"{topic}-rows", topic) for topic in topics), SOON)
        assert all(run.checkpoint(SOON) for run, _ in runs)  # nothing new: the last one
        tasks = [task.name for task in running_tasks()]
        assert len(tasks) == 3 * PIPELINES  # a flow, a lane, the checkpoints
        # a thread of a task ends when it has had none for some time; the others serve all pipelines
        eventually(lambda: not {thread.name for thread in threading.enumerate()} & {*tasks, "task"}, SOON)
        own = Counter(thread.name.split(" ")[0] for thread in threading.enumerate() if thread not in python)
        assert sum(own.values()) < 2 * PIPELINES, own
        # each has the heartbeat of its membership
        assert (java_threads(spark) - java)["kafka"] <= PIPELINES + 3
        epochs, calls = [run.epoch for run, _ in runs], [state.calls for _, state in runs]
        assert not threading.Event().wait(1)  # ten intervals
        assert [run.epoch for run, _ in runs] == epochs
        assert [state.calls for _, state in runs] == calls
    finally:
        admin.close()
        for run, _ in runs:
            run.stop("the test wants it")
        for run, _ in runs:
            finish(run)
    names = ("kafka lag", "lone members")
    eventually(lambda: not [thread for thread in threading.enumerate() if thread.name in names])
