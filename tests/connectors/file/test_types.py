"""Every type of Parquet files, plain and nested, alone and together with a file of another unit or width.

Values are those that pyarrow reads, or there is an error with file, column and type.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamling.errors import StreamlingError
from tests.connectors.file.driver import Run, make_source

pytestmark = pytest.mark.spark

OLD, NEW = datetime(1066, 10, 14, 9, 0, 0, 123_000), datetime(2024, 2, 29, 23, 59, 59, 999_000)
NOON = time(12, 30, 15, 250_000)

#: name → type and values that all its units can hold
TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "bool": (pa.bool_(), [True, False]),
    **{f"i{n}": (getattr(pa, f"int{n}")(), [-(2 ** (n - 1)), 2 ** (n - 1) - 1]) for n in (8, 16, 32, 64)},
    **{f"u{n}": (getattr(pa, f"uint{n}")(), [0, 2**n - 1]) for n in (8, 16, 32, 64)},
    "f16": (pa.float16(), [1.5, -0.25]),
    "f32": (pa.float32(), [1.5, -0.25]),
    "f64": (pa.float64(), [0.1, -1e300]),
    "text": (pa.string(), ["", "ü\x00😀"]),
    "large_text": (pa.large_string(), ["x", "y"]),
    "text_view": (pa.string_view(), ["x", "a text that does not fit into a view"]),
    "bytes": (pa.binary(), [b"", b"\xff\x00"]),
    "large_bytes": (pa.large_binary(), [b"", b"\xff\x00"]),
    "fixed": (pa.binary(3), [b"abc", b"\xff\x00\x01"]),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), ["x", "y"]),
    "date32": (pa.date32(), [date(1, 1, 1), date(9999, 12, 31)]),
    "date64": (pa.date64(), [date(1, 1, 1), date(9999, 12, 31)]),
    "time_s": (pa.time32("s"), [time(0), time(23, 59, 59)]),
    "time_ms": (pa.time32("ms"), [NOON, time(23, 59, 59)]),
    "time_us": (pa.time64("us"), [NOON, time(23, 59, 59, 999_999)]),
    "time_ns": (pa.time64("ns"), [NOON, time(23, 59, 59, 999_999)]),
    "at_s": (pa.timestamp("s"), [OLD.replace(microsecond=0), NEW.replace(microsecond=0)]),
    "at_ms": (pa.timestamp("ms"), [OLD, NEW]),
    "at_us": (pa.timestamp("us"), [OLD, NEW]),
    "at_ns": (pa.timestamp("ns"), [datetime(1700, 1, 1), NEW]),
    "zoned_ms": (pa.timestamp("ms", "UTC"), [OLD.replace(tzinfo=UTC), NEW.replace(tzinfo=UTC)]),
    "zoned_us": (pa.timestamp("us", "Europe/Berlin"), [NEW.replace(tzinfo=UTC), OLD.replace(tzinfo=UTC)]),
    "zoned_ns": (pa.timestamp("ns", "UTC"), [NEW.replace(tzinfo=UTC), NEW.replace(tzinfo=UTC)]),
    "span_s": (pa.duration("s"), [timedelta(seconds=-1), timedelta(days=1)]),
    "span_ms": (pa.duration("ms"), [timedelta(milliseconds=-1500), timedelta(days=1)]),
    "span_us": (pa.duration("us"), [timedelta(microseconds=-1), timedelta(days=1)]),
    "span_ns": (pa.duration("ns"), [timedelta(microseconds=-1), timedelta(days=1)]),
    "uuid": (pa.uuid(), [UUID(int=1).bytes, UUID(int=2**128 - 1).bytes]),
    "json": (pa.json_(), ['{"a": 1.50}', "[]"]),
    "d9": (pa.decimal128(9, 2), [Decimal("1234567.89"), Decimal("-0.01")]),
    "d38": (pa.decimal128(38, 10), [Decimal("1234567890123456789012345678.0123456789"), Decimal(0)]),
    "nothing": (pa.null(), [None, None]),
}
#: types that Arrow reads for Spark
CONVERTED = ("f16", "time_s", "time_ms", "time_ns", "span_s", "span_ms", "span_ns", "uuid", "nothing")
#: how a type is nested in a column, with its values
SHAPES: dict[str, tuple[Any, Any]] = {
    "plain": (lambda t: t, lambda v: v),
    "list": (pa.list_, lambda v: [v, None]),
    "struct": (lambda t: pa.struct([("x", t), ("y", pa.int32())]), lambda v: {"x": v, "y": 1}),
    "map": (lambda t: pa.map_(pa.string(), t), lambda v: [("k", v), ("n", None)]),
    "deep": (
        lambda t: pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.list_(t)))])),
        lambda v: [{"m": [("k", [v])]}, None, {"m": []}],
    ),
}


def column(kind: pa.DataType, values: list[Any], shape: str) -> pa.Array:
    make_type, make_value = SHAPES[shape]
    stored = (
        kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    )  # pyarrow cannot build others in lists
    made = pa.array([make_value(values[0]), None, make_value(values[1])], make_type(stored))
    return made if stored == kind else made.cast(make_type(kind))


def plain(value: Any) -> Any:
    """Return a value without the class of its unit or width."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, datetime):  # pandas' timestamps are datetimes
        moment = value.to_pydatetime() if hasattr(value, "to_pydatetime") else value
        return moment.astimezone(UTC) if moment.tzinfo else moment
    if isinstance(value, timedelta):  # a number in Spark
        return value // timedelta(microseconds=1)
    if isinstance(value, UUID):
        return value.bytes
    return value.item() if hasattr(value, "item") else value


