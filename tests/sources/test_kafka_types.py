"""Avro types through Spark's decoder, with extreme values: every value comes out as it went in."""

from __future__ import annotations

import datetime as dt
import math
import struct
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from streamling.errors import InvalidPipeline
from tests.sources.kafka_driver import KafkaBench, record

pytestmark = [pytest.mark.spark, pytest.mark.services]

_NOON = dt.datetime(2024, 2, 29, 12, 0, 0, 123456, tzinfo=dt.UTC)
_ID = uuid.UUID("550e8400-e29b-41d4-a716-446655440000")


@pytest.fixture
def bench(spark, kafka, registry) -> KafkaBench:
    return KafkaBench(spark, kafka, registry)


def _logical(base: str, logical: str, **more: Any) -> dict[str, Any]:
    return {"type": base, "logicalType": logical, **more}


#: Avro type, the value written, the Arrow type the column stands for, the value read
_TYPES = [
    ("boolean", True, pa.bool_(), True),
    ("int", -(2**31), pa.int32(), -(2**31)),
    ("long", 2**63 - 1, pa.int64(), 2**63 - 1),
    ("float", 1.5, pa.float32(), 1.5),
    ("double", 1.7976931348623157e308, pa.float64(), 1.7976931348623157e308),
    ("bytes", b"\x00\xff", pa.binary(), b"\x00\xff"),
    ("string", "O'Reilly; DROP TABLE x; --\n\t\x01 \N{GRINNING FACE} e\u0301", pa.string(), None),
    ({"type": "enum", "name": "colour", "symbols": ["RED", "BLUE"]}, "BLUE", pa.string(), "BLUE"),
    ({"type": "fixed", "name": "four", "size": 4}, b"abcd", pa.binary(4), b"abcd"),
    (_logical("string", "uuid"), _ID, pa.binary(16), _ID.bytes),
    (
        _logical("bytes", "decimal", precision=38, scale=10),
        Decimal("-1234567890123456789012345678.0123456789"),
        pa.decimal128(38, 10),
        None,
    ),
    (
        {"type": "fixed", "name": "money", "size": 9, "logicalType": "decimal", "precision": 20, "scale": 4},
        Decimal("1.5"),
        pa.decimal128(20, 4),
        Decimal("1.5000"),
    ),
    (_logical("int", "date"), dt.date(1969, 7, 20), pa.date32(), dt.date(1969, 7, 20)),
    (_logical("int", "time-millis"), dt.time(23, 59, 59, 999000), pa.time32("ms"), dt.time(23, 59, 59, 999000)),
    (_logical("long", "time-micros"), dt.time(0, 0, 0, 1), pa.time64("us"), dt.time(0, 0, 0, 1)),
    (_logical("long", "timestamp-millis"), _NOON, pa.timestamp("ms"), _NOON.replace(tzinfo=None, microsecond=123000)),
    (_logical("long", "timestamp-micros"), _NOON, pa.timestamp("us"), _NOON.replace(tzinfo=None)),
    (
        _logical("long", "local-timestamp-micros"),
        _NOON.replace(tzinfo=None),
        pa.timestamp("us"),
        _NOON.replace(tzinfo=None),
    ),
    (_logical("long", "timestamp-nanos"), -1, pa.timestamp("ns"), dt.datetime(1969, 12, 31, 23, 59, 59, 999999)),
    ({"type": "array", "items": ["null", "long"]}, [1, None], pa.list_(pa.int64()), [1, None]),
    ({"type": "array", "items": _logical("int", "time-millis")}, [dt.time(1)], pa.list_(pa.time32("ms")), [dt.time(1)]),
    ({"type": "map", "values": "long"}, {"a": 1}, pa.map_(pa.string(), pa.int64()), [("a", 1)]),
    (
        {"type": "map", "values": _logical("string", "uuid")},
        {"a": _ID},
        pa.map_(pa.string(), pa.binary(16)),
        [("a", _ID.bytes)],
    ),
    (
        record("x", ("at", _logical("long", "timestamp-millis")), name="inner"),
        {"x": 1, "at": _NOON},
        pa.struct([("x", pa.int64()), ("at", pa.timestamp("ms"))]),
        {"x": 1, "at": _NOON.replace(tzinfo=None, microsecond=123000)},
    ),
    (
        record("x", ("id", _logical("string", "uuid")), name="inner2"),
        {"x": 1, "id": _ID},
        pa.struct([("x", pa.int64()), ("id", pa.binary(16))]),
        {"x": 1, "id": _ID.bytes},
    ),
    (["null", "string"], None, pa.string(), None),
    (["int", "long"], 5, pa.int64(), 5),
    (
        ["null", "long", "string"],
        "x",
        pa.struct([("member0", pa.int64()), ("member1", pa.string())]),
        {"member0": None, "member1": "x"},
    ),
]


