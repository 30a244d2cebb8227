"""Decimals of more than 38 digits in Parquet and Avro files, against Python's own decimals."""

from __future__ import annotations

import io
import os
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamling.errors import StreamlingError
from streamling.pipeline.config import AppConfig
from streamling.types.wide.layout import I256, U256, WideDecimal
from tests.connectors.file.driver import Run, make_source, split_files
from tests.types.wide.wide_numbers import edges, held, some

SEED = int(os.environ.get("WIDE_SEED", "11"))
ROWS = int(os.environ.get("WIDE_ROWS", "40"))

#: whose executors read files with odd names themselves
CLUSTER = AppConfig.model_validate({"spark": {"master": "spark://127.0.0.1:7077"}})


def decimal(number: int, type_: pa.DataType) -> Decimal:
    """Return a number of the type with its point, with any number of digits."""
    return Decimal(held(type_).text(number))


def decimals(type_: pa.DataType, chance: random.Random) -> list[Decimal | None]:
    """Return as many values as there are rows, including the limits and null."""
    known: list[int | None] = [*edges(type_), *some(type_, ROWS, chance), None]
    picked = [*known, *chance.choices(known, k=ROWS)][: 2 * ROWS]
    return [None if number is None else decimal(number, type_) for number in picked]


def meant(value: Any, type_: pa.DataType) -> Any:
    """Return a value that Spark holds, with decimals for its wide numbers."""
    if value is None:
        return None
    if pa.types.is_struct(type_):
        return {field.name: meant(value[field.name], field.type) for field in type_}
    if pa.types.is_map(type_):
        return [(meant(key, type_.key_type), meant(item, type_.item_type)) for key, item in value]
    if pa.types.is_list(type_):
        return [meant(item, type_.value_type) for item in value]
    return decimal(held(type_).decode(value), type_) if isinstance(value, bytes) else value


def read(spark: Any, path: Path, **fields: Any) -> list[dict[str, Any]]:
    """Return all rows, in the order of their ids."""
    run = Run(spark, make_source(path, **fields))
    types = {field.name: field.type for field in run.source.schema()}
    rows = run.rows()
    run.source.close()
    found = [{name: meant(value, types[name]) for name, value in row.items()} for row in rows]
    return sorted(found, key=lambda row: row["id"])


# ── Parquet ──────────────────────────────────────────────────────────────────────────────────────────────────

FLAT = {
    "short": pa.decimal256(39, 0),
    "whole": pa.decimal256(76, 0),
    "half": pa.decimal256(76, 38),
    "small": pa.decimal256(76, 76),
}
_D = FLAT["half"]
NESTED = {
    "l": pa.list_(_D),
    "s": pa.struct([("it's `d`", _D), ("n", pa.int64()), ("inner", pa.struct([("e", pa.list_(_D))]))]),
    "m": pa.map_(pa.string(), _D),
    "k": pa.map_(_D, pa.struct([("v", _D)])),
}


def parquet_table(chance: random.Random) -> pa.Table:
    columns = {name: pa.array(decimals(type_, chance), type_) for name, type_ in FLAT.items()}
    values = decimals(_D, chance)
    known = [Decimal(0) if value is None else value for value in values]
    nested = {
        "l": [None if value is None else [value, None] for value in values],
        "s": [
            None if n % 7 == 0 else {"it's `d`": value, "n": n, "inner": None if n % 3 == 0 else {"e": [value, None]}}
            for n, value in enumerate(values)
        ],
        "m": [None if value is None else [("a", value), ("b", None)] for value in values],
        "k": [[(value, {"v": None if n % 2 else value})] for n, value in enumerate(known)],
    }
    columns |= {name: pa.array(values, NESTED[name]) for name, values in nested.items()}
    return pa.table({"id": pa.array(range(len(values)), pa.int64()), **columns})


