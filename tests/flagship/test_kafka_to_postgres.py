"""Kafka → SQL → Postgres, all three real: what only shows when both ends are there."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal
from typing import Any

import pytest

from streamling.dev.services.topics import Message
from streamling.errors import StreamlingError
from tests.connectors.kafka.source_driver import Topic, framed, record, table_of
from tests.flagship.bench import Flagship
from tests.harness.pipelines import finish

pytestmark = [pytest.mark.spark, pytest.mark.services]

_TEXT = ["null", "string"]


@pytest.fixture
def flagship(spark, kafka, registry, postgres) -> Flagship:
    return Flagship(spark, kafka, registry, postgres)


# ── inserts, updates, deletes ───────────────────────────────────────────────────────────────────────────────

_ITEM = record(("id", "string"), ("v", _TEXT, None))
_ODD_KEY = 'it\'s; DROP TABLE "x" -- \\ \t ü 🚀'

#: what happens to keys, in order (operation of `dbz.op`, key, value), and the values that stay
_STORIES: dict[str, tuple[list[tuple[str, str, str]], dict[str, str]]] = {
    "insert, update": ([("c", "a", "1"), ("u", "a", "2")], {"a": "2"}),
    "insert, delete": ([("c", "b", "1"), ("d", "b", "1")], {}),
    "delete of an unknown key": ([("d", "c", "1")], {}),
    "the last update wins": ([("c", "d", "1"), ("u", "d", "2"), ("u", "d", "3")], {"d": "3"}),
    "insert, delete, insert": ([("c", "e", "1"), ("d", "e", "1"), ("c", "e", "1")], {"e": "1"}),
    "ten times in a row": ([("c", "f", str(n)) for n in range(10)], {"f": "9"}),
    "a key of special characters": ([("c", _ODD_KEY, "1"), ("u", _ODD_KEY, "2")], {_ODD_KEY: "2"}),
    "interleaved": ([("c", "g", "1"), ("c", "h", "1"), ("u", "g", "2"), ("u", "h", "2")], {"g": "2", "h": "2"}),
    "comes back as another": ([("c", "i", "old"), ("d", "i", "old"), ("r", "i", "new")], {"i": "new"}),
    "an update alone": ([("u", "j", "1")], {"j": "1"}),
    "mixed": (
        [("c", f"k{n}", "1") for n in range(1, 5)] + [("d", "k4", "1"), ("u", "k2", "2"), ("u", "k5", "1")],
        {"k1": "1", "k2": "2", "k3": "1", "k5": "1"},
    ),
}


@pytest.mark.parametrize("batch_size", [None, 4], ids=["one batch", "batches of 4"])
def test_changes_end_as_the_topic_says(flagship: Flagship, batch_size: int | None) -> None:
    topic = flagship.topic()
    id = topic.register(_ITEM)
    changes = [change for story, _ in _STORIES.values() for change in story]
    topic.send(
        *(
            Message(framed(id, _ITEM, {"id": key, "v": value}), headers=(("dbz.op", op.encode()),))
            for op, key, value in changes
        )
    )

    shouted = {"sql": "SELECT id, concat(v, '!') AS v FROM rows"}
    source = {} if batch_size is None else {"batch_size": batch_size}
    flagship.run_all(topic, {"latest": shouted, "first": {"on_conflict": "nothing"}}, source)

    expected = {key: value for _, left in _STORIES.values() for key, value in left.items()}
    assert dict(flagship.table("latest")) == {key: f"{value}!" for key, value in expected.items()}
    assert dict(flagship.table("first")) == first_wins(changes)


def first_wins(changes: list[tuple[str, str, str]]) -> dict[str, str]:
    table: dict[str, str] = {}
    for op, key, value in changes:
        if op == "d":
            table.pop(key, None)
        else:
            table.setdefault(key, value)
    return table


# ── values ──────────────────────────────────────────────────────────────────────────────────────────────────

_DOUBLES = [0.0, -0.0, 0.1, 1 / 3, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, -1e-300, float("inf")]
_TEXTS = [
    "",
    "x" * 10_000,
    "Robert'); DROP TABLE students;--",
    "NULL",
    "\\N",
    "\\",
    'tab\t newline\n return\r quote" comma, \x01\x1f\x7f',
    "é",  # one character, and below the same in two: neither may become the other
    "e\u0301",
    "日本語 العربية 🚀 👩‍👩‍👧",
    "\ufeffmark \u200b\u2028",
]
_VALUES = record(
    "id",
    ("l", "long"),
    ("i", "int"),
    ("d", "double"),
    ("f", "float"),
    ("b", "boolean"),
    ("s", "string"),
    ("n", ["string", "null"], "not me"),
    ("raw", "bytes"),
    ("amount", {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 18}),
    ("day", {"type": "int", "logicalType": "date"}),
    ("at", {"type": "long", "logicalType": "timestamp-micros"}),
    ("tags", {"type": "array", "items": "long"}),
    *((f"c{n}", "int") for n in range(13)),
)


def values(n: int) -> dict[str, Any]:
    """Row ``n``: extremes wherever there are any."""
    return {
        "id": n,
        "l": [2**63 - 1, -(2**63), 0][n % 3],
        "i": [2**31 - 1, -(2**31), 0][n % 3],
        "d": _DOUBLES[n % len(_DOUBLES)],
        "f": [0.1, -0.0, 3.4028234663852886e38][n % 3],
        "b": n % 2 == 0,
        "s": _TEXTS[n % len(_TEXTS)],
        "n": None if n % 2 else "",
        "raw": bytes(range(256))[: n * 20],
        "amount": [Decimal("12345678901234567890.123456789012345678"), Decimal("-0.000000000000000001")][n % 2],
        "day": [dt.date(1, 1, 1), dt.date(9999, 12, 31)][n % 2],
        "at": [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)][n % 2],
        "tags": [2**63 - 1] * (n % 3),
        **{f"c{i}": i for i in range(13)},
    }


def bits(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Doubles as their bytes: -0.0 equals 0.0 otherwise."""
    return tuple(struct.pack("<d", value) if isinstance(value, float) else value for value in row)


