"""Wide numbers through whole pipelines: Kafka (Avro, JSON), files → SQL → Postgres, Kafka (Avro, JSON), print."""

from __future__ import annotations

import json
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamling.dev.services.avro import decode
from streamling.dev.services.topics import Message, consume
from tests.connectors.kafka.source_driver import framed, record
from tests.flagship.bench import Flagship
from tests.harness.pipelines import finish

pytestmark = [pytest.mark.spark, pytest.mark.services]


def _decimal(precision: int, scale: int = 0, **more: Any) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale, **more}


_SCHEMA = record(
    ("id", _decimal(78)),
    ("i", ["null", _decimal(77, **{"streamling.type": "i256"})], None),
    ("e", ["null", _decimal(76, 20)], None),
    ("d", ["null", _decimal(100, 20)], None),
    ("l", ["null", {"type": "array", "items": _decimal(78)}], None),
)
_EDGES = [0, 1, 2**63 - 1, 2**63, 2**64, 2**127, 2**128 - 1, 2**128, 2**255 - 1, 2**255, 2**256 - 1]


def _rows() -> list[dict[str, Any]]:
    rows = []
    for number, edge in enumerate(_EDGES):
        signed = (-1) ** number * min(edge, 2**255 - 1)
        short, long = Decimal(f"{signed % 10**75}e-20"), Decimal(f"{signed}e-20")
        rows.append({"id": Decimal(edge), "i": Decimal(signed), "e": short, "d": long, "l": [Decimal(edge)] * 2})
    return [*rows, {"id": Decimal(7), "i": None, "e": None, "d": None, "l": None}]


@pytest.fixture
def flagship(spark, kafka, registry, postgres) -> Flagship:
    return Flagship(spark, kafka, registry, postgres)


def test_every_number_arrives_everywhere_with_all_its_digits(flagship: Flagship, capfd: Any) -> None:
    topic, avro, texts, rows = flagship.topic(), flagship.topic(), flagship.topic(), _rows()
    gone = 2**200 + 1
    id = topic.register(_SCHEMA)
    first = {**rows[0], "id": Decimal(gone)}
    topic.send(*(Message(framed(id, _SCHEMA, row)) for row in [first, *rows]), Message(None, key=str(gone).encode()))

    computed = "SELECT id, CAST(id AS TEXT) AS t, i / 2 AS half, l[1] AS one FROM rows WHERE id < 7 OR id > 7"
    sinks = {
        "plain": {},
        "computed": {"sql": computed},
        "avro": {"type": "kafka", "topic": avro.name, "data_format": "avro"},
        "texts": {"type": "kafka", "topic": texts.name, "data_format": "json"},
        "shown": {"type": "print"},
    }
    flagship.run_all(topic, sinks)

    by_id = sorted(rows, key=lambda row: row["id"])
    plain = [(row["id"], row["i"], row["e"], row["d"]) for row in by_id]
    assert flagship.table("plain", "id, i, e, d") == plain
    assert flagship.table("plain", "id, l::text")[-1][1] == f"[{2**256 - 1}, {2**256 - 1}]"
    with localcontext(prec=100):
        halves = {row["id"]: row["i"] and Decimal(int(row["i"] / 2)) for row in rows}
    assert flagship.table("computed") == [
        (row["id"], str(int(row["id"])), halves[row["id"]], row["l"][0]) for row in by_id if row["id"] != 7
    ]

    written = [decode(avro.registry, message.value) for message in consume(flagship.kafka.brokers, avro.name)]
    assert [row for row in written if row["id"] != gone] == [{**row, "_gs_op": "i"} for row in rows]
    printed = [json.loads(line) for line in capfd.readouterr().out.splitlines() if line.startswith("{")]
    messages = [json.loads(message.value) for message in consume(flagship.kafka.brokers, texts.name)]
    for found in (printed, messages):
        kept = [row for row in found if row["id"] != gone]
        assert [(row["id"], row["i"], row["l"]) for row in kept] == [
            (int(row["id"]), row["i"] and int(row["i"]), row["l"] and [int(x) for x in row["l"]]) for row in rows
        ]
    assert [(row["_gs_op"], row["id"]) for row in printed if row["id"] == gone] == [("i", gone), ("d", gone)]

    declared = {"id": "u256", "i": "i256", "e": "decimal256(76, 20)"}
    flagship.run_all(texts, {"from_json": {}}, {"data_format": "json", "schema": declared})
    flagship.run_all(avro, {"from_avro": {}})
    assert flagship.table("from_json", "id, i, e") == [row[:3] for row in plain]
    assert flagship.table("from_avro", "id, i, e, d") == plain


