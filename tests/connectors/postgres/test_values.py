"""Every value survives a round trip to Postgres."""

from __future__ import annotations

import json
import math
import struct
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, localcontext

import pyarrow as pa
import pytest

from streamling.dev.services.postgres import LocalPostgres
from streamling.errors import StreamlingError
from streamling.types.names import TYPE_KEY, arrow_type_name
from streamling.types.wide.layout import I256, U256, WideDecimal, from_integers, layout_of
from tests.connectors.postgres.driver import Driver
from tests.connectors.sink_driver import batch

pytestmark = pytest.mark.services


@pytest.fixture
def pg(postgres: LocalPostgres) -> Driver:
    return Driver(postgres.dsn)


def stored(pg: Driver, values: list, type_: pa.DataType) -> list:
    """Return the values after a round trip, in order, once upserted and once appended."""
    rows = batch(*[("i", n, value) for n, value in enumerate(values)], names=("id", "v"), types=(pa.int64(), type_))
    pg.write(rows)
    upserted = [row[1] for row in pg.rows()]
    pg.execute("TRUNCATE {t}")
    pg.write(rows, key=())
    assert str([row[1] for row in pg.rows()]) == str(upserted)  # as text: NaN is not equal to itself
    return upserted


@pytest.mark.parametrize(
    ("type_", "column", "values"),
    [
        (pa.int8(), "smallint", [-128, 127, None]),
        (pa.int16(), "smallint", [-(2**15), 2**15 - 1, None]),
        (pa.int32(), "integer", [-(2**31), 2**31 - 1, 0, None]),
        (pa.int64(), "bigint", [-(2**63), 2**63 - 1, 0, None]),
        (pa.uint8(), "integer", [0, 255, None]),
        (pa.uint16(), "integer", [0, 2**16 - 1, None]),
        (pa.uint32(), "bigint", [0, 2**32 - 1, None]),
        (pa.uint64(), "numeric(20,0)", [0, 2**64 - 1, None]),
        (pa.bool_(), "boolean", [True, False, None]),
        (pa.string(), "text", ["", None, " ", "NULL", "\\N", "x" * 10_000]),
        (pa.large_string(), "text", ["a", "", None]),
        (pa.string_view(), "text", ["a", "", None]),
        (pa.dictionary(pa.int32(), pa.string()), "text", ["a", "b", "a", None]),
        (pa.binary(), "bytea", [b"", None, b"\x00\xff", bytes(range(256)), b"\\x"]),
        (pa.large_binary(), "bytea", [b"a", None]),
        (pa.binary_view(), "bytea", [b"a", None, b"longer than twelve bytes"]),
        (pa.binary(3), "bytea", [b"abc", None, b"\x00\x01\x02"]),
        (pa.decimal128(38, 0), "numeric(38,0)", [Decimal(10**38 - 1), Decimal(-(10**38) + 1), None]),
        (pa.decimal128(20, 4), "numeric(20,4)", [Decimal("0.0001"), Decimal("-1.5000"), None]),
        (pa.decimal128(38, 38), "numeric(38,38)", [Decimal("1E-38"), Decimal("0." + "9" * 38)]),
        (pa.decimal256(76, 0), "numeric(76,0)", [Decimal(10**76 - 1), Decimal(-1), None]),
        (pa.decimal256(76, 30), "numeric(76,30)", [Decimal("1E-30"), None]),
        (pa.date32(), "date", [date(1, 1, 1), date(9999, 12, 31), date(1970, 1, 1), None]),
        (pa.date64(), "date", [date(2026, 2, 28), None]),
        (pa.time32("s"), "time without time zone", [time(23, 59, 59), None]),
        (pa.time32("ms"), "time without time zone", [time(0, 0, 0, 1000), None]),
        (pa.time64("us"), "time without time zone", [time(23, 59, 59, 999999), time(0), None]),
        (pa.timestamp("s"), "timestamp without time zone", [datetime(1969, 12, 31, 23, 59, 59), None]),
        (pa.timestamp("ms"), "timestamp without time zone", [datetime(2026, 1, 2, 3, 4, 5, 6000), None]),
        (
            pa.timestamp("us"),
            "timestamp without time zone",
            [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999), None],
        ),
    ],
    ids=str,
)
def test_values_survive_a_round_trip(pg: Driver, type_: pa.DataType, column: str, values: list) -> None:
    assert stored(pg, values, type_) == values
    assert pg.types()["v"] == column


