"""Avro types through Spark's decoder, with extreme values: every value survives unchanged."""

from __future__ import annotations

import datetime as dt
import math
import struct
import uuid
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa
import pytest

from streamling.errors import InvalidPipeline, StreamlingError
from streamling.types.wide.layout import I256, U256, WideDecimal, contains_wide, layout_of
from tests.connectors.kafka.source_driver import KafkaBench, record

pytestmark = [pytest.mark.spark, pytest.mark.services]

_NOON = dt.datetime(2024, 2, 29, 12, 0, 0, 123456, tzinfo=dt.UTC)
_ID = uuid.UUID("550e8400-e29b-41d4-a716-446655440000")


@pytest.fixture
def bench(spark, kafka, registry) -> KafkaBench:
    return KafkaBench(spark, kafka, registry)


def _logical(base: str, logical: str, **more: Any) -> dict[str, Any]:
    return {"type": base, "logicalType": logical, **more}


def _decimal(precision: int, scale: int = 0) -> dict[str, Any]:
    return _logical("bytes", "decimal", precision=precision, scale=scale)


#: Avro type, the value written, the logical Arrow type of the column, the value read
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
    (_decimal(39, 2), Decimal(f"{10**39 - 1}e-2"), pa.decimal256(39, 2), None),
    (_decimal(76, 10), Decimal(f"{-(10**76) + 1}e-10"), pa.decimal256(76, 10), None),
    (_decimal(78), Decimal(2**256 - 1), U256, 2**256 - 1),
    (_decimal(78), Decimal(2**255), U256, 2**255),
    (_decimal(77), Decimal(0), U256, 0),
    ({**_decimal(77), "streamling.type": "i256"}, Decimal(-(2**255)), I256, -(2**255)),
    ({**_decimal(77), "streamling.type": "i256"}, Decimal(2**255 - 1), I256, 2**255 - 1),
    ({**_decimal(77), "streamling.type": "i256"}, Decimal(-1), I256, -1),
    (_decimal(79), Decimal(-(10**79) + 1), WideDecimal(79, 0), None),
    (_decimal(1000, 999), Decimal(f"{10**1000 - 1}e-999"), WideDecimal(1000, 999), None),
    (_decimal(100, 20), Decimal("-0.5"), WideDecimal(100, 20), Decimal("-0.5")),
    ({**_decimal(78), "type": "fixed", "name": "wide", "size": 40}, Decimal(2**256 - 1), U256, 2**256 - 1),
    ({**_decimal(90, 1), "type": "fixed", "name": "wider", "size": 60}, Decimal("-1.5"), WideDecimal(90, 1), None),
    (["null", _decimal(78)], None, U256, None),
    ({"type": "array", "items": ["null", _decimal(78)]}, [Decimal(2**256 - 1), None], pa.list_(U256), None),
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


def test_every_type_survives_a_round_trip(bench: KafkaBench) -> None:
    fields = [(f"c{number}", avro) for number, (avro, *_) in enumerate(_TYPES)]
    topic = bench.topic()
    topic.write(record(*fields), {f"c{number}": written for number, (_, written, *_) in enumerate(_TYPES)})
    run = bench.begin(topic)
    table = bench.drained(run, 1)
    row, declared = table.to_pylist()[0], run.analysis.nodes["rows"].schema
    for number, (avro, written, arrow, expected) in enumerate(_TYPES):
        wanted = written if expected is None else expected
        assert _meant(row[f"c{number}"], arrow) == wanted, avro
        assert _like(declared.field(f"c{number}").type, arrow), avro


def _meant(value: Any, type_: pa.DataType) -> Any:
    """Return the number that is held."""
    layout = layout_of(type_)
    if isinstance(value, list) and contains_wide(type_):
        return [_meant(item, type_.value_type) for item in value]
    if layout is None or value is None:
        return value
    with localcontext(prec=1000):
        return Decimal(layout.decode(value)).scaleb(-layout.scale)


def _like(found: pa.DataType, expected: pa.DataType) -> bool:
    """Return whether types are equal apart from names and nullability of children."""
    if found.num_fields != expected.num_fields or found.num_fields == 0:
        return found == expected
    return all(_like(found.field(i).type, expected.field(i).type) for i in range(found.num_fields))


def test_a_number_that_overflows_its_type_names_the_message(bench: KafkaBench) -> None:
    topic = bench.topic()
    topic.write(record("id", ("wide", _decimal(78))), {"id": 1, "wide": Decimal(7)}, {"id": 2, "wide": Decimal(-5)})
    with pytest.raises(StreamlingError) as failure:
        bench.read(topic, 2)
    assert "partition 0, offset 1 has a number that does not fit its column's type" in str(failure.value)
    assert "wide is u256 and has the bytes 0xFB" in str(failure.value)


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


def test_a_named_type_can_be_referenced(bench: KafkaBench) -> None:
    point = record("x", ("at", _logical("long", "timestamp-millis")), name="point", namespace="geo")
    topic = bench.topic()
    value = {"x": 1, "at": _NOON}
    topic.write(record(("a", point), ("b", ["null", "geo.point"])), {"a": value, "b": value})
    row = bench.rows(topic, 1)[0]
    assert row["a"] == row["b"] == {"x": 1, "at": _NOON.replace(tzinfo=None, microsecond=123000)}


def test_the_record_may_be_in_a_union(bench: KafkaBench) -> None:
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
        (("wide", _decimal(1001)), "field 'wide': is a decimal of 1001 digits"),
        (("tree", ["null", "row"]), "field 'tree': the Avro type 'row' contains itself"),
    ],
)
def test_an_unsupported_type_names_its_field(bench: KafkaBench, field: Any, message: str) -> None:
    topic = bench.topic()
    topic.register(record(field))
    with pytest.raises(InvalidPipeline, match=message):
        bench.begin(topic)
