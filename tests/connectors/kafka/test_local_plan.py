"""Plans over messages that the driver evaluates: the rows are those of a Spark job, and each batch has its own time."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from streamling.connectors.kafka.local_plan import MessagePlan, message_template
from streamling.connectors.kafka.reader import Taken
from streamling.dev.services.topics import Message, create_topic, produce
from streamling.plugins.streams import LocalStep, NeedsJob
from streamling.spark.counting import row_count
from tests.harness.buffers import WaitingBuffer
from tests.harness.pipelines import eventually

pytestmark = [pytest.mark.spark, pytest.mark.services]

_numbers = itertools.count(1)


class TopicMessages:
    """A topic, its messages as the driver has them and as Spark reads them."""

    def __init__(self, spark, kafka) -> None:
        self.spark = spark
        self._kafka = kafka
        self.topic = f"evaluated-{next(_numbers)}"
        create_topic(kafka.brokers, self.topic)
        settings = {"bootstrap.servers": kafka.brokers}
        self.buffer = WaitingBuffer(spark, settings, "read_committed", self.topic, {0: 0}, is_whole=True)

    def messages(self, *values: str) -> Any:
        """New messages."""
        return self.take(*values).messages

    def take(self, *values: str) -> Taken:
        headers = (("dbz.op", b"u"),)
        produce(self._kafka.brokers, self.topic, [Message(value.encode(), b"key", headers) for value in values])
        taken = self.buffer.take(20, len(values), 100)
        assert taken is not None
        return taken

    def plan(self, *steps: tuple[str, ...]) -> MessagePlan:
        """A plan of projections (several expressions) and filters (one)."""
        frame = message_template(self.spark, headers=True)
        for step in steps:
            frame = frame.where(*step) if len(step) == 1 else frame.selectExpr(*step)
        return _plan(frame)

    def rows(self, plan: MessagePlan, *values: str) -> list[dict[str, Any]]:
        return plan.to_arrow(self.messages(*values)).to_pylist()

    def read_by_spark(self) -> Any:
        options = {"kafka.bootstrap.servers": self._kafka.brokers, "subscribe": self.topic, "includeHeaders": "true"}
        return self.spark.read.format("kafka").options(**options).load()


def _plan(frame: Any) -> MessagePlan:
    plan = MessagePlan.of(frame, headers=True)
    assert isinstance(plan, MessagePlan)
    return plan


@pytest.fixture
def topic(spark, kafka) -> Iterator[TopicMessages]:
    made = TopicMessages(spark, kafka)
    yield made
    made.buffer.close()


def test_all_columns_of_a_message_are_those_that_spark_reads(topic: TopicMessages) -> None:
    plan = _plan(message_template(topic.spark, headers=True))
    found = plan.to_arrow(topic.messages("one", "two"))
    wanted = topic.read_by_spark().toArrow()
    assert found.schema.equals(wanted.schema, check_metadata=True)
    assert pa.Table.from_batches([found]).to_pylist() == wanted.to_pylist()


def test_types_are_those_of_a_spark_job(topic: TopicMessages) -> None:
    text = "CAST(value AS STRING)"
    expressions = (
        f"CAST({text} AS TINYINT) AS a",
        f"CAST({text} AS DECIMAL(20, 4)) AS b",
        f"timestamp_millis(CAST({text} AS BIGINT)) AS c",
        f"CAST(timestamp_millis(CAST({text} AS BIGINT)) AS TIMESTAMP_NTZ) AS d",
        f"date_add(DATE'2020-01-01', CAST({text} AS INT)) AS e",
        f"array({text}, NULL) AS f",
        f"map({text}, 1.5D) AS g",
        f"named_struct('x', {text}, 'y', array(1, 2)) AS h",
        f"{text} = '7' AS i",
        "value AS j",
        f"make_dt_interval(0, 0, 0, CAST({text} AS INT)) AS k",
    )
    plan = topic.plan(expressions)
    found = plan.to_arrow(topic.messages("7", "100"))
    wanted = topic.read_by_spark().selectExpr(*expressions).toArrow()
    assert found.schema.equals(wanted.schema, check_metadata=True)
    assert pa.Table.from_batches([found]).to_pylist() == wanted.to_pylist()


def test_filters_and_projections_follow_each_other(topic: TopicMessages) -> None:
    plan = topic.plan(
        ("CAST(value AS STRING) AS text", "offset"), ("length(text) > 1",), ("upper(text) AS text", "offset")
    )
    assert topic.rows(plan, "a", "bb", "ccc") == [{"text": "BB", "offset": 1}, {"text": "CCC", "offset": 2}]
    assert topic.rows(plan, "d") == []


def test_lists_become_rows(topic: TopicMessages) -> None:
    items = "from_json(CAST(value AS STRING), 'array<int>')"
    plan = topic.plan((f"explode({items}) AS item", "offset"))
    assert topic.rows(plan, "[1, 2]", "[]", "[3]") == [
        {"item": 1, "offset": 0},
        {"item": 2, "offset": 0},
        {"item": 3, "offset": 2},
    ]
    outer = topic.plan((f"posexplode_outer({items})", "offset"))
    assert topic.rows(outer, "[]") == [{"pos": None, "col": None, "offset": 3}]


def test_the_current_time_is_that_of_the_batch(topic: TopicMessages) -> None:
    plan = topic.plan(("now() AS a", "current_date() AS b", "localtimestamp() AS c", "unix_timestamp() AS d"))
    first, twin = topic.rows(plan, "1", "2")
    assert first == twin
    time.sleep(1.1)  # the difference is what the test is about
    before = datetime.now(UTC)
    (later,) = topic.rows(plan, "3")
    assert first["a"] < before <= later["a"] <= datetime.now(UTC)
    assert later["b"] == later["a"].date()
    assert later["c"] == later["a"].replace(tzinfo=None)
    assert later["d"] == int(later["a"].timestamp()) > first["d"]


def test_a_condition_on_the_current_time_is_evaluated_for_each_batch(topic: TopicMessages) -> None:
    plan = topic.plan(("CAST(CAST(value AS STRING) AS TIMESTAMP) AS at", "offset"), ("at <= now()",))
    soon = datetime.fromtimestamp(time.time() + 2, UTC).isoformat()
    assert topic.rows(plan, soon) == []
    eventually(lambda: topic.rows(plan, soon))


def test_random_values_do_not_repeat(topic: TopicMessages) -> None:
    plan = topic.plan(("rand() AS a", "uuid() AS b"))
    rows = [row for _ in range(3) for row in topic.rows(plan, "1", "2")]
    assert len({row["a"] for row in rows}) == len({row["b"] for row in rows}) == 6


def test_counters_count_the_rows_since_the_last_result(topic: TopicMessages) -> None:
    frame = message_template(topic.spark, headers=True).observe("all", row_count())
    frame = frame.where("length(value) > 1").observe("long", row_count())
    topic.buffer.run([LocalStep(_plan(frame))])
    assert dict(topic.take("a", "bb", "ccc").results[0].observed) == {"all": [3], "long": [2]}
    assert dict(topic.take("d").results[0].observed) == {"all": [1], "long": [0]}


def test_a_plan_that_needs_a_job_is_refused(topic: TopicMessages) -> None:
    from pyspark.sql import functions as f

    template = message_template(topic.spark, headers=True)
    python = f.udf(lambda value: len(value), "int", useArrow=False)
    for frame, reason in (
        (template.select(python("value")), "it uses <lambda>, computed in Python"),
        (template.groupBy("partition").count(), "its plan contains the operator HashAggregate"),
        (template.union(template), "its plan contains the operator Union"),
        (template.repartition(2), "its rows are distributed to several tasks"),
        (template.where("offset = (SELECT max(id) FROM range(3))"), "it contains a subquery"),
        (
            template.selectExpr("current_time() AS t"),
            "it calls a function of the current time other than now() and current_date",
        ),
    ):
        plan = MessagePlan.of(frame, headers=True)
        assert isinstance(plan, NeedsJob)
        assert plan.reason == reason


def test_an_error_of_an_expression_has_its_text(topic: TopicMessages) -> None:
    plan = topic.plan(("raise_error(CAST(value AS STRING)) AS x", "offset"))
    with pytest.raises(Exception, match="this is wrong"):
        plan.to_arrow(topic.messages("this is wrong"))
    with pytest.raises(Exception, match="so is this"):
        plan.to_arrow(topic.messages("so is this"))


def test_json_messages_of_the_source_are_decoded_here(topic: TopicMessages) -> None:
    from pyspark.sql import functions as f

    from streamling.connectors.kafka.decode.json_decoder import decode_message, field_name

    decoded = decode_message(f.col("value"), [pa.field("id", pa.int64())])
    frame = message_template(topic.spark, headers=True).select(decoded.alias("row"))
    plan = _plan(frame.selectExpr(f"row.{field_name(0)} AS id"))
    assert topic.rows(plan, json.dumps({"id": 12})) == [{"id": 12}]
