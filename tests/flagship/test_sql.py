"""SQL over Kafka topics into Postgres: what happened to a row stays known, whatever the statement does with it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamling.dev.services.topics import Message
from tests.connectors.kafka.source_driver import Topic, framed, record
from tests.flagship.bench import Flagship
from tests.harness.pipelines import finish

pytestmark = [pytest.mark.spark, pytest.mark.services]

_ITEM = record(("id", "string"), ("v", "string"))
_CHANGES = [("c", "1", "one"), ("c", "2", "two"), ("u", "2", "zwei"), ("c", "3", "three"), ("d", "3", "three")]


@pytest.fixture
def flagship(spark, kafka, registry, postgres) -> Flagship:
    return Flagship(spark, kafka, registry, postgres)


def topic_of(flagship: Flagship, *changes: tuple[str, str, str]) -> Topic:
    """A topic with changes: operation of `dbz.op`, key, value."""
    topic = flagship.topic()
    id = topic.register(_ITEM)
    messages = [(op, framed(id, _ITEM, {"id": key, "v": value})) for op, key, value in changes]
    topic.send(*(Message(value, headers=(("dbz.op", op.encode()),)) for op, value in messages))
    return topic


def run_all(flagship: Flagship, topics: dict[str, Topic], statements: dict[str, str]) -> None:
    """A table per statement over the topics, until every message is committed."""
    sources = {name: {"type": "kafka", "topic": topic.name, "primary_key": "id"} for name, topic in topics.items()}
    transforms = {f"{name}_rows": {"type": "sql", "primary_key": "id", "sql": sql} for name, sql in statements.items()}
    place: dict[str, Any] = {"type": "postgres", "schema": flagship.pg.schema}
    sinks = {name: {"from": f"{name}_rows", "table": name, **place} for name in statements}
    text = json.dumps({"sources": sources, "transforms": transforms, "sinks": sinks})
    run = flagship.start(text, **flagship.config())
    try:
        flagship.committed(run, *topics.values())
    finally:
        run.stop("the test has what it wants")
        finish(run)


def test_union_all_keeps_what_happened_to_each_row(flagship: Flagship) -> None:
    east, west = topic_of(flagship, *_CHANGES), topic_of(flagship, *_CHANGES[1:])
    both = "SELECT 'e' || id AS id, v FROM east UNION ALL SELECT 'w' || id AS id, v FROM west"
    run_all(flagship, {"east": east, "west": west}, {"two_topics": both})
    assert flagship.table("two_topics") == [("e1", "one"), ("e2", "zwei"), ("w2", "zwei")]

    twice = "SELECT id, v, _gs_op FROM east UNION ALL SELECT id || '+' AS id, upper(v) AS v, _gs_op FROM east"
    run_all(flagship, {"east": topic_of(flagship, *_CHANGES)}, {"one_topic_twice": twice})
    assert flagship.table("one_topic_twice") == [("1", "one"), ("1+", "ONE"), ("2", "zwei"), ("2+", "ZWEI")]


def test_string_functions_of_flink(flagship: Flagship) -> None:
    address = "http://me@example.com/a/b?q=ä#x"
    columns = {
        "split_index(v, '-', 1)": ("b", None),
        "regexp_extract(v, '([a-c])-([a-c])', 2)": ("b", None),
        "regexp_replace(v, '[ab]', '$')": ("$-$-c", "http://me@ex$mple.com/$/$?q=ä#x"),
        "parse_url(v, 'HOST')": (None, "example.com"),
        "url_decode(url_encode(v))": ("a-b-c", address),
        "locate('-', v)": (2, 0),
        "translate(v, 'abc', 'xyz')": ("x-y-z", "http://me@exxmple.zom/x/y?q=ä#x"),
    }
    listed = ", ".join(f"{expression} AS c{number}" for number, expression in enumerate(columns))
    topic = topic_of(flagship, ("c", "1", "a-b-c"), ("c", "2", address))
    run_all(flagship, {"rows": topic}, {"strings": f"SELECT id, {listed} FROM rows"})
    assert [row[1:] for row in flagship.table("strings")] == list(zip(*columns.values(), strict=True))