def read(spark: Any, path: Path, **fields: Any) -> list[dict[str, Any]]:
    run = Run(spark, make_source(path, format="parquet", parallelism=1, **fields))
    rows = run.rows()
    run.source.close()
    return [plain(row) for row in rows]


def stored(*paths: Path) -> list[dict[str, Any]]:
    """Return what pyarrow reads."""
    return [plain(row) for path in paths for row in pq.read_table(path).to_pylist()]


@pytest.mark.parametrize("shape", SHAPES)
def test_every_type_is_read_as_pyarrow_reads_it(spark: Any, tmp_path: Path, shape: str) -> None:
    table = pa.table({name: column(kind, values, shape) for name, (kind, values) in TYPES.items()})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path)
    assert read(spark, tmp_path) == stored(path)
    simple = [name for name in TYPES if name not in CONVERTED]
    pq.write_table(table.select(simple), path)
    assert read(spark, tmp_path) == stored(path)


#: types that may be in one column, file by file
TOGETHER = [
    ["at_s", "at_ms", "at_us", "at_ns"],
    ["zoned_ms", "zoned_us", "zoned_ns"],
    ["time_s", "time_ms", "time_us", "time_ns"],
    ["i8", "i16", "i32", "i64"],
    ["u8", "u16", "u32"],
    ["f16", "f32", "f64"],
    ["text", "large_text", "text_view", "dictionary", "json"],
    ["bytes", "large_bytes", "fixed", "uuid"],
    ["date32", "date64"],
    ["span_s", "span_ms", "span_us", "span_ns"],
]


@pytest.mark.parametrize("shape", SHAPES)
def test_files_of_different_units_and_widths(spark: Any, tmp_path: Path, shape: str) -> None:
    """File i has the i-th type of each group, and the last file the first type again."""
    paths = []
    for number in range(5):
        names = {group[0]: group[number % len(group)] for group in TOGETHER}
        columns = {name: column(*TYPES[kind], shape) for name, kind in names.items()}
        columns["nothing" if number else "text_or_nothing"] = column(*TYPES["nothing"], shape)
        columns["text_or_nothing"] = column(*TYPES["text" if number else "nothing"], shape)
        paths.append(tmp_path / f"{number}.parquet")
        pq.write_table(pa.table(columns), paths[-1])
    rows = read(spark, tmp_path)
    expected = stored(*paths)
    assert [{name: row[name] for name in want} for row, want in zip(rows, expected, strict=True)] == expected


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_impalas_timestamps_beside_others(spark: Any, tmp_path: Path, zone: str | None) -> None:
    kind = pa.timestamp("us")
    at = pa.table({"at": pa.array([OLD, None, NEW], kind), "in": pa.array([[NEW], None, []], pa.list_(kind))})
    pq.write_table(at, tmp_path / "0.parquet", use_deprecated_int96_timestamps=True)
    assert [row["at"] and row["at"].replace(tzinfo=None) for row in read(spark, tmp_path)] == [OLD, None, NEW]
    for number, unit in enumerate(("ns", "ms"), 1):
        moments = pa.array([NEW, None, NEW], pa.timestamp(unit, zone))
        pq.write_table(pa.table({"at": moments}), tmp_path / f"{number}.parquet")
    moments = [OLD, None, NEW, *[NEW, None, NEW] * 2]
    assert [row["at"] for row in read(spark, tmp_path)] == [
        moment and moment.replace(tzinfo=UTC if zone else None) for moment in moments
    ]


