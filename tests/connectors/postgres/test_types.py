from __future__ import annotations

import pyarrow as pa
import pytest

from streamling.connectors.postgres.types import accepts, arrow_type_of, postgres_type
from streamling.errors import StreamlingError
from streamling.types.names import TYPE_KEY
from streamling.types.wide.layout import I256, U256, WideDecimal


@pytest.mark.parametrize(
    ("arrow", "expected"),
    [
        (pa.int8(), "SMALLINT"),
        (pa.int16(), "SMALLINT"),
        (pa.int32(), "INTEGER"),
        (pa.uint8(), "INTEGER"),
        (pa.uint16(), "INTEGER"),
        (pa.int64(), "BIGINT"),
        (pa.uint32(), "BIGINT"),
        (pa.uint64(), "NUMERIC(20,0)"),
        (pa.bool_(), "BOOLEAN"),
        (pa.float16(), "REAL"),
        (pa.float32(), "REAL"),
        (pa.float64(), "DOUBLE PRECISION"),
        (pa.string(), "TEXT"),
        (pa.large_string(), "TEXT"),
        (pa.string_view(), "TEXT"),
        (pa.binary(), "BYTEA"),
        (pa.large_binary(), "BYTEA"),
        (pa.binary_view(), "BYTEA"),
        (pa.binary(20), "BYTEA"),
        (pa.decimal128(20, 4), "NUMERIC(20,4)"),
        (pa.decimal256(76, 10), "NUMERIC(76,10)"),
        (U256, "NUMERIC(78,0)"),
        (I256, "NUMERIC(78,0)"),
        (WideDecimal(1000, 7), "NUMERIC(1000,7)"),
        (pa.list_(U256), "JSONB"),
        (pa.date32(), "DATE"),
        (pa.date64(), "DATE"),
        (pa.timestamp("s"), "TIMESTAMP"),
        (pa.timestamp("ns", "Europe/Berlin"), "TIMESTAMP"),
        (pa.time32("s"), "TIME"),
        (pa.time64("ns"), "TIME"),
        (pa.struct([("a", pa.int64())]), "JSONB"),
        (pa.list_(pa.int64()), "JSONB"),
        (pa.large_list(pa.int64()), "JSONB"),
        (pa.list_(pa.int64(), 2), "JSONB"),
        (pa.map_(pa.string(), pa.int64()), "JSONB"),
        (pa.dictionary(pa.int32(), pa.string()), "TEXT"),
        (pa.duration("us"), None),
        (pa.null(), None),
        (pa.month_day_nano_interval(), None),
    ],
)
def test_each_arrow_type_has_its_postgres_type(arrow: pa.DataType, expected: str | None) -> None:
    assert postgres_type(pa.field("v", arrow)) == expected


def test_a_physical_type_is_mapped_by_its_logical_type() -> None:
    field = pa.field("v", pa.int16(), metadata={TYPE_KEY: "uint8"})
    assert postgres_type(field) == "INTEGER"
    of_spark = pa.field("v", pa.binary(), metadata={"SPARK::metadata::json": f'{{"{TYPE_KEY}": "u256"}}'})
    assert postgres_type(of_spark) == "NUMERIC(78,0)"


@pytest.mark.parametrize(
    ("text", "arrow"),
    [
        ("text", pa.string()),
        ("varchar", pa.string()),
        ("VARCHAR(20)", pa.string()),
        ("char( 3 )", pa.string()),
        ("smallint", pa.int16()),
        ("integer", pa.int32()),
        ("int", pa.int32()),
        ("bigint", pa.int64()),
        ("real", pa.float32()),
        ("double  precision", pa.float64()),
        ("float", pa.float64()),
        ("boolean", pa.bool_()),
        ("bool", pa.bool_()),
        ("bytea", pa.binary()),
        ("date", pa.date32()),
        ("timestamp", pa.timestamp("us")),
        ("timestamptz", pa.timestamp("us", "UTC")),
        ("json", pa.string()),
        ("jsonb", pa.string()),
        ("numeric", pa.decimal128(38, 9)),
        ("NUMERIC(20, 4)", pa.decimal128(20, 4)),
        ("numeric(38)", pa.decimal128(38, 0)),
        ("numeric(76,2)", pa.decimal256(76, 2)),
        ("numeric(78)", WideDecimal(78, 0)),
    ],
)
def test_a_postgres_type_has_its_arrow_type(text: str, arrow: pa.DataType) -> None:
    assert arrow_type_of(text) == arrow


@pytest.mark.parametrize("text", ["hstore", "numeric(0)", "numeric(1001,0)", "text(3)", "int; DROP TABLE x"])
def test_an_unsupported_postgres_type_is_rejected_by_name(text: str) -> None:
    with pytest.raises(StreamlingError) as raised:
        arrow_type_of(text)
    assert f"'{text}' is not supported" in str(raised.value)
    assert not raised.value.internal


@pytest.mark.parametrize(
    ("arrow", "accepted", "refused"),
    [
        (pa.int64(), {"int8", "int4", "numeric", "float8"}, {"text", "bool", "float4", "timestamp"}),
        (pa.float32(), {"float4", "float8", "numeric"}, {"int4", "text"}),
        (pa.float64(), {"float8", "numeric"}, {"float4", "int8"}),
        (pa.decimal128(10, 2), {"numeric"}, {"int8", "float8", "text"}),
        (pa.uint64(), {"numeric", "int8"}, {"text"}),
        (pa.string(), {"text", "varchar", "bpchar", "uuid", "jsonb"}, {"int4", "bool", "bytea", "timestamp"}),
        (pa.binary(), {"bytea"}, {"text"}),
        (pa.bool_(), {"bool"}, {"int4", "text"}),
        (pa.timestamp("us"), {"timestamp", "timestamptz"}, {"date", "text"}),
        (pa.date32(), {"date", "timestamp"}, {"text", "int4"}),
        (pa.time64("us"), {"time"}, {"timestamp"}),
        (pa.list_(pa.int64()), {"jsonb", "json", "text"}, {"_int8", "int8"}),
        (pa.duration("us"), {"text"}, {"interval"}),
    ],
)
def test_an_existing_column_may_have_a_type_without_loss(
    arrow: pa.DataType, accepted: set[str], refused: set[str]
) -> None:
    field = pa.field("v", arrow)
    assert {name for name in accepted | refused if accepts(field, name, "X")} == accepted


def test_text_can_be_written_to_an_enum() -> None:
    assert accepts(pa.field("v", pa.string()), "mood", "E")
    assert not accepts(pa.field("v", pa.int32()), "mood", "E")
