import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest

from streamling.types.json import json_rows
from streamling.types.names import TYPE_KEY
from streamling.types.wide.layout import I256, U256, from_integers, layout_of

YEAR_10000, YEAR_0 = 2_932_897, -719_163  # days since 1970 of the first day after 9999 and the last before year 1
_DAY_US = 86_400_000_000


@pytest.mark.parametrize(
    ("number", "kind", "text"),
    [
        (YEAR_10000, pa.date32(), "+10000-01-01"),
        (YEAR_0, pa.date32(), "0000-12-31"),
        (-(2**31), pa.date32(), "-5877641-06-23"),
        (YEAR_10000 * 86_400_000, pa.date64(), "+10000-01-01"),
        (YEAR_10000 * _DAY_US + 1, pa.timestamp("us"), "+10000-01-01T00:00:00.000001"),
        (YEAR_0 * _DAY_US + 3_723_500_000, pa.timestamp("us", "UTC"), "0000-12-31T01:02:03.500000Z"),
        (2**63 - 1, pa.timestamp("us"), "+294247-01-10T04:00:54.775807"),
        (-(2**63), pa.timestamp("s"), "-292277022657-01-27T08:29:52"),
    ],
)
def test_dates_and_timestamps_of_any_year(number, kind, text):
    numbers = pa.array([number, 0, None], pa.int32() if kind == pa.date32() else pa.int64())
    column = numbers.cast(kind)
    start = "1970-01-01" + ("" if pa.types.is_date(kind) else "T00:00:00") + ("Z" if getattr(kind, "tz", None) else "")
    texts = [text, start, None]
    rows = [json.loads(row) for row in json_rows(pa.record_batch({"v": column}))]
    assert [row["v"] for row in rows] == texts
    listed = pa.ListArray.from_arrays(pa.array([0, 3]), column)
    nested = pa.StructArray.from_arrays([listed], ["inner"])
    assert json.loads(next(json_rows(pa.record_batch({"v": nested})))) == {"v": {"inner": texts}}


def test_a_duration_longer_than_python_supports():
    column = pa.array([2**62], pa.int64()).cast(pa.duration("s"))
    assert next(json_rows(pa.record_batch({"v": column}))) == f'{{"v":{2**62 * 1_000_000}}}'


def one(value, kind: pa.DataType) -> str:
    return next(json_rows(pa.record_batch({"v": pa.array([value], kind)})))


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, pa.int64(), "null"),
        (2**63 - 1, pa.int64(), "9223372036854775807"),
        (2**64 - 1, pa.uint64(), "18446744073709551615"),
        (True, pa.bool_(), "true"),
        (0.1, pa.float64(), "0.1"),
        (float("nan"), pa.float64(), "null"),
        (float("-inf"), pa.float64(), "null"),
        ('a"b\\c\nü\u0001', pa.string(), '"a\\"b\\\\c\\nü\\u0001"'),
        ("large", pa.large_string(), '"large"'),
        (b"\x00\xff", pa.binary(), '"00ff"'),
        (Decimal("12345678901234567890.1234"), pa.decimal128(38, 4), "12345678901234567890.1234"),
        (Decimal("0E-9"), pa.decimal128(38, 9), "0.000000000"),
        (date(2026, 1, 2), pa.date32(), '"2026-01-02"'),
        (time(3, 4, 5, 6), pa.time64("us"), '"03:04:05.000006"'),
        (datetime(2026, 1, 2, 3, 4, 5), pa.timestamp("us"), '"2026-01-02T03:04:05"'),
        (datetime(2026, 1, 2, 3, 4, 5, 6, UTC), pa.timestamp("us", "UTC"), '"2026-01-02T03:04:05.000006Z"'),
        (datetime(2026, 1, 2), pa.timestamp("ns"), '"2026-01-02T00:00:00"'),
        (timedelta(seconds=1), pa.duration("us"), "1000000"),
        ([1, None], pa.list_(pa.int64()), "[1,null]"),
        ([], pa.list_(pa.int64()), "[]"),
        ({"a": 1, "b": [True]}, pa.struct([("a", pa.int64()), ("b", pa.list_(pa.bool_()))]), '{"a":1,"b":[true]}'),
        ([("k", Decimal("1.50"))], pa.map_(pa.string(), pa.decimal128(5, 2)), '{"k":1.50}'),
        ([("k", None)], pa.map_(pa.string(), pa.int64()), '{"k":null}'),
        ([], pa.map_(pa.string(), pa.int64()), "{}"),
        ([(1, "a"), (2, "b")], pa.map_(pa.int64(), pa.string()), '{"1":"a","2":"b"}'),
        ([(date(2026, 1, 2), 1)], pa.map_(pa.date32(), pa.int64()), '{"2026-01-02":1}'),
        ([{"m": []}], pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.int64()))])), '[{"m":{}}]'),
        ([1_000_001], pa.list_(pa.timestamp("ns")), '["1970-01-01T00:00:00.001000"]'),
        (1_001, pa.time64("ns"), '"00:00:00.000001"'),
        ([float("nan"), 0.5], pa.list_(pa.float64()), "[null,0.5]"),
        (Decimal("-1") / 8, pa.decimal256(76, 3), "-0.125"),
        ([Decimal("-1") / 8], pa.list_(pa.decimal256(76, 3)), "[-0.125]"),
        (7, pa.dictionary(pa.int32(), pa.int64()), "7"),
    ],
)
def test_each_type_has_its_json(value, kind, text):
    assert one(value, kind) == f'{{"v":{text}}}'
    json.loads(one(value, kind))


def test_numbers_of_256_bits_have_all_their_digits():
    held = {"u": 2**256 - 1, "i": -(2**255)}
    layouts = {"u": layout_of(U256), "i": layout_of(I256)}
    values = [from_integers([number], layouts[name]) for name, number in held.items()]
    schema = pa.schema([pa.field(name, pa.binary(), metadata={TYPE_KEY: f"{name}256"}) for name in held])
    [text] = json_rows(pa.RecordBatch.from_arrays(values, schema=schema))
    assert text == f'{{"u":{held["u"]},"i":{held["i"]}}}'


def test_keys_are_in_column_order_and_escaped():
    batch = pa.record_batch({'b"x': pa.array([1]), "a": pa.array(["y"])})
    assert list(json_rows(batch)) == ['{"b\\"x":1,"a":"y"}']


def test_a_batch_without_columns_gives_empty_objects():
    batch = pa.record_batch({"a": pa.array([1, 2])}).select([])
    assert list(json_rows(batch)) == ["{}"] * batch.num_rows