@pytest.mark.parametrize(
    ("type_", "column", "numbers"),
    [
        (U256, "numeric(78,0)", [0, 2**64, 2**255, 2**256 - 1, None]),
        (I256, "numeric(78,0)", [-(2**255), -1, 0, 2**255 - 1, None]),
        (WideDecimal(100, 20), "numeric(100,20)", [-(10**100) + 1, 5, 0, None]),
        (WideDecimal(1000, 999), "numeric(1000,999)", [10**1000 - 1, -1, None]),
    ],
    ids=str,
)
def test_wide_numbers_keep_every_digit(pg: Driver, type_: pa.DataType, column: str, numbers: list) -> None:
    layout = layout_of(type_)
    held, name = from_integers(numbers, layout), {TYPE_KEY: arrow_type_name(type_)}
    of_spark = pa.field("v", pa.binary(), metadata={"SPARK::metadata::json": json.dumps(name)})
    of_plugin = pa.field("v", type_)
    values = {of_spark: held, pa.field("v", pa.binary(), metadata=name): held}
    values[of_plugin] = pa.ExtensionArray.from_storage(type_, held)
    for field, array in values.items():
        schema = pa.schema([pa.field("id", pa.int64()), field, pa.field("_gs_op", pa.string())])
        rows = [pa.array(range(len(numbers)), pa.int64()), array, pa.array(["i"] * len(numbers))]
        pg.write(pa.RecordBatch.from_arrays(rows, schema=schema))
        with localcontext(prec=1000):
            expected = [None if n is None else Decimal(n).scaleb(-layout.scale) for n in numbers]
        assert [row[1] for row in pg.rows()] == expected
        assert pg.types()["v"] == column
        pg.execute("TRUNCATE {t}")


def test_wide_numbers_inside_others_are_numbers_in_json(pg: Driver) -> None:
    layout = layout_of(U256)
    lists = pa.array([[layout.encode(2**256 - 1), None]], pa.list_(pa.binary()))
    field = pa.field("v", lists.type, metadata={TYPE_KEY: arrow_type_name(pa.list_(U256))})
    schema = pa.schema([pa.field("id", pa.int64()), field, pa.field("_gs_op", pa.string())])
    pg.write(pa.RecordBatch.from_arrays([pa.array([1]), lists, pa.array(["i"])], schema=schema))
    assert pg.types()["v"] == "jsonb"
    assert pg.rows("id, v::text") == [(1, f"[{2**256 - 1}, null]")]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "+05:30"])
def test_a_timestamp_with_a_zone_is_stored_as_utc_wall_clock(pg: Driver, zone: str) -> None:
    moment = datetime(2026, 7, 1, 12, 0, 0, 5, UTC)
    assert stored(pg, [moment], pa.timestamp("us", zone)) == [moment.replace(tzinfo=None)]


def test_nanoseconds_are_truncated(pg: Driver) -> None:
    assert stored(pg, [1_999], pa.timestamp("ns")) == [datetime(1970, 1, 1, 0, 0, 0, 1)]
    pg.execute("DROP TABLE {t}")
    assert stored(pg, [1_999], pa.time64("ns")) == [time(0, 0, 0, 1)]


def test_a_time_that_came_through_spark_as_a_number_is_a_time(pg: Driver) -> None:
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("v", pa.int64(), metadata={TYPE_KEY: "time64[ns]"})])
    pg.write(pa.record_batch([pa.array([1]), pa.array([1_000_000_000])], schema=schema))

    assert pg.rows() == [(1, time(0, 0, 1))]