def test_nanoseconds_are_floored_everywhere(spark: Any, tmp_path: Path) -> None:
    numbers = [-1, 0, 1999, -1000, -1001]
    at = pa.array(numbers, pa.int64()).cast(pa.timestamp("ns"))
    nested = pa.ListArray.from_arrays(pa.array(range(6), pa.int32()), at)
    pq.write_table(pa.table({"at": at}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"at": at, "in": nested}), tmp_path / "b.parquet")
    rows = read(spark, tmp_path)
    expected = [datetime(1970, 1, 1) + timedelta(microseconds=number // 1000) for number in numbers]
    assert [row["at"] for row in rows] == expected * 2
    assert [row["in"][0] for row in rows[5:]] == expected


def test_large_files_are_split_with_the_same_values(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamling.connectors.file.reader.SPLIT_BYTES", 100)
    for name, int96 in (("a", False), ("b", True)):
        shaped = {
            f"{name} {shape}": column(*TYPES[name], shape)
            for name in ("time_ms", "at_ns", "f16", "span_ns", "uuid", "json")
            for shape in SHAPES
        }
        pq.write_table(
            pa.table({"id": [1, 2, 3], **shaped}), tmp_path / f"{name}.parquet",
            row_group_size=1, use_deprecated_int96_timestamps=int96,
        )  # fmt: skip
    assert read(spark, tmp_path) == stored(tmp_path / "a.parquet", tmp_path / "b.parquet")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([3_000_000], pa.int32()).cast(pa.date32()), "years 1 to 9999"),
        (pa.array([3_000_000], pa.int32()).view(pa.date32()), "years 1 to 9999"),
        (pa.array([-(2**60)], pa.timestamp("us")), "years 1 to 9999"),
        (pa.array([2**60], pa.timestamp("us", "UTC")), "years 1 to 9999"),
        (pa.array([[2**60]], pa.list_(pa.timestamp("us"))), "years 1 to 9999"),
        (pa.array([{"f": 2**60, "h": 1.5}], pa.struct([("f", pa.timestamp("us")), ("h", pa.float16())])), "years 1 to"),
        (pa.Array.from_buffers(pa.string(), 1, [None, *pa.array([b"\xff"]).buffers()[1:]]), "UTF-8"),
        (pa.array([[b"\xff"]], pa.list_(pa.binary())).cast(pa.list_(pa.binary())), None),
    ],
)  # fmt: skip
def test_values_out_of_range_are_named(spark: Any, tmp_path: Path, values: pa.Array, expected: str) -> None:
    pq.write_table(pa.table({"my column": values}), tmp_path / "a.parquet")
    source = make_source(tmp_path, format="parquet")
    if expected is None:
        assert Run(spark, source).rows() == stored(tmp_path / "a.parquet")
        return
    with pytest.raises(Exception) as caught:
        Run(spark, source).rows()
    error = caught.value if isinstance(caught.value, StreamlingError) else source.translate_error(caught.value)
    assert "a.parquet'" in str(error)
    assert "column 'my column'" in str(error)
    assert expected in str(error)


def test_incompatible_types_are_named(tmp_path: Path) -> None:
    for kind, other in [("at_us", "zoned_us"), ("i64", "u64"), ("i64", "f64"), ("text", "bytes"), ("d9", "d38")]:
        for shape in SHAPES:
            for number, name in enumerate((kind, other)):
                pq.write_table(pa.table({"c": column(*TYPES[name], shape)}), tmp_path / f"{number}.parquet")
            with pytest.raises(
                StreamlingError, match=r"column 'c' has type .* in '.*1.parquet' and .* in another file"
            ):
                make_source(tmp_path, format="parquet").schema()


def test_a_number_beside_a_duration_is_named(tmp_path: Path) -> None:
    for number, name in enumerate(("i64", "span_us")):
        pq.write_table(pa.table({"c": column(*TYPES[name], "plain")}), tmp_path / f"{number}.parquet")
    with pytest.raises(
        StreamlingError, match=r"column 'c' has type duration.* in '.*1.parquet' and .* in another file"
    ):
        make_source(tmp_path, format="parquet").schema()