def test_values_arrive_to_the_bit(flagship: Flagship) -> None:
    topic = flagship.topic()
    sent = [values(n) for n in range(len(_TEXTS))]
    aware = [{**row, "at": row["at"].replace(tzinfo=dt.UTC)} for row in sent]
    topic.write(_VALUES, *aware)

    flagship.run_all(topic, {"plain": {}, "through_sql": {"sql": "SELECT * FROM rows"}})

    expected = [bits(tuple(row.values())) for row in sent]
    for table in ("plain", "through_sql"):
        doubles = flagship.table(table, "id, l, i, d, f::float8::text::float8 AS f")
        assert [bits(row[:4]) for row in doubles] == [row[:4] for row in expected]
        rest = flagship.table(
            table, "id, b, s, n, raw, amount, day, at, tags, " + ", ".join(f"c{n}" for n in range(13))
        )
        assert [row[1:] for row in rest] == [row[5:] for row in expected]
        singles = flagship.table(table, "id, f")
        assert [struct.pack("<f", row[1]) for row in singles] == [struct.pack("<f", row["f"]) for row in sent]


_KEYS = ["", " ", "\t", "  ", "ü", "u\u0308", "日本", "🚀", "A", "a", "NULL", "\\N", "x" * 300]


def test_rows_of_every_number_and_keys_of_every_kind(flagship: Flagship) -> None:
    topics = {name: flagship.topic() for name in ("many", "single", "texts")}
    topics["many"].write(_ITEM, *({"id": str(n), "v": f"v{n}"} for n in range(1000)))
    topics["single"].write(_ITEM, {"id": "only", "v": None})
    topics["texts"].write(_ITEM, *({"id": key, "v": v} for v in ("first", "last") for key in _KEYS))
    run = flagship.begin_each(topics)
    flagship.committed(run, *topics.values())
    run.stop("the test has what it wants")
    finish(run)

    assert dict(flagship.table("many")) == {str(n): f"v{n}" for n in range(1000)}
    assert flagship.table("single") == [("only", None)]
    assert dict(flagship.table("texts")) == dict.fromkeys(_KEYS, "last")


# ── filters and projections ─────────────────────────────────────────────────────────────────────────────────

_BLOCKS = record(
    "id", ("block", "long"), ("kind", "string"), ("note", _TEXT, None), ("price", "double"), ("amount", "int")
)


def blocks(flagship: Flagship) -> Topic:
    """A hundred rows: ids and blocks from 1, half of them even, five with a note, eight with an amount over 100."""
    topic = flagship.topic()
    rows = [
        {
            "id": n,
            "block": n,
            "kind": "odd" if n % 2 else "even",
            "note": "x" if n % 20 == 0 else None,
            "price": n / 4,
            "amount": 101 if n % 12 == 0 else n,
        }
        for n in range(1, 101)
    ]
    topic.write(_BLOCKS, *rows)
    return topic


