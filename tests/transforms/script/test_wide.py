"""Wide numbers in scripts: bigint in and out, decimals with all their digits."""

import os
import random
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa
import pytest

from streamling.errors import StreamlingError
from streamling.types.names import TYPE_KEY, arrow_type_name
from streamling.types.spark import physical_type
from streamling.types.wide.layout import I256, U256, WideDecimal, from_integers, layout_of, to_integers
from tests.types.wide.wide_numbers import edges, some

SEED = int(os.environ.get("SCRIPT_SEED", "3"))
ROWS = int(os.environ.get("SCRIPT_ROWS", "100"))


def _batch(type_: pa.DataType, numbers: list[int | None]) -> pa.RecordBatch:
    field = pa.field("x", pa.binary(), metadata={TYPE_KEY: arrow_type_name(type_)})
    return pa.RecordBatch.from_arrays([from_integers(numbers, layout_of(type_))], schema=pa.schema([field]))


def _numbers(column: pa.Array, type_: pa.DataType) -> list[int | None]:
    return to_integers(column.storage if isinstance(column.type, pa.ExtensionType) else column, layout_of(type_))


@pytest.mark.parametrize("type_", [U256, I256, WideDecimal(100, 20), pa.decimal256(76, 10)], ids=str)
def test_numbers_survive_a_round_trip(scripts, type_):
    print(f"seed {SEED}")
    numbers = [*edges(type_), *some(type_, ROWS, random.Random(SEED)), None]
    found = scripts.batch("function process(row) { return row }", _batch(type_, numbers))
    assert _numbers(found.column("x"), type_) == numbers


def test_a_script_computes_with_bigint(scripts):
    batch = _batch(U256, [2**255, 5, None])
    script = "function process(row) { return {x: row.x === null ? null : BigInt(row.x) + 1n} }"
    found = scripts.batch(script, batch, pa.schema([pa.field("x", U256)]))
    assert found.column("x").type == U256
    assert _numbers(found.column("x"), U256) == [2**255 + 1, 6, None]


def test_a_number_out_of_range_is_reported(scripts):
    batch = _batch(U256, [1])
    with pytest.raises(StreamlingError, match="the range of u256 is 0"):
        scripts.batch("function process(row) { return {x: -1n} }", batch, pa.schema([pa.field("x", U256)]))


def test_decimals_are_rounded_to_their_scale(scripts):
    decimal = WideDecimal(90, 2)
    script = "function process(row) { return {x: '123456789012345678901234567890123456789012345.125'} }"
    found = scripts.batch(script, _batch(decimal, [1]), pa.schema([pa.field("x", decimal)]))
    assert _numbers(found.column("x"), decimal) == [12345678901234567890123456789012345678901234513]


# ── inside lists, structs and maps ───────────────────────────────────────────────────────────────────────────

WIDE = [U256, I256, WideDecimal(100, 20), pa.decimal256(76, 10), pa.decimal256(76, 76), pa.decimal256(39, 0)]


def _around(wide: pa.DataType) -> dict[str, pa.DataType]:
    member = pa.struct([("x", wide), ("n", pa.int64())])
    return {"l": pa.list_(wide), "s": member, "m": pa.map_(pa.string(), wide), "d": pa.list_(pa.map_(wide, member))}


def _held_rows(wide: pa.DataType, chance: random.Random) -> list[dict[str, Any]]:
    """Return rows for the columns of `_around`, wide numbers as Spark holds them; nulls at every depth."""
    layout, numbers = layout_of(wide), [*edges(wide), *some(wide, ROWS, chance)]
    assert layout is not None
    rows: list[dict[str, Any]] = [{"l": None, "s": None, "m": None, "d": None}]
    for number in numbers:
        x, n = layout.encode(number), chance.choice((None, 2**62))
        member = {"x": chance.choice((x, None)), "n": n}
        rows.append({"l": [x, None], "s": member, "m": [("k", x), ("", None)], "d": [None, [(x, member)], []]})
    return rows


