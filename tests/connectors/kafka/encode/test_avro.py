"""Schemas from a registry become part of Spark SQL: their names must be valid, whatever the registry returns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from streamling.connectors.kafka.encode.avro import encoding
from streamling.errors import StreamlingError

HOSTILE = "x'), reflect('a', 'b"


def record(name: str, type_: Any) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": [{"name": name, "type": type_}]}


@pytest.mark.parametrize("name", ["{0}", HOSTILE, "a`b", "a b", "", "1a"])
def test_a_field_with_an_invalid_avro_name_is_rejected(name: str) -> None:
    inner = {**record(name, "long"), "name": "s"}
    struct = pa.struct([(name, pa.int32())])
    for schema, columns in (
        (record(name, "long"), pa.schema({name: pa.int32()})),
        (record("a", inner), pa.schema({"a": struct})),
        (record("a", {"type": "array", "items": inner}), pa.schema({"a": pa.list_(struct)})),
        (record("a", ["null", inner]), pa.schema({"a": struct})),
    ):
        with pytest.raises(StreamlingError, match="not a valid Avro name") as caught:
            encoding(schema, columns)
        assert not caught.value.internal


def test_names_in_other_scripts_are_valid() -> None:
    inner = {**record("größe", "long"), "name": "s"}
    made = encoding(record("ключ", inner), pa.schema({"ключ": pa.struct([("größe", pa.int32())])}))
    assert made.values == {"ключ": "IF(`ключ` IS NULL, NULL, named_struct('größe', CAST(`ключ`.`größe` AS BIGINT)))"}
