from __future__ import annotations

import datetime as dt
import io
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest
from fastavro import schemaless_reader

from streamling.dev.services.avro import AvroEncoder, SchemaRegistry, as_json, decode, is_framed
from streamling.dev.services.registry import LocalRegistry
from streamling.errors import StreamlingError


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "row", "fields": [{"name": n, "type": t} for n, t in fields.items()]}


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}
UTC_MOMENT = dt.datetime(2024, 5, 1, 10, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("kind", "given", "stored"),
    [
        ("long", 7, 7),
        ("double", 7, 7.0),
        ("bytes", "\x00\xff", b"\x00\xff"),
        ({"type": "fixed", "name": "two", "size": 2}, "ab", b"ab"),
        ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, "B", "B"),
        (["null", "string"], None, None),
        (["null", "string"], "x", "x"),
        (["null", "string", "long"], 5, 5),
        (DECIMAL, Decimal("123456789012345678.90"), Decimal("123456789012345678.90")),
        (DECIMAL, "1.5", Decimal("1.50")),
        (["null", DECIMAL], 3, Decimal("3.00")),
        ({"type": "int", "logicalType": "date"}, "2024-05-01", dt.date(2024, 5, 1)),
        ({"type": "int", "logicalType": "date"}, 0, dt.date(1970, 1, 1)),
        ({"type": "long", "logicalType": "time-micros"}, "10:30:00", dt.time(10, 30)),
        ({"type": "long", "logicalType": "timestamp-millis"}, "2024-05-01T10:00:00Z", UTC_MOMENT),
        ({"type": "long", "logicalType": "timestamp-micros"}, "2024-05-01T10:00:00", UTC_MOMENT),
        ({"type": "long", "logicalType": "timestamp-millis"}, 1714557600000, UTC_MOMENT),
        ({"type": "array", "items": DECIMAL}, ["1", 2], [Decimal("1.00"), Decimal("2.00")]),
        ({"type": "map", "values": "bytes"}, {"a": "b"}, {"a": b"b"}),
        ({"type": "record", "name": "inner", "fields": [{"name": "d", "type": DECIMAL}]}, {"d": 1}, {"d": Decimal(1)}),
    ],
)
def test_json_values_become_those_of_the_schema(kind: Any, given: Any, stored: Any) -> None:
    schema = record(x=kind)
    framed = AvroEncoder(schema, 258)({"x": given})
    assert framed[:5] == b"\x00\x00\x00\x01\x02"
    assert is_framed(framed)
    assert schemaless_reader(io.BytesIO(framed[5:]), schema, None) == {"x": stored}


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"price": "dear", "at": 0}, r'^price is "dear", expected bytes \(decimal\)$'),
        ({"price": 1, "at": "soon"}, r'^at is "soon", expected long \(timestamp-millis\)$'),
        ({"price": 1}, "^at is missing, and the schema has no default for it$"),
        ({"price": 1, "at": 0, "extra": 1}, "^extra is not in the schema, which has price, at$"),
    ],
)
def test_an_invalid_value_is_named(row: dict[str, Any], complaint: str) -> None:
    encode = AvroEncoder(record(price=DECIMAL, at={"type": "long", "logicalType": "timestamp-millis"}), 1)
    with pytest.raises(ValueError, match=complaint):
        encode(row)


def test_values_are_shown_as_they_can_be_given() -> None:
    assert [as_json(value) for value in (Decimal("1.50"), UTC_MOMENT, b"\xff", dt.date(2024, 5, 1))] == [
        "1.50",
        "2024-05-01T10:00:00+00:00",
        "\xff",
        "2024-05-01",
    ]


@pytest.mark.services
def test_a_registered_schema_decodes_what_it_encoded(registry: LocalRegistry) -> None:
    client = SchemaRegistry(registry.url)
    schema = record(id="long", name=["null", "string"])
    subject = f"{uuid4()}/odd name-value"
    schema_id = client.register(subject, schema)
    assert client.register(subject, schema) == schema_id
    framed = AvroEncoder(schema, schema_id)({"id": 1, "name": "tea"})
    assert decode(SchemaRegistry(registry.url), framed) == {"id": 1, "name": "tea"}


@pytest.mark.services
def test_an_unknown_schema_is_reported_with_the_message_of_the_registry(registry: LocalRegistry) -> None:
    client = SchemaRegistry(registry.url)
    with pytest.raises(StreamlingError, match="the schema registry rejected /schemas/ids/987654: 404"):
        client.schema(987654)
