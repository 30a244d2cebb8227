"""Event times and row kinds of a topic: measured before the source's filter, in the driver and in Spark jobs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamling.dev.services.topics import Message
from streamling.observe.telemetry.metrics import Distribution
from tests.connectors.kafka.source_driver import KafkaBench, Topic
from tests.engine.dataflow.test_sql_flows import pipeline
from tests.harness.pipelines import Bench, eventually

pytestmark = [pytest.mark.spark, pytest.mark.services]

JSON: dict[str, Any] = {"data_format": "json", "schema": {"id": "long", "at": "long"}, "primary_key": "id"}
TIMES = {"event_time": {"column": "at", "unit": "seconds"}}


def send(topic: Topic, *ops: str) -> None:
    """One message per operation, with rising ids and times."""
    topic.send(
        *(
            Message(json.dumps({"id": number, "at": 1000 + number}).encode(), headers=(("dbz.op", op.encode()),))
            for number, op in enumerate(ops)
        )
    )


def kinds(run: Any) -> dict[str, float]:
    run.metrics.snapshot()
    return {kind: run.metrics.value("kafka_consumer.row_kind_count", "rows", kind=kind) for kind in "iud"}


#: more messages than a batch of the driver has to be read by Spark
@pytest.mark.parametrize("batch_size", [None, 20_000], ids=["in the driver", "in Spark jobs"])
def test_rows_are_measured_before_the_filter(spark, kafka, registry, batch_size):
    bench = KafkaBench(spark, kafka, registry)
    topic = bench.topic()
    send(topic, *"ccccccuudd")
    options = {**JSON, "filter": "id < 4", "telemetry": TIMES}
    if batch_size:
        options["batch_size"] = batch_size
    run = bench.begin_text(bench.text(topic, "SELECT id FROM rows", **options), count_in_spark=True)
    rows = bench.collected(run, 4)
    assert len(rows) == 4
    eventually(lambda: kinds(run) == {"i": 6, "u": 2, "d": 2})
    lag = run.metrics.value("event_time_lag", "rows")
    assert isinstance(lag, Distribution)
    assert lag.count == 10
    assert run.metrics.value("event_time_watermark", "rows") == 1_009_000


def test_rejected_messages_are_not_measured(spark, kafka, registry):
    bench = KafkaBench(spark, kafka, registry)
    topic = bench.topic()
    topic.send(Message(b"{"), Message(b'{"id": 1, "at": 5}'))
    options = {**JSON, "telemetry": TIMES, "errors": {"to": "bad"}}
    run = bench.begin_text(bench.text(topic, **options), count_in_spark=True)
    bench.collected(run, 2)
    eventually(lambda: kinds(run) == {"i": 1, "u": 0, "d": 0})
    assert run.metrics.value("event_time_watermark", "rows") == 5000
    (rejected,) = run.observer.dead_letters.recent("rows")
    assert rejected.payload == '{"value":"{"}'


def test_kinds_are_not_counted_if_metrics_are_not_exported(spark, kafka, registry):
    bench = KafkaBench(spark, kafka, registry)
    topic = bench.topic()
    send(topic, "c")
    run = bench.begin(topic, **JSON)
    bench.collected(run, 1)
    assert kinds(run) == {"i": None, "u": None, "d": None}


def test_rows_of_a_topic_can_be_watched_above_and_below_sql(spark, kafka, registry):
    bench = KafkaBench(spark, kafka, registry)
    topic = bench.topic()
    text = bench.text(topic, "SELECT id, at * 2 AS twice FROM rows", **JSON)
    run = bench.begin_text(text.replace('"type": "memory"', '"type": "blackhole"'))
    try:
        with run.observer.live_rows.listening(["rows", "shaped"]) as listener:
            send(topic, "c", "u")
            seen: dict[str, list[dict[str, Any]]] = {}

            def both() -> bool:
                seen.update({name: batch.to_pylist() for name, batch in listener.take().items()})
                return len(seen) == 2

            eventually(both, 60)
        assert seen["rows"][0] == {"id": 0, "at": 1000, "_gs_op": "i"}
        assert seen["shaped"][0] == {"id": 0, "twice": 2000, "_gs_op": "i"}
    finally:
        run.stop("enough")
        run.wait()


def test_the_time_to_write_a_batch_is_recorded_unless_it_is_denied(spark, kafka, registry):
    bench = Bench(spark)
    text = pipeline("", "out: {type: kafka, from: numbers, topic: measured, data_format: json}")
    settings = {"kafka_sink": {"brokers": kafka.brokers}}
    run = bench.run(text, **settings)
    assert run.metrics.value("kafka_producer.msg_encode_latency", "out") is None
    bench = Bench(spark)
    run = bench.run(text, open_telemetry_metrics={"metric_deny_list": []}, **settings)
    latency = run.metrics.value("kafka_producer.msg_encode_latency", "out")
    assert isinstance(latency, Distribution)
    assert latency.count == 10
