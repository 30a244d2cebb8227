"""Random tables in files of all formats and layouts, read through the source; and files with changed bytes."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import shutil
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamling.errors import StreamlingError
from tests.connectors.file.driver import make_source, rows_or_error
from tests.fuzz.budget import SECONDS, rounds

pytestmark = pytest.mark.spark

EPOCH = datetime(1970, 1, 1)


def some_moment(rng: random.Random) -> datetime:
    # within the range of nanoseconds, in whole seconds so that every unit can hold it
    return EPOCH + timedelta(seconds=rng.randint(-8 * 10**9, 9 * 10**9))


def some_text(rng: random.Random) -> str:
    return "".join(
        rng.choices(["a", '"', ",", "\n", "\r\n", "ü", "😀", "\\", " ", "\x00", "null", "{", "}"], k=rng.randint(0, 6))
    )


#: families of types that may be mixed in one column, file by file, and a value that fits all of a family
FAMILIES: list[tuple[list[pa.DataType], Callable[[random.Random], Any]]] = [
    ([pa.bool_()], lambda rng: rng.random() < 0.5),
    ([pa.int8(), pa.int16(), pa.int32(), pa.int64()], lambda rng: rng.randint(-128, 127)),
    ([pa.int64()], lambda rng: rng.randint(-(2**63), 2**63 - 1)),
    ([pa.uint8(), pa.uint16(), pa.uint32()], lambda rng: rng.randint(0, 255)),
    ([pa.uint64()], lambda rng: rng.randint(0, 2**64 - 1)),
    ([pa.float16(), pa.float32(), pa.float64()], lambda rng: rng.randint(-1000, 1000) / 4),
    ([pa.float64()], lambda rng: rng.uniform(-1e9, 1e9)),
    ([pa.string(), pa.large_string(), pa.dictionary(pa.int16(), pa.string())], some_text),
    ([pa.binary(), pa.large_binary()], lambda rng: rng.randbytes(rng.randint(0, 5))),
    ([pa.date32()], lambda rng: date.fromordinal(rng.randint(1, date(9999, 12, 31).toordinal()))),
    ([pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")], lambda rng: time(rng.randrange(24), 59, 1)),
    ([pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")], some_moment),
    ([pa.timestamp(unit, "UTC") for unit in ("ms", "us", "ns")], lambda rng: some_moment(rng).replace(tzinfo=UTC)),
    ([pa.decimal128(12, 3)], lambda rng: Decimal(rng.randint(-(10**12) + 1, 10**12 - 1)).scaleb(-3)),
    ([pa.null()], lambda rng: None),
]  # fmt: skip


def column_maker(
    rng: random.Random, depth: int = 0
) -> tuple[Callable[[random.Random], pa.DataType], Callable[[random.Random], Any]]:
    """A type, chosen for each file, and values for it."""
    shape = rng.choice(["plain"] * 4 + ["list", "struct", "map"]) if depth < 2 else "plain"
    if shape == "plain":
        kinds, value = rng.choice(FAMILIES)
        return (lambda rng: rng.choice(kinds)), (lambda rng: None if rng.random() < 0.2 else value(rng))
    kind, value = column_maker(rng, depth + 1)
    if shape == "list":
        return (lambda rng: pa.list_(kind(rng))), lambda rng: rng.choice(
            [None, [value(rng) for _ in range(rng.randint(0, 3))]]
        )
    if shape == "struct":
        return (lambda rng: pa.struct([("x", kind(rng)), ("y", pa.int32())])), lambda rng: rng.choice(
            [None, {"x": value(rng), "y": rng.randint(0, 9)}]
        )
    return (lambda rng: pa.map_(pa.string(), kind(rng))), lambda rng: rng.choice(
        [None, [(str(i), value(rng)) for i in range(rng.randint(0, 2))]]
    )


def plain(value: Any) -> Any:
    """A value without the class that represents its unit or width."""
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, datetime) and hasattr(value, "to_pydatetime"):
        value = value.to_pydatetime()
    if isinstance(value, datetime) and value.tzinfo:
        return value.astimezone(UTC)
    return value.item() if hasattr(value, "item") else value


def outcome(spark: Any, source: Any) -> list[dict[str, Any]] | StreamlingError:
    found = rows_or_error(spark, source)
    return found if isinstance(found, StreamlingError) else [plain(row) for row in found]


def emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


# ── Parquet ─────────────────────────────────────────────────────────────────────────────────────────────────


def save_parquet(rng: random.Random, table: pa.Table, path: Path) -> None:
    pq.write_table(
        table,
        path,
        compression=rng.choice(["none", "snappy", "gzip", "zstd", "lz4"]),
        row_group_size=rng.choice([1, 3, 1000]),
        use_dictionary=rng.random() < 0.5,
        write_statistics=rng.random() < 0.5,
        data_page_version=rng.choice(["1.0", "2.0"]),
        store_schema=True,
    )


def test_random_parquet_files(spark: Any, tmp_path: Path) -> None:
    for rng in rounds(SECONDS / 4):
        folder = emptied(tmp_path / "in")
        makers = [column_maker(rng) for _ in range(rng.randint(1, 6))]
        expected: list[dict[str, Any]] = []
        for number in range(rng.randint(1, 3)):
            rows = rng.randint(0, 8)
            columns = {
                f"c{i}": pa.array([value(rng) for _ in range(rows)], kind(rng))
                for i, (kind, value) in enumerate(makers)
            }
            table = pa.table({"id": pa.array(range(rows), pa.int64()), **columns})
            save_parquet(rng, table, folder / f"{number}.parquet")
            expected += [plain(row) for row in pq.read_table(folder / f"{number}.parquet").to_pylist()]
        found = outcome(spark, make_source(folder, format="parquet", parallelism=1))
        assert found == expected


# ── the other formats ───────────────────────────────────────────────────────────────────────────────────────

#: values that CSV, JSON and Avro files have in common
COLUMNS: dict[str, tuple[Any, Callable[[random.Random], Any]]] = {
    "n": ("long", lambda rng: rng.randint(-(2**63), 2**63 - 1)),
    "d": ("double", lambda rng: rng.uniform(-1e9, 1e9)),
    "b": ("boolean", lambda rng: rng.random() < 0.5),
    "t": ("string", lambda rng: "x" + some_text(rng)),
    "day": ({"type": "int", "logicalType": "date"}, lambda rng: date.fromordinal(rng.randint(1, 3_000_000))),
    "at": (
        {"type": "long", "logicalType": "timestamp-micros"},
        lambda rng: (some_moment(rng) + timedelta(microseconds=rng.randrange(10**6))).replace(tzinfo=UTC),
    ),
}


def as_text(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(sep="T", timespec="microseconds")
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, date) else repr(value) if isinstance(value, float) else value


def save_rows(rng: random.Random, rows: list[dict[str, Any]], names: list[str], path: Path, format: str) -> None:
    if format == "avro":
        fields = [{"name": name, "type": ["null", COLUMNS[name][0]]} for name in names]
        codec, interval = rng.choice(["null", "deflate"]), rng.choice([1, 16000])
        with path.open("wb") as stream:
            fastavro.writer(
                stream, {"type": "record", "name": "r", "fields": fields}, rows, codec, sync_interval=interval
            )
        return
    if format == "json":
        texts = [
            {name: as_text(value) if isinstance(value, date) else value for name, value in row.items()} for row in rows
        ]
        ascii_only = rng.random() < 0.5
        content = "\n".join(json.dumps(row, ensure_ascii=ascii_only) for row in texts).encode()
    else:
        text = io.StringIO(newline="")
        some_null = any(value is None for row in rows for value in row.values())  # would be quoted, like a text
        quoting = rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_MINIMAL if some_null else csv.QUOTE_ALL])
        writer = csv.writer(text, lineterminator=rng.choice(["\n", "\r\n"]), quoting=quoting)
        writer.writerows([names, *([as_text(row[name]) for name in names] for row in rows)])
        content = text.getvalue().encode()
    packed = rng.choice(["", ".gz", ".zst"])
    if packed:
        content = gzip.compress(content) if packed == ".gz" else pa.Codec("zstd").compress(content, asbytes=True)
    path.with_name(path.name + packed).write_bytes(content)


def some_rows(rng: random.Random, names: list[str], nulls: float) -> list[dict[str, Any]]:
    return [
        {name: None if rng.random() < nulls else COLUMNS[name][1](rng) for name in names}
        for _ in range(rng.randint(1, 8))
    ]


@pytest.mark.parametrize("format", ["csv", "json", "avro"])
def test_random_files(spark: Any, tmp_path: Path, format: str) -> None:
    for rng in rounds(SECONDS / 8):
        folder = emptied(tmp_path / "in")
        names = rng.sample(sorted(COLUMNS), rng.randint(1, len(COLUMNS)))
        expected: list[dict[str, Any]] = []
        for number in range(rng.randint(1, 3)):
            # without a value a column has no type; a single empty column is a blank line in CSV
            first = {name: COLUMNS[name][1](rng) for name in names}
            rows = [first, *some_rows(rng, names, 0 if format == "csv" and len(names) == 1 else 0.2)]
            save_rows(rng, rows, names, folder / f"{number}.{format}", format)
            expected += rows
        found = outcome(spark, make_source(folder, format=format, parallelism=1))
        assert not isinstance(found, StreamlingError), found
        assert [{name: row[name] for name in names} for row in found] == expected


# ── changed bytes ───────────────────────────────────────────────────────────────────────────────────────────


def mutated(rng: random.Random, content: bytes) -> bytes:
    data = bytearray(content)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(data))
        if rng.random() < 0.3:
            del data[at : at + rng.choice([1, 8, len(data)])]
        else:
            data[at : at + 1] = bytes([data[at] ^ 1 << rng.randrange(8)])
        if not data:
            return b"\0"
    return bytes(data)


def of_pyarrow(path: Path) -> list[dict[str, Any]] | None:
    try:
        table = pq.read_table(path, page_checksum_verification=False)
        table.validate(full=True)
        return [plain(row) for row in table.to_pylist()]
    except (pa.ArrowException, OSError, OverflowError, ValueError):
        return None


def of_fastavro(path: Path) -> list[dict[str, Any]] | None:
    try:
        with path.open("rb") as stream:
            return [dict(row) for row in fastavro.reader(stream)]
    except Exception:
        return None


@pytest.mark.parametrize("format", ["parquet", "avro"])
def test_changed_bytes_are_noticed_or_read_as_others_read_them(spark: Any, tmp_path: Path, format: str) -> None:
    for rng in rounds(SECONDS / 8):
        folder = emptied(tmp_path / "in")
        path = folder / f"a.{format}"
        names = sorted(set(COLUMNS) - {"at"})
        rows = [{name: COLUMNS[name][1](rng) for name in names} for _ in range(5)]
        if format == "avro":
            save_rows(rng, rows, names, path, format)
        else:
            save_parquet(rng, pa.Table.from_pylist(rows), path)
        path.write_bytes(mutated(rng, path.read_bytes()))
        found = outcome(spark, make_source(folder, format=format, parallelism=1))
        expected = of_pyarrow(path) if format == "parquet" else of_fastavro(path)
        if isinstance(found, StreamlingError):
            assert "a." + format in str(found), found
        elif expected is not None:
            assert found == expected
        else:
            assert len(found) >= len(rows), found