def test_every_type_comes_out_as_it_went_in(bench: KafkaBench) -> None:
    fields = [(f"c{number}", avro) for number, (avro, *_) in enumerate(_TYPES)]
    topic = bench.topic()
    topic.write(record(*fields), {f"c{number}": written for number, (_, written, *_) in enumerate(_TYPES)})
    run = bench.begin(topic)
    table = bench.drained(run, 1)
    row, declared = table.to_pylist()[0], run.analysis.built["rows"].schema
    for number, (avro, written, arrow, expected) in enumerate(_TYPES):
        wanted = written if expected is None else expected
        assert row[f"c{number}"] == wanted, avro
        assert _like(declared.field(f"c{number}").type, arrow), avro


def _like(found: pa.DataType, expected: pa.DataType) -> bool:
    """Equal but for names and nullability of children."""
    if found.num_fields != expected.num_fields or found.num_fields == 0:
        return found == expected
    return all(_like(found.field(i).type, expected.field(i).type) for i in range(found.num_fields))


def test_doubles_keep_every_bit(bench: KafkaBench) -> None:
    values = [-0.0, math.inf, -math.inf, 5e-324, 0.1, math.nan]
    topic = bench.topic()
    topic.write(record(("x", "double")), *({"x": value} for value in values))
    found = bench.read(topic, len(values)).column("x").to_pylist()
    assert [struct.pack(">d", value) for value in found] == [struct.pack(">d", value) for value in values]


def test_texts_are_not_changed(bench: KafkaBench) -> None:
    values = ["", " ", "\t", "x" * 10_000, "é", "e\u0301", "NULL", "\x00\x7f", "日本語", "\\'\"`"]
    topic = bench.topic()
    topic.write(record(("x", ["null", "string"])), *({"x": value} for value in [*values, None]))
    assert bench.read(topic, len(values) + 1).column("x").to_pylist() == [*values, None]


def test_a_named_type_can_be_used_again(bench: KafkaBench) -> None:
    point = record("x", ("at", _logical("long", "timestamp-millis")), name="point", namespace="geo")
    topic = bench.topic()
    value = {"x": 1, "at": _NOON}
    topic.write(record(("a", point), ("b", ["null", "geo.point"])), {"a": value, "b": value})
    row = bench.rows(topic, 1)[0]
    assert row["a"] == row["b"] == {"x": 1, "at": _NOON.replace(tzinfo=None, microsecond=123000)}


def test_the_record_may_stand_in_a_union(bench: KafkaBench) -> None:
    topic = bench.topic()
    topic.write(["null", record("id")], {"id": 7})
    assert bench.rows(topic, 1) == [{"id": 7, "_gs_op": "i"}]


def test_an_operation_in_the_payload_wins(bench: KafkaBench) -> None:
    topic = bench.topic()
    topic.write(record("id", ("_gs_op", "string")), {"id": 7, "_gs_op": "u"}, op="d")
    assert bench.rows(topic, 1) == [{"id": 7, "_gs_op": "u"}]


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (("wide", _logical("bytes", "decimal", precision=78, scale=0)), "field 'wide': is a decimal of 78 digits"),
        (("tree", ["null", "row"]), "field 'tree': the Avro type 'row' contains itself"),
    ],
)
def test_a_type_without_a_place_names_its_field(bench: KafkaBench, field: Any, message: str) -> None:
    topic = bench.topic()
    topic.register(record(field))
    with pytest.raises(InvalidPipeline, match=message):
        bench.begin(topic)