@pytest.mark.parametrize("wide", WIDE, ids=str)
def test_nested_numbers_survive_a_round_trip(scripts, wide):
    print(f"seed {SEED}")
    rows = _held_rows(wide, random.Random(SEED))
    fields = [
        pa.field(name, physical_type(type_), metadata={TYPE_KEY: arrow_type_name(type_)})
        for name, type_ in _around(wide).items()
    ]
    batch = pa.RecordBatch.from_pylist(rows, pa.schema(fields))
    seen = pa.schema([*fields, pa.field("t", pa.string())])
    found = scripts.batch("({l, s, m, d}) => ({l, s, m, d, t: l && String(l[0])})", batch, seen)
    assert found.drop_columns("t").to_pylist() == rows
    layout = layout_of(wide)
    expected = [row["l"] and Decimal(layout.text(layout.decode(row["l"][0]))) for row in rows]
    assert [text and Decimal(text) for text in found.column("t").to_pylist()] == expected


@pytest.mark.parametrize("wide", [U256, WideDecimal(100, 20), pa.decimal256(76, 10)], ids=str)
def test_nested_numbers_that_have_not_passed_through_spark(scripts, wide):
    rows = _held_rows(wide, random.Random(SEED))
    columns = []
    for name, type_ in _around(wide).items():
        held = [row[name] for row in rows]
        if pa.types.is_decimal(wide):
            columns.append(pa.array([_decimals(value, wide) for value in held], type_))
        else:
            columns.append(pa.array(held, physical_type(type_)).cast(type_))
    batch = pa.record_batch(columns, names=list("lsmd"))
    found = scripts.batch("({l, s, m, d}) => ({l, s, m, d})", batch)
    assert found.schema == batch.schema
    assert found.to_pylist() == batch.to_pylist()


def _decimals(value: Any, wide: pa.DataType) -> Any:
    """Return ``value`` with decimals instead of what Spark holds for them."""
    match value:
        case bytes():
            with localcontext(prec=100):
                return Decimal(layout_of(wide).decode(value)).scaleb(-wide.scale)
        case dict():
            return {name: _decimals(part, wide) for name, part in value.items()}
        case list():
            return [_decimals(part, wide) for part in value]
        case tuple():
            return tuple(_decimals(part, wide) for part in value)
    return value


def _list_batch(wide: pa.DataType, numbers: list[int]) -> pa.RecordBatch:
    type_, layout = pa.list_(wide), layout_of(wide)
    assert layout is not None
    field = pa.field("l", physical_type(type_), metadata={TYPE_KEY: arrow_type_name(type_)})
    return pa.RecordBatch.from_pylist([{"l": [layout.encode(n) for n in numbers]}], pa.schema([field]))


def test_a_script_sees_bigint_inside_a_list_and_computes_with_it(scripts):
    batch = _list_batch(U256, [2**255, 5])
    kinds = scripts.batch("row => ({t: row.l.map(x => typeof x).join()})", batch, pa.schema([("t", pa.string())]))
    assert kinds.to_pylist() == [{"t": "bigint,number"}]
    made = scripts.batch("row => ({l: [...row.l.map(x => BigInt(x) + 1n), '0017', 2 ** 69]})", batch)
    expected = [2**255 + 1, 6, 17, 2**69]
    assert [layout_of(U256).decode(held) for held in made.to_pylist()[0]["l"]] == expected


@pytest.mark.parametrize(
    ("wide", "value", "reason"),
    [
        (U256, "-1n", "'[-1]' (-1 does not fit into u256)"),
        (I256, "2n ** 255n", "does not fit into i256"),
        (U256, "'much'", "'much' is not a whole number"),
        (U256, "'1e999999999'", "expected a whole number"),
        (U256, "[1]", "expected a whole number"),
        (pa.decimal256(76, 10), "10n ** 66n", "66 digits before the point"),
        (pa.decimal256(76, 10), "true", "expected a number"),
    ],
    ids=str,
)
def test_a_number_out_of_range_inside_a_list_is_reported(scripts, wide, value, reason):
    with pytest.raises(StreamlingError) as failure:
        scripts.batch(f"() => ({{l: [{value}]}})", _list_batch(wide, [1]))
    message = str(failure.value)
    assert message.startswith(f"row 1 of the batch: column 'l' has type list<{wide}>, which cannot hold ")
    assert reason in message
    assert message.endswith('input: {"l":[' + layout_of(wide).text(1) + "]}")
    assert not failure.value.internal