def bits(value: float) -> bytes:
    return struct.pack("!d", value)


DOUBLES = [
    1.7976931348623157e308, -1.7976931348623157e308, 5e-324, 2.2250738585072014e-308, -0.0, 0.0, 0.1, 1 / 3,
    math.pi, 1e16, 123456789.123456789, math.inf, -math.inf, math.nan,
]  # fmt: skip


def test_doubles_are_the_same_to_the_bit(pg: Driver) -> None:
    assert [bits(value) for value in stored(pg, DOUBLES, pa.float64())] == [bits(value) for value in DOUBLES]


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (pa.float32(), [3.4028234663852886e38, 1.401298464324817e-45, -0.0, 0.1, math.inf, math.nan]),
        (pa.float16(), [65504.0, 0.1, -0.0, None]),
    ],
    ids=str,
)
def test_smaller_floats_are_the_same_number(pg: Driver, type_: pa.DataType, values: list) -> None:
    expected = pa.array(values, type_).cast(pa.float64()).to_pylist()
    assert str(stored(pg, values, type_)) == str([None if v is None else as_real(v) for v in expected])
    pg.execute("DROP TABLE {t}")
    pg.create("id bigint primary key, v double precision")
    assert str(stored(pg, values, type_)) == str(expected)


def as_real(value: float) -> float:
    """How psycopg reads a REAL: the shortest decimal that is the same 32-bit float."""
    return float(str(pa.scalar(value, pa.float32()).cast(pa.string())))


@pytest.mark.parametrize(
    "text",
    [
        "'; DROP TABLE t; --",
        '" OR 1=1',
        "a,b;c|d",
        "line\nbreak\r\nreturn\ttab",
        "".join(map(chr, range(1, 32))) + "\x7f",
        "\\",
        "\\.",
        "\\x00",
        '""',
        "日本語 العربية 😀 👩‍👩‍👧",
        "e\u0301 is not é",
        "\u200b\ufeff\u202e",
        "\U0010ffff",
        "%s {} $1 :x",
    ],
)
def test_text_is_verbatim(pg: Driver, text: str) -> None:
    assert stored(pg, [text, text * 2], pa.string()) == [text, text * 2]


def test_nested_values_are_json_with_all_digits(pg: Driver) -> None:
    type_ = pa.struct(
        [
            ("n", pa.decimal128(38, 10)),
            ("u", pa.uint64()),
            ("list", pa.list_(pa.int64())),
            ("map", pa.map_(pa.string(), pa.float64())),
            ("deep", pa.list_(pa.struct([("at", pa.timestamp("us"))]))),
            ("text", pa.string()),
        ]
    )
    value = {
        "n": Decimal("1234567890123456789.0000000001"),
        "u": 2**64 - 1,
        "list": [1, None, -(2**63)],
        "map": [("ä'\"\\", 0.1), ("n", math.nan)],
        "deep": [{"at": datetime(2026, 1, 2)}],
        "text": "\x01\n😀",
    }
    found = stored(pg, [value, {"map": [], "list": []}, None], type_)

    assert pg.types()["v"] == "jsonb"
    assert found[0]["map"] == {"ä'\"\\": 0.1, "n": None}
    assert found[0]["list"] == [1, None, -(2**63)]
    assert found[0]["deep"] == [{"at": "2026-01-02T00:00:00"}]
    assert found[0]["text"] == "\x01\n😀"
    assert found[1]["map"] == {}
    assert found[1]["list"] == []
    assert found[2] is None
    (exact,) = pg.execute("SELECT v->>'n', v->>'u' FROM {t} WHERE id = 0")
    assert exact == ("1234567890123456789.0000000001", str(2**64 - 1))


@pytest.mark.parametrize("type_", [pa.list_(pa.int64()), pa.large_list(pa.int64()), pa.list_(pa.int64(), 2)], ids=str)
def test_lists_of_every_kind_are_arrays(pg: Driver, type_: pa.DataType) -> None:
    assert stored(pg, [[1, 2], None], type_) == [[1, 2], None]