def test_a_number_in_json_that_does_not_fit_names_the_message(flagship: Flagship) -> None:
    topic = flagship.topic()
    topic.send(Message(b'{"id": 1, "u": 5}'), Message(b'{"id": 2, "u": "-5"}'))
    declared = {"id": "int64", "u": "u256"}
    failure = flagship.failure(topic, {"out": {"type": "memory"}}, source={"data_format": "json", "schema": declared})
    assert "partition 0, offset 1 has a value that does not fit its column's type: u = -5" in str(failure)


def test_numbers_of_files_arrive_everywhere_with_all_their_digits(
    flagship: Flagship, tmp_path: Path, capfd: Any
) -> None:
    """Parquet and Avro files → SQL, a script → Postgres, Kafka (Avro, JSON), print."""
    most = Decimal("9" * 56 + "." + "9" * 20)
    rows = [
        {"id": number, "e": value, "l": None if value is None else [value, None]}
        for number, value in enumerate([most, most.copy_negate(), Decimal("1E-20"), Decimal(0), None])
    ]
    e = pa.decimal256(76, 20)
    table = pa.Table.from_pylist(rows, pa.schema([("id", pa.int64()), ("e", e), ("l", pa.list_(e))]))
    pq.write_table(table, tmp_path / "a.parquet")
    fixed = {**_decimal(76, 20), "type": "fixed", "name": "E", "size": 32}
    schema = record(("id", "long"), ("e", ["null", fixed]), ("l", ["null", {"type": "array", "items": ["null", "E"]}]))
    with open(tmp_path / "a.avro", "wb") as out:
        fastavro.writer(out, schema, rows)

    avro, texts = flagship.topic(), flagship.topic()
    nodes: dict[str, dict[str, Any]] = {"sources": {}, "transforms": {}, "sinks": {}}
    for format in ("parquet", "avro"):
        place = {"path": str(tmp_path), "format": format, "mode": {"type": "bounded"}, "primary_key": "id"}
        nodes["sources"][format] = {"type": "file", **place}
        select = {"type": "sql", "sql": f"SELECT id, e, l, -e AS minus, e > 0 AS more FROM {format}"}
        script = {"type": "script", "language": "javascript", "script": "row => ({...row, l: row.l && [...row.l]})"}
        nodes["transforms"][f"{format}_sql"] = {"primary_key": "id", **select}
        nodes["transforms"][f"{format}_js"] = {"primary_key": "id", "from": f"{format}_sql", **script}
        sink = {"type": "postgres", "schema": flagship.pg.schema, "from": f"{format}_js"}
        nodes["sinks"][f"{format}_rows"] = {**sink, "table": format}
    nodes["sinks"]["avro_topic"] = {"type": "kafka", "topic": avro.name, "data_format": "avro", "from": "parquet"}
    nodes["sinks"]["texts_topic"] = {"type": "kafka", "topic": texts.name, "data_format": "json", "from": "avro"}
    nodes["sinks"]["shown"] = {"type": "print", "from": "avro_js"}
    finish(flagship.start(json.dumps(nodes), **flagship.config()))

    expected = [
        (r["id"], r["e"], r["e"] and r["e"].copy_negate(), None if r["e"] is None else r["e"] > 0) for r in rows
    ]
    for name in ("parquet", "avro"):
        assert flagship.table(name, "id, e, minus, more") == expected
        assert flagship.table(name, "id, l::text")[1][1] == f"[-{most}, null]"
    brokers = flagship.kafka.brokers
    written = [decode(avro.registry, message.value) for message in consume(brokers, avro.name)]
    assert written == [{**row, "_gs_op": "i"} for row in rows]
    lines = [line for line in capfd.readouterr().out.splitlines() if line.startswith("{")]
    for found in (lines, [message.value for message in consume(brokers, texts.name)]):
        values = [json.loads(text, parse_float=Decimal) for text in found]
        assert [{name: row[name] for name in ("id", "e", "l")} for row in values] == rows