@pytest.mark.spark
@pytest.mark.parametrize("way", ["whole", "in pieces", "by executors"])
def test_parquet_decimals_keep_all_their_digits(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    print(f"seed {SEED}")
    table = parquet_table(random.Random(SEED))
    half = len(table) // 2
    odd = ":" if way == "by executors" else ""
    pq.write_table(table.slice(0, half), tmp_path / f"a{odd}.parquet", row_group_size=20)
    # a file with columns in another order, one of them missing, and plain values
    rest = table.slice(half).drop_columns(["short"]).select([*reversed(table.drop_columns(["short"]).column_names)])
    pq.write_table(rest, tmp_path / f"b{odd}.parquet", use_dictionary=False)
    if way == "in pieces":
        split_files(monkeypatch, 100)
    expected = table.to_pylist()
    for row in expected[half:]:
        row["short"] = None
    config = CLUSTER if way == "by executors" else AppConfig()
    assert read(spark, tmp_path, format="parquet", config=config) == expected


@pytest.mark.spark
def test_files_of_one_scale_and_different_digits_are_read_together(spark: Any, tmp_path: Path) -> None:
    for digits in (40, 76, 50):
        table = pa.table(
            {"id": [digits], "d": pa.array([Decimal(f"-{'9' * (digits - 2)}.99")], pa.decimal256(digits, 2))}
        )
        pq.write_table(table, tmp_path / f"{digits}.parquet")
    source = make_source(tmp_path, format="parquet")
    assert source.schema().field("d").type == pa.decimal256(76, 2)
    found = read(spark, tmp_path, format="parquet")
    assert [row["d"] for row in found] == [Decimal(f"-{'9' * (digits - 2)}.99") for digits in (40, 50, 76)]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("later", "message"),
    [
        (
            pa.array([Decimal(1)], pa.decimal256(50, 3)),
            "column 'd' has type decimal256(50, 3), expected decimal256(50, 2)",
        ),
        (
            pa.array([Decimal(1)], pa.decimal256(51, 2)),
            "column 'd' has type decimal256(51, 2), expected decimal256(50, 2)",
        ),
        (pa.array([b"12345"]), "column 'd' has type binary, expected decimal256(50, 2)"),
        (
            pa.array([Decimal(1)], pa.decimal128(20, 2)),
            "column 'd' has type decimal128(20, 2), expected decimal256(50, 2)",
        ),
    ],
    ids=["scale", "digits", "bytes", "narrow"],
)
def test_a_later_file_with_another_type_in_the_column_is_rejected(
    spark: Any, tmp_path: Path, later: pa.Array, message: str
) -> None:
    pq.write_table(pa.table({"d": pa.array([Decimal(1)], pa.decimal256(50, 2))}), tmp_path / "a.parquet")
    source = make_source(tmp_path, format="parquet")
    source.schema()
    pq.write_table(pa.table({"d": later}), tmp_path / "b.parquet")
    with pytest.raises(StreamlingError) as caught:
        Run(spark, source).rows()
    assert f"b.parquet': {message}" in str(caught.value)


def test_files_with_different_list_types_are_named_before_the_start(tmp_path: Path) -> None:
    for name, scale in (("a", 2), ("b", 3)):
        column = pa.array([[Decimal(1)]], pa.list_(pa.decimal256(50, scale)))
        pq.write_table(pa.table({"d": column}), tmp_path / f"{name}.parquet")
    message = (
        r"column 'd' has type list<decimal256\(50, 3\)> in '.*b\.parquet' and list<decimal256\(50, 2\)> in another file"
    )
    with pytest.raises(StreamlingError, match=message):
        make_source(tmp_path, format="parquet").schema()


def test_a_parquet_decimal_with_more_digits_than_arrow_supports_is_reported_with_its_file(tmp_path: Path) -> None:
    out = io.BytesIO()
    pq.write_table(pa.table({"d": pa.array([Decimal(1)], pa.decimal256(76, 0))}), out, store_schema=False)
    # pyarrow cannot write such a file: replace 32 bytes and 76 digits in the footer with 33 and 78, in Thrift's
    # encoding
    content = out.getvalue()
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    footer = content[start:].replace(b"\x15\x40", b"\x15\x42", 1).replace(b"\x98\x01", b"\x9c\x01")
    (tmp_path / "a.parquet").write_bytes(content[:start] + footer)
    with pytest.raises(StreamlingError, match=r"a\.parquet' has a decimal of 78 digits, but .* at most 76"):
        make_source(tmp_path, format="parquet").schema()


# ── Avro ─────────────────────────────────────────────────────────────────────────────────────────────────────


def avro_decimal(precision: int, scale: int = 0, **more: Any) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale, **more}


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    fields = (("id", "long"), *fields)
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields]}