def test_sql_between_topic_and_tables(flagship: Flagship) -> None:
    sinks = {
        "late": {"sql": "SELECT * FROM rows WHERE block > 60"},
        "even": {"sql": "SELECT id, kind FROM rows WHERE kind = 'even'"},
        "partial": {"sql": "SELECT id FROM rows WHERE kind = 'even' AND block <= 10"},
        "noted": {"sql": "SELECT id, note FROM rows WHERE note IS NOT NULL"},
        "nobody": {"sql": "SELECT id FROM rows WHERE block > 1000"},
        "shaped": {
            "sql": "SELECT id AS number, block + price AS total, CAST(block AS STRING) || '!' AS loud FROM rows",
            "key": "number",
        },
        "over": {"sql": "SELECT id, amount + price AS sum FROM rows WHERE amount > 100"},
        "all_of_them": {
            "sql": "SELECT id, upper(kind) AS kind, concat(kind, '-', note) AS both FROM rows WHERE id > 0"
        },
        "twenty": {"sql": "SELECT * FROM rows WHERE id <= 20"},
        "nowhere": {"type": "blackhole", "from": "twenty_rows"},
        "fifteen": {"sql": "SELECT id, 'TRY_CAST(\"kind\" AS INT)' AS text FROM rows WHERE id <= 15"},
        "fifteen_more": {"from": "fifteen_rows"},
        "everything": {},
    }
    topic = blocks(flagship)
    flagship.run_all(topic, sinks)

    counts = {name: len(flagship.table(name)) for name in sinks if name != "nowhere"}
    assert counts == {
        "late": 40,
        "even": 50,
        "partial": 5,
        "noted": 5,
        "nobody": 0,
        "shaped": 100,
        "over": 8,
        "all_of_them": 100,
        "twenty": 20,
        "fifteen": 15,
        "fifteen_more": 15,
        "everything": 100,
    }
    assert flagship.table("late")[0] == (61, 61, "odd", None, 15.25, 61)
    assert flagship.table("over") == [(n, 101 + n / 4) for n in range(12, 101, 12)]
    assert flagship.table("all_of_them")[18:20] == [(19, "ODD", "odd-"), (20, "EVEN", "even-x")]
    assert flagship.table("twenty") == flagship.table("everything")[:20]
    assert flagship.table("fifteen_more") == [(n, 'TRY_CAST("kind" AS INT)') for n in range(1, 16)]
    assert flagship.table("noted") == [(n, "x") for n in (20, 40, 60, 80, 100)]
    assert flagship.table("shaped") == [(n, n + n / 4, f"{n}!") for n in range(1, 101)]


def test_the_filter_of_the_source_holds_for_every_sink(flagship: Flagship) -> None:
    topic = blocks(flagship)
    flagship.run_all(topic, {"plain": {}, "counted": {"sql": "SELECT id FROM rows"}}, {"filter": "block > 60"})
    assert [row[0] for row in flagship.table("plain")] == [row[0] for row in flagship.table("counted")]
    assert [row[0] for row in flagship.table("plain")] == list(range(61, 101))


def test_rows_that_unnest_to_nothing_are_committed(flagship: Flagship) -> None:
    topic = flagship.topic()
    listed = record("id", ("tags", {"type": "array", "items": "string"}))
    topic.write(listed, *({"id": n, "tags": []} for n in range(10)))

    flagship.run_all(topic, {"tags": {"sql": "SELECT id, unnest(tags) AS tag FROM rows", "key": "id,tag"}})

    assert flagship.table("tags") == []
    assert flagship.position(topic) == 10


@pytest.mark.parametrize(
    ("expression", "cause"),
    [("10 / (block - 7)", "division by zero"), ("block + 9223372036854775800", "too large for its type")],
)
def test_arithmetic_that_fails_ends_the_pipeline_with_a_sentence(
    flagship: Flagship, expression: str, cause: str
) -> None:
    topic = blocks(flagship)
    error = flagship.failure(topic, {"bad": {"sql": f"SELECT id, {expression} AS x FROM rows"}})

    assert cause in str(error)
    assert "bad_rows" in str(error)
    assert not error.internal
    assert flagship.position(topic) == 0


# ── schemas that change ─────────────────────────────────────────────────────────────────────────────────────

_BEFORE = record("id", ("v", "string"))
_AFTER = record("id", ("v", "string"), ("n", "int", 7), ("m", _TEXT, None))


