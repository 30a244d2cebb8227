"""Avro schemas as Arrow columns, without Spark; that Spark agrees is tested with the Kafka source."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from streamling.errors import StreamlingError
from streamling.types.avro import AvroRecord, primary_key_of, record_of
from streamling.types.wide.layout import I256, U256, WideDecimal


def _of(*types: Any) -> AvroRecord:
    return AvroRecord.of(
        {"type": "record", "name": "r", "fields": [{"name": f"c{n}", "type": t} for n, t in enumerate(types)]}
    )


def _decimal(precision: int, scale: int = 0) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


@pytest.mark.parametrize(
    ("avro", "arrow", "nullable"),
    [
        ("null", pa.null(), True),
        ("long", pa.int64(), False),
        ({"type": "string"}, pa.string(), False),
        ({"type": {"type": "long", "logicalType": "timestamp-millis"}}, pa.timestamp("ms"), False),
        (["null", {"type": "int", "logicalType": "date"}], pa.date32(), True),
        ({"type": "string", "logicalType": "unheard-of"}, pa.string(), False),
        (["float", "double"], pa.float64(), False),
        (["null"], pa.null(), True),
        ({"type": "fixed", "name": "d", "size": 12, "logicalType": "duration"}, pa.binary(12), False),
        ({"type": "bytes", "logicalType": "decimal", "precision": 5}, pa.decimal128(5, 0), False),
        (_decimal(39, 2), pa.decimal256(39, 2), False),
        (_decimal(76), pa.decimal256(76, 0), False),
        (_decimal(77), U256, False),
        (_decimal(78), U256, False),
        (_decimal(78, 1), WideDecimal(78, 1), False),
        (_decimal(79), WideDecimal(79, 0), False),
        ({**_decimal(77), "streamling.type": "i256"}, I256, False),
    ],
)
def test_types(avro: Any, arrow: pa.DataType, nullable: bool) -> None:
    [column] = _of(avro).columns
    assert (column.field.type, column.field.nullable) == (arrow, nullable)


def test_the_decoder_gets_types_without_a_zone() -> None:
    record = _of({"type": "long", "logicalType": "timestamp-micros"}, {"type": "int", "logicalType": "time-millis"})
    assert [field["type"] for field in record.reader["fields"]] == [
        {"type": "long", "logicalType": "local-timestamp-micros"},
        "int",
    ]
    in_a_day = "IF({0} NOT BETWEEN 0 AND 86399999, NULL, time_from_millis({0}))"
    assert [column.value for column in record.columns] == [None, in_a_day]


def test_conversions_reach_into_nested_types() -> None:
    identifier = {"type": "string", "logicalType": "uuid"}
    inner = {"type": "record", "name": "inner", "fields": [{"name": "id", "type": identifier}]}
    [column] = _of({"type": "array", "items": ["null", inner]}).columns
    assert column.value == (
        "transform({0}, _item1 -> IF(_item1 IS NULL, NULL, named_struct('id', unhex(replace(_item1.`id`, '-', '')))))"
    )


def test_names_are_found_in_their_namespace() -> None:
    point = {"type": "record", "name": "point", "namespace": "geo", "fields": [{"name": "x", "type": "long"}]}
    line = {"type": "record", "name": "line", "namespace": "geo", "fields": [{"name": "to", "type": "point"}]}
    record = _of(point, line, "geo.point")
    assert record.columns[2].field.type == pa.struct([pa.field("x", pa.int64(), False)])


@pytest.mark.parametrize(
    ("avro", "message"),
    [
        ("nowhere", "field 'c0': the Avro type 'nowhere' is not defined"),
        (["null", "r"], "field 'c0': the Avro type 'r' contains itself"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 1001}, "field 'c0': is a decimal of 1001 digits"),
    ],
)
def test_an_unsupported_avro_type_names_its_field(avro: Any, message: str) -> None:
    with pytest.raises(StreamlingError, match=message) as caught:
        _of(avro)
    assert not caught.value.internal


def test_only_records_have_columns() -> None:
    record = {"type": "record", "name": "r", "fields": []}
    assert record_of(["null", record]) == record
    with pytest.raises(StreamlingError, match="is not a record"):
        record_of({"type": "array", "items": "long"})


@pytest.mark.parametrize(
    ("record", "key"),
    [
        ({"doc": json.dumps({"primaryKeys": ["a", "b"]})}, ("a", "b")),
        ({"connect.doc": json.dumps({"primaryKeys": ["a"]})}, ("a",)),
        ({"doc": "for people", "connect.doc": json.dumps({"primaryKeys": ["a"]})}, ("a",)),
        ({"doc": json.dumps({"primaryKeys": "a"})}, ()),
        ({}, ()),
    ],
)
def test_the_documentation_may_name_the_key(record: Any, key: tuple[str, ...]) -> None:
    assert primary_key_of(record) == key
