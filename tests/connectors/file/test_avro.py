"""Avro files: their headers, their blocks, and Spark reading them."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pytest

from streamling.connectors.file import reader
from streamling.connectors.file.formats.avro import blocks, take_sample
from streamling.errors import StreamlingError
from tests.connectors.file.driver import Run, make_source, split_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "small", "type": ["null", "int"]},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "DONE"]}},
        {"name": "before", "type": ["null", "shop.State"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "notes", "type": {"type": "map", "values": "double"}},
        {"name": "mixed", "type": ["int", "long"]},
        {"name": "inner", "type": {"type": "record", "name": "Inner", "fields": [{"name": "ok", "type": "boolean"}]}},
    ],
}


def order(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "small": None if number % 2 else number,
        "price": Decimal("12.50"),
        "day": date(2024, 2, 29),
        "at": datetime(2024, 2, 29, 12, 0, 0, 1, tzinfo=UTC),
        "local": datetime(2024, 2, 29, 12, 0, 0),
        "state": "NEW",
        "before": "DONE",
        "tags": ["a", "b"],
        "notes": {"x": 1.5},
        "mixed": 2**40,
        "inner": {"ok": True},
    }


def avro(rows: list[dict[str, Any]], schema: dict[str, Any] = SCHEMA, **options: Any) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, schema, rows, **options)
    return out.getvalue()


def test_columns_come_from_the_header() -> None:
    sample = take_sample(io.BytesIO(avro([])), "a.avro", 0)
    assert sample is not None
    assert sample.fields == [
        pa.field("id", pa.int64()),
        pa.field("small", pa.int32()),
        pa.field("price", pa.decimal128(10, 2)),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("local", pa.timestamp("us")),
        pa.field("state", pa.string()),
        pa.field("before", pa.string()),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("notes", pa.map_(pa.string(), pa.float64())),
        pa.field("mixed", pa.int64()),
        pa.field("inner", pa.struct({"ok": pa.bool_()})),
    ]


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_each_block_is_a_complete_file_and_together_they_hold_all_rows(codec: str) -> None:
    content = avro([order(number) for number in range(200)], codec=codec, sync_interval=200)
    parts = list(blocks(io.BytesIO(content), "a.avro", 0, 1000))
    assert len(parts) > 3
    assert [row["id"] for part, _ in parts for row in fastavro.reader(io.BytesIO(part))] == list(range(200))
    end = parts[1][1]
    assert end is not None
    rest = [
        row["id"] for part, _ in blocks(io.BytesIO(content), "", end, 1000) for row in fastavro.reader(io.BytesIO(part))
    ]
    assert rest == list(range(200 - len(rest), 200))
    assert 0 < len(rest) < 200


@pytest.mark.parametrize("content", [b"PAR1", b"Obj\x01", b"Obj\x01\x02\x16avro.schema\x04{}", b"Obj\x01\xff\xff"])
def test_an_invalid_avro_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.avro").write_bytes(content)
    with pytest.raises(StreamlingError, match=r"a\.avro' is not a valid Avro file"):
        make_source(tmp_path, format="avro").schema()


def test_recursive_types_are_rejected(tmp_path: Path) -> None:
    tree = {"type": "record", "name": "Tree", "fields": [{"name": "left", "type": ["null", "Tree"]}]}
    (tmp_path / "a.avro").write_bytes(avro([], tree))
    with pytest.raises(StreamlingError, match="'Tree' contains itself"):
        make_source(tmp_path, format="avro").schema()


def test_the_avro_connector_is_requested(tmp_path: Path) -> None:
    sources = {format: make_source(tmp_path, format=format) for format in ("avro", "csv")}
    needs = {format: source.spark_packages(source.options) for format, source in sources.items()}
    assert needs == {"avro": {"avro"}, "csv": frozenset()}


@pytest.mark.spark
def test_spark_reads_avro_files_whole_and_in_splits(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = {**SCHEMA, "fields": [*SCHEMA["fields"], {"name": "extra", "type": "string"}]}
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "big.avro").write_bytes(avro([order(number) for number in range(100)], sync_interval=100))
    (folder / "newer.avro").write_bytes(avro([{**order(100), "extra": "x"}], newer))
    split_files(monkeypatch, 400)
    monkeypatch.setitem(reader.BATCH_BYTES, "avro", 1000)
    source = make_source(folder, format="avro")
    run = Run(spark, source)
    batches = []
    while (table := run.step()) is not None:
        batches.append(table.to_pylist())
    source.close()
    rows = {row["id"]: row for batch in batches for row in batch}
    assert len(batches) > 2
    assert sorted(rows) == list(range(101))
    assert rows[2]["small"] == 2
    assert rows[3]["small"] is None
    assert rows[100]["extra"] == "x"
    assert rows[1] == {
        "id": 1, "small": None, "price": Decimal("12.50"), "day": date(2024, 2, 29),
        "at": datetime(2024, 2, 29, 12, 0, 0, 1, tzinfo=UTC), "local": datetime(2024, 2, 29, 12),
        "state": "NEW", "before": "DONE", "tags": ["a", "b"],
        "notes": [("x", 1.5)], "mixed": 2**40, "inner": {"ok": True}, "extra": None,
    }  # fmt: skip
