"""Schemas that change, from a topic to a table: written before the pipeline begins, and while it runs."""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from streamling.engine.run.run import PipelineRun
from tests.connectors.kafka.generations import STORIES
from tests.connectors.kafka.source_driver import Topic, record
from tests.flagship.bench import Flagship
from tests.harness.pipelines import finish

pytestmark = [pytest.mark.spark, pytest.mark.services]

#: tables are named after their stories
_TABLES = {story: story.replace(" ", "_").replace(",", "") for story in STORIES}


@pytest.fixture
def flagship(spark, kafka, registry, postgres) -> Flagship:
    return Flagship(spark, kafka, registry, postgres)


@contextmanager
def running(run: PipelineRun) -> Iterator[None]:
    try:
        yield
    finally:
        run.stop("the test has what it wants")
        finish(run)


@pytest.mark.soak
def test_all_generations_in_a_topic_are_rows_of_the_latest(flagship: Flagship) -> None:
    topics = {table: flagship.topic() for table in _TABLES.values()}
    for story, (written, _) in STORIES.items():
        for schema, row in written:
            topics[_TABLES[story]].write(schema, row)
    run = flagship.begin_each(topics)
    with running(run):
        flagship.committed(run, *topics.values())

    for story, (_, read) in STORIES.items():
        assert flagship.table(_TABLES[story]) == read, story


# ── while the pipeline runs ─────────────────────────────────────────────────────────────────────────────────

#: What a table holds, by column, when its second generation came while the pipeline ran and columns may be added:
#: rows that are there are not written again. The two that are not here do not fit the table; they come below.
_GROWN: dict[str, list[dict[str, Any]]] = {
    "a nullable field is added": [{"id": 1, "n": None}, {"id": 2, "n": "x"}],
    "a field with a default is added": [{"id": 1, "n": None}, {"id": 2, "n": 8}],
    "a field is removed": [{"id": 1, "gone": 5}, {"id": 2, "gone": None}],
    "fields are matched by name": [{"id": 1, "a": "A", "b": "B"}, {"id": 2, "a": "C", "b": "D"}],
    "two fields are added": [{"id": 1, "p": None, "q": None}, {"id": 2, "p": "x", "q": 4}],
    "a required field becomes nullable": [{"id": 1, "s": "x"}, {"id": 2, "s": None}],
    "an explicit null is not a default": [{"id": 1, "n": None}, {"id": 2, "n": None}],
    "a field is renamed": [{"id": 1, "old": "x", "new": None}, {"id": 2, "old": None, "new": "y"}],
}
_NOON = dt.datetime(2024, 2, 29, 12, 0, 0, 123000)
_ID = uuid.UUID("550e8400-e29b-41d4-a716-446655440000")
#: Avro type of a field that appears, a value, the column's type in Postgres and the value there
_APPEARING = [
    ({"type": "int", "logicalType": "time-millis"}, dt.time(1, 2, 3, 4000), "time without time zone", None),
    ({"type": "long", "logicalType": "time-micros"}, dt.time(23, 59, 59, 999999), "time without time zone", None),
    ({"type": "long", "logicalType": "timestamp-millis"}, _NOON, "timestamp without time zone", None),
    ({"type": "int", "logicalType": "date"}, dt.date(1969, 7, 20), "date", None),
    ({"type": "string", "logicalType": "uuid"}, _ID, "bytea", _ID.bytes),
    ({"type": "array", "items": "long"}, [1, 2], "jsonb", None),
    ({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}, None, "numeric(5,2)", None),
]


def test_generations_that_come_while_the_pipeline_runs(flagship: Flagship) -> None:
    topics = {_TABLES[story]: flagship.topic() for story in _GROWN} | {"t": flagship.topic()}
    for story in _GROWN:
        schema, row = STORIES[story].written[0]
        topics[_TABLES[story]].write(schema, row)
    topics["t"].write(record("id"), {"id": 1})
    run = flagship.begin_each(topics, evolve="add_columns")
    with running(run):
        flagship.committed(run, *topics.values())
        for story in _GROWN:
            schema, row = STORIES[story].written[1]
            topics[_TABLES[story]].write(schema, row)
        write_appearing(topics["t"])
        flagship.committed(run, *topics.values())

    for story, expected in _GROWN.items():
        columns = ", ".join(expected[0])
        assert flagship.table(_TABLES[story], columns) == [tuple(row.values()) for row in expected], story
    types = list(flagship.pg.types().values())[1:]
    assert types == [column for _, _, column, _ in _APPEARING]
    before, after = flagship.table("t")
    assert before == (1, *[None] * len(_APPEARING))
    assert after == (2, *(value if read is None else read for _, value, _, read in _APPEARING))


def write_appearing(topic: Topic) -> None:
    fields = [(f"c{number}", ["null", avro], None) for number, (avro, *_) in enumerate(_APPEARING)]
    values: dict[str, Any] = {f"c{number}": value for number, (_, value, *_) in enumerate(_APPEARING)}
    values["c2"] = _NOON.replace(tzinfo=dt.UTC)
    topic.write(record("id", *fields), {"id": 2, **values})


@pytest.mark.parametrize(
    ("story", "message"),
    [
        ("int becomes long", "column 'n': .*out of range for type integer"),
        ("float becomes double", "column 'x' of table .* has type real, expected DOUBLE PRECISION"),
    ],
)
def test_a_type_that_outgrows_its_column_ends_the_pipeline_and_names_it(
    flagship: Flagship, story: str, message: str
) -> None:
    topic = flagship.topic()
    (old, row), (new, wider) = STORIES[story].written
    topic.write(old, row)
    flagship.run_all(topic, {"out": {}})
    topic.write(new, wider)
    error = flagship.failure(topic, {"out": {"evolve": "add_columns"}})
    assert "postgres sink 'out'" in str(error)
    assert not error.internal
    assert re.search(message, str(error)), error
    assert error.remedy
    assert flagship.position(topic) == 1