def test_a_type_without_a_postgres_type_is_text_with_a_warning(pg: Driver, caplog: pytest.LogCaptureFixture) -> None:
    assert stored(pg, [timedelta(microseconds=5), None], pa.duration("us")) == ["5", None]
    assert "column 'v' of type duration[us] has no matching Postgres type" in caplog.text


def test_a_column_with_only_nulls(pg: Driver) -> None:
    assert stored(pg, [None, None], pa.null()) == [None, None]


def test_a_null_in_a_table_of_one_column(pg: Driver) -> None:
    rows = batch(("i", None), ("i", ""), ("i", "a"), names=("v",), types=(pa.string(),))
    pg.write(rows, key=())

    assert sorted(pg.rows(), key=str) == [("",), ("a",), (None,)]


def test_many_columns(pg: Driver) -> None:
    names = ("id", *(f"c{n}" for n in range(299)))
    pg.write(batch(("i", 1, *["v"] * 299), names=names))

    assert pg.rows() == [(1, *["v"] * 299)]


def test_a_slice_of_a_batch_is_written_correctly(pg: Driver) -> None:
    rows = batch(*[("i", n, bytes([n])) for n in range(10)], names=("id", "v"), types=(pa.int64(), pa.binary()))
    pg.write(rows.slice(3, 2))

    assert pg.rows() == [(3, b"\x03"), (4, b"\x04")]


# ── values that cannot be stored ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("key", [("id",), ()], ids=["upsert", "append"])
@pytest.mark.parametrize(
    ("type_", "good", "bad"),
    [(pa.string(), "a", "a\x00b"), (pa.list_(pa.string()), ["a"], ["b\x00"])],
    ids=["text", "jsonb"],
)
def test_a_nul_character_is_an_error_with_column_and_row(pg: Driver, key, type_, good, bad) -> None:
    rows = batch(("i", 1, good), ("i", 2, bad), names=("id", "v"), types=(pa.int64(), type_))
    with pytest.raises(StreamlingError, match=r"column 'v' of row 2 .* NUL character") as raised:
        pg.write(rows, key=key)
    assert not raised.value.internal
    assert not raised.value.retriable
    assert pg.rows() == []


@pytest.mark.parametrize(
    ("column", "type_", "value", "message"),
    [
        ("smallint", pa.int64(), 70_000, "column 'v'.*out of range for type smallint"),
        ("numeric(4,2)", pa.float64(), 123.0, "column 'v'.*numeric field overflow: A field with precision 4, scale 2"),
        ("varchar(2)", pa.string(), "abc", "column 'v'.*value too long for type character varying"),
        ("uuid", pa.string(), "abc", "column 'v'.*invalid input syntax for type uuid"),
        ("bigint CHECK (v > 0)", pa.int64(), -1, 'violates check constraint "t_v_check"'),
        ("bigint NOT NULL", pa.int64(), None, "column 'v'.*violates not-null constraint"),
        ("bigint UNIQUE", pa.int64(), 7, 'violates unique constraint "t_v_key"'),
    ],
)
@pytest.mark.parametrize("key", [("id",), ()], ids=["upsert", "append"])
def test_a_value_that_the_table_rejects_fails_immediately_and_names_its_column(
    pg: Driver, column: str, type_: pa.DataType, value: object, message: str, key
) -> None:
    pg.create(f"id bigint primary key, v {column}")
    if "UNIQUE" in column:
        pg.execute("INSERT INTO {t} VALUES (2, 7)")
    rows = batch(("i", 1, value), names=("id", "v"), types=(pa.int64(), type_))
    with pytest.raises(StreamlingError, match=message) as raised:
        pg.write(rows, key=key)
    assert f"table {pg.schema}.t at 127.0.0.1" in str(raised.value)
    assert not raised.value.retriable
    assert not raised.value.internal
    assert "Failing row" not in "".join([str(raised.value), *raised.value.causes()])