AVRO = {
    "a": (avro_decimal(39), pa.decimal256(39, 0)),
    "u": (avro_decimal(78), U256),
    "i": (avro_decimal(77, **{"streamling.type": "i256"}), I256),
    "w": (avro_decimal(1000, 999), WideDecimal(1000, 999)),
    "f": ({**avro_decimal(76, 20), "type": "fixed", "name": "F", "size": 40}, pa.decimal256(76, 20)),
}
_AVRO_FIELDS = [
    *((name, ["null", kind]) for name, (kind, _) in AVRO.items()),
    ("again", ["null", "F"]),
    ("plain", avro_decimal(10, 2)),
    ("l", {"type": "array", "items": ["null", "F"]}),
    ("m", {"type": "map", "values": avro_decimal(76, 20)}),
    ("s", ["null", {"type": "record", "name": "S", "fields": [{"name": "x", "type": "F"}]}]),
]


def avro_rows(chance: random.Random) -> list[dict[str, Any]]:
    columns = {name: decimals(type_, chance) for name, (_, type_) in AVRO.items()}
    rows = []
    for id in range(2 * ROWS):
        row: dict[str, Any] = {"id": id, **{name: values[id] for name, values in columns.items() if id < len(values)}}
        f = row.get("f")
        zero = Decimal("0E-20") if f is None else f
        more = {
            "again": f,
            "plain": Decimal("1.50"),
            "l": [f, None],
            "m": {"k": zero},
            "s": None if f is None else {"x": f},
        }
        rows.append({**dict.fromkeys(AVRO), **row, **more})
    return rows


def write_avro(path: Path, schema: dict[str, Any], rows: list[dict[str, Any]], **options: Any) -> None:
    out = io.BytesIO()
    fastavro.writer(out, schema, rows, **options)
    # every 256-bit number has 77 digits; fastavro would not write it that way
    path.write_bytes(out.getvalue().replace(b'"precision": 78', b'"precision": 77'))


@pytest.mark.spark
@pytest.mark.parametrize("way", ["whole", "in pieces", "by executors"])
def test_avro_decimals_keep_all_their_digits(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    print(f"seed {SEED}")
    rows = avro_rows(random.Random(SEED))
    odd = ":" if way == "by executors" else ""
    write_avro(tmp_path / f"a{odd}.avro", record(*_AVRO_FIELDS), rows[:ROWS], sync_interval=2000)
    fewer = [(name, kind) for name, kind in _AVRO_FIELDS if name != "w"]
    write_avro(
        tmp_path / f"b{odd}.avro", record(*fewer, ("extra", "string")), [{**r, "extra": "x"} for r in rows[ROWS:]]
    )
    if way == "in pieces":
        split_files(monkeypatch, 3000)
    expected = [{**row, "m": list(row["m"].items()), "extra": None} for row in rows]
    for row in expected[ROWS:]:
        row.update(w=None, extra="x")
    found = read(spark, tmp_path, format="avro", config=CLUSTER if way == "by executors" else AppConfig())
    assert found == expected


@pytest.mark.spark
@pytest.mark.parametrize("odd", ["", ":"], ids=["local", "by executors"])
@pytest.mark.parametrize("inside", [False, True], ids=["column", "list"])
def test_a_number_that_overflows_its_type_names_file_and_column(
    spark: Any, tmp_path: Path, odd: str, inside: bool
) -> None:
    kind = {"type": "array", "items": avro_decimal(78)} if inside else ["null", avro_decimal(78)]
    for name, value in (("a", Decimal(5)), ("b", Decimal(-5))):
        rows = [{"id": 1, "u": [value] if inside else value}]
        write_avro(tmp_path / f"{name}{odd}.avro", record(("u", kind)), rows)
    source = make_source(tmp_path, format="avro", config=CLUSTER if odd else AppConfig())
    with pytest.raises(Exception) as caught:
        Run(spark, source).rows()
    explained = source.translate_error(caught.value)
    assert str(explained).endswith(f"b{odd}.avro': column 'u': -5 does not fit into u256")
    source.close()


def test_an_avro_decimal_of_too_many_digits_is_reported_with_file_and_column(tmp_path: Path) -> None:
    write_avro(tmp_path / "a.avro", record(("d", ["null", avro_decimal(1001)])), [])
    with pytest.raises(StreamlingError, match=r"column 'd' of '.*a\.avro'.* decimal of 1001 digits, but at most 1000"):
        make_source(tmp_path, format="avro").schema()