def test_a_new_field_is_an_error_or_a_new_column_as_the_sink_says(flagship: Flagship) -> None:
    topic = flagship.topic()
    topic.write(_BEFORE, {"id": 1, "v": "a"}, {"id": 2, "v": "b"})
    strict, growing, named = {}, {"evolve": "add_columns"}, {"sql": "SELECT id, v FROM rows"}
    flagship.run_all(topic, {"strict": strict, "growing": growing, "named": named})
    topic.write(_AFTER, {"id": 2, "v": "c", "n": 1, "m": "x"}, {"id": 3, "v": "d", "n": 2, "m": None})

    error = flagship.failure(topic, {"strict": strict})
    assert "'strict'" in str(error)
    assert "'n'" in str(error)
    assert "add_columns" in str(error.remedy)
    assert flagship.position(topic) == 2

    flagship.run_all(topic, {"growing": growing, "named": named})
    assert flagship.table("growing", "id, v, n, m") == [(1, "a", None, None), (2, "c", 1, "x"), (3, "d", 2, None)]
    assert flagship.table("named") == [(1, "a"), (2, "c"), (3, "d")]
    assert flagship.table("strict") == [(1, "a"), (2, "b")]


def test_a_field_that_appears_while_the_pipeline_runs_becomes_a_column(flagship: Flagship) -> None:
    topic = flagship.topic()
    topic.write(_BEFORE, {"id": 1, "v": "a"})
    run = flagship.begin(topic, {"growing": {"evolve": "add_columns"}})
    try:
        flagship.committed(run, topic)
        topic.write(_AFTER, {"id": 2, "v": "b", "n": 1, "m": "x"})
        topic.write(_BEFORE, {"id": 3, "v": "c"})
        flagship.committed(run, topic)
    finally:
        run.stop("the test has what it wants")
        finish(run)
    assert flagship.table("growing", "id, v, n, m") == [(1, "a", None, None), (2, "b", 1, "x"), (3, "c", 7, None)]


def test_a_field_that_appears_while_the_pipeline_runs_ends_it_when_the_table_lacks_it(flagship: Flagship) -> None:
    topic = flagship.topic()
    topic.write(_BEFORE, {"id": 1, "v": "a"})
    run = flagship.begin(topic, {"strict": {}})
    flagship.committed(run, topic)
    topic.write(_AFTER, {"id": 2, "v": "b", "n": 1, "m": "x"})
    with pytest.raises(StreamlingError, match=r"'strict'.*no columns 'n'") as raised:
        finish(run)
    assert not raised.value.internal
    assert flagship.table("strict") == [(1, "a")]
    assert flagship.position(topic) == 1


# ── several sinks ───────────────────────────────────────────────────────────────────────────────────────────


def test_two_databases_and_a_topic_get_the_same_rows_and_these_are_read_once(flagship: Flagship) -> None:
    topic, out = flagship.topic(), flagship.topic().name + "-out"
    other = f"{flagship.pg.schema}_other"
    flagship.pg.execute(f"CREATE DATABASE {other}")
    topic.write(_ITEM, *({"id": str(n), "v": f"v{n}"} for n in range(15)), op="c")
    topic.write(_ITEM, {"id": "3", "v": "new"}, op="u")
    topic.write(_ITEM, {"id": "4", "v": None}, op="d")

    sinks = {
        "here": {},
        "there": {"sql": "SELECT id, upper(v) AS v FROM rows"},
        "topic": {"type": "kafka", "topic": out, "data_format": "avro", "topic_partitions": 1},
    }
    run = flagship.begin(topic, sinks, postgres_sink_connections={"there": {"db": other}})
    flagship.committed(run, topic)
    assert run.status().rows_in == 17
    run.stop("the test has what it wants")
    finish(run)

    expected = {str(n): f"v{n}" for n in range(15) if n != 4} | {"3": "new"}
    assert dict(flagship.table("here")) == expected
    assert dict(flagship.table("there", db=other)) == {key: value.upper() for key, value in expected.items()}
    assert {id: row["v"] for id, row in table_of(topic, out).items()} == expected


def test_a_sink_that_fails_ends_the_pipeline_and_nothing_is_lost(flagship: Flagship) -> None:
    topic = flagship.topic()
    topic.write(_ITEM, *({"id": str(n), "v": f"v{n}"} for n in range(15)))
    flagship.pg.execute("CREATE SCHEMA {s}")
    flagship.pg.execute("CREATE TABLE {s}.picky (id text PRIMARY KEY, v text CHECK (v <> 'v7'))")

    error = flagship.failure(topic, {"good": {}, "picky": {}})
    assert "'picky'" in str(error)
    assert not error.internal
    assert flagship.position(topic) == 0

    flagship.pg.execute("ALTER TABLE {s}.picky DROP CONSTRAINT picky_v_check")
    flagship.run_all(topic, {"good": {}, "picky": {}})
    assert dict(flagship.table("good")) == dict(flagship.table("picky")) == {str(n): f"v{n}" for n in range(15)}
