"""Random values of every column type through scripts: an identity gives them back; odd results are values of their
column or an error that names the row."""

from __future__ import annotations

import math
import random
import string
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import types

from streamling.errors import BadRow
from streamling.transforms.script.console import Console
from streamling.transforms.script.engine import Limits, ScriptEngine
from streamling.transforms.script.quickjs import QuickJs
from streamling.transforms.script.runner import Runner
from streamling.transforms.script.v8 import V8
from tests.fuzz.budget import SECONDS, rounds

LIMITS = Limits(64 << 20, 30)
ROWS = 40

_TEXTS = [
    "",
    " ",
    "\x01",
    "\x01i7",
    "\x02",
    "a\x01b\x02c",
    "\0",
    "null",
    "\u2028",
    "\U0001f600",
    "é" * 30,
    '"\\',
    "__proto__",
    "toJSON",
]
_US = (-62_135_596_800_000_000, 253_402_300_799_999_999)


def _integer(rng: random.Random, low: int, high: int) -> int:
    near = rng.choice([low, high, 0, 2**53, -(2**53), 10 ** rng.randrange(19)]) + rng.randrange(-2, 3)
    return min(high, max(low, near if rng.random() < 0.5 else rng.randint(low, high)))


def _text(rng: random.Random) -> str:
    parts = [
        rng.choice(_TEXTS) if rng.random() < 0.4 else rng.choice(string.printable) for _ in range(rng.randrange(5))
    ]
    return "".join(parts)


def _in_years(rng: random.Random, per_second: int) -> int:
    """A moment of the years 1 to 9999 as an integer, to the microsecond."""
    return _integer(rng, *_US) * per_second // 1_000_000


def _float(rng: random.Random) -> float:
    odd = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e308, 5e-324, 0.1, 2.0**53]
    return rng.choice(odd) if rng.random() < 0.4 else rng.uniform(-1e6, 1e6)


def _decimal(rng: random.Random, type_: pa.DataType) -> str:
    digits = str(rng.randrange(10 ** rng.randint(1, type_.precision)))
    padded = digits.rjust(type_.scale + 1, "0")
    whole, part = padded[: len(padded) - type_.scale], padded[len(padded) - type_.scale :]
    return rng.choice(["", "-"]) + whole + (f".{part}" if part else "")


_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def _number(rng: random.Random, type_: pa.DataType) -> int:
    """Of a date, time, timestamp or duration."""
    if types.is_date32(type_):
        return _integer(rng, *_US) // 86_400_000_000
    if types.is_date64(type_):
        return _integer(rng, *_US) // 86_400_000_000 * 86_400_000
    per_second = _PER_SECOND[type_.unit]
    if types.is_time(type_):
        return rng.randrange(86_400 * min(per_second, 10**6)) * max(1, per_second // 10**6)
    step = max(1, per_second // 10**6)
    if types.is_timestamp(type_):
        low, high = (-(10**15), 10**15) if type_.unit == "ns" else _US
        return _integer(rng, low, high) * per_second // 10**6 // step * step
    return _integer(rng, -(2**50), 2**50) * per_second // 10**6 // step * step


SCALARS: list[pa.DataType] = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.large_string(), pa.binary(), pa.binary(3)),
    *(pa.decimal128(38, 0), pa.decimal128(38, 18), pa.decimal128(5, 2), pa.decimal256(76, 30), pa.decimal256(50, 0)),
    *(pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.null()),
    *(pa.timestamp(unit, zone) for unit in _PER_SECOND for zone in (None, "UTC")),
    *(pa.duration(unit) for unit in _PER_SECOND),
]
#: types of values inside of lists, structs and maps
INNER = [type_ for type_ in SCALARS if not types.is_null(type_) and not types.is_float16(type_)]


def random_type(rng: random.Random) -> pa.DataType:
    if rng.random() < 0.6:
        return rng.choice(SCALARS)
    first, second = rng.choice(INNER), rng.choice(INNER)
    made: list[Callable[[], pa.DataType]] = [
        lambda: pa.list_(first),
        lambda: pa.list_(pa.list_(first)),
        lambda: pa.struct([("a", first), ("b c", pa.list_(second)), ("__proto__", second)]),
        lambda: pa.map_(pa.string(), first),
    ]
    return rng.choice(made)()


def column(rng: random.Random, type_: pa.DataType, size: int, nulls: float = 0.2) -> pa.Array:
    """Values of a type, built from numbers and texts, so that no Python type limits them."""
    if types.is_map(type_):
        sizes = [rng.randrange(4) for _ in range(size)]
        keys = [f"k{n}{_text(rng)}" for count in sizes for n in range(count)]
        offsets = [sum(sizes[:n]) for n in range(size + 1)]
        items = column(rng, type_.item_type, len(keys))
        return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(keys, pa.string()), items)
    if types.is_struct(type_):
        return pa.StructArray.from_arrays([column(rng, field.type, size) for field in type_], fields=list(type_))
    if types.is_list(type_):
        sizes = [rng.randrange(4) for _ in range(size)]
        offsets = [sum(sizes[:n]) for n in range(size + 1)]
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), column(rng, type_.value_type, sum(sizes)))
    if types.is_null(type_):
        return pa.nulls(size)
    values = [None if rng.random() < nulls else _value(rng, type_) for _ in range(size)]
    if types.is_temporal(type_):
        held = pa.int32() if types.is_date32(type_) or types.is_time32(type_) else pa.int64()
        return pa.array(values, held).cast(type_)
    if types.is_decimal(type_):
        return pa.array([None if value is None else Decimal(value) for value in values], type_)
    if types.is_float16(type_):
        return pa.array(values, pa.float32()).cast(type_)
    return pa.array(values, type_)


def _value(rng: random.Random, type_: pa.DataType) -> Any:
    if types.is_temporal(type_):
        return _number(rng, type_)
    if types.is_decimal(type_):
        return _decimal(rng, type_)
    if types.is_boolean(type_):
        return rng.random() < 0.5
    if types.is_floating(type_):
        number = _float(rng)
        return number if types.is_float64(type_) or not math.isfinite(number) else float(rng.randrange(-2000, 2000)) / 4
    if types.is_integer(type_):
        bits = type_.bit_width
        low, high = (0, 2**bits - 1) if types.is_unsigned_integer(type_) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        return _integer(rng, low, high)
    if types.is_fixed_size_binary(type_):
        return rng.randbytes(type_.byte_width)
    return rng.randbytes(rng.randrange(5)) if types.is_binary(type_) else _text(rng)


def same(found: pa.Array, expected: pa.Array) -> bool:
    """NaN equals itself, −0 differs from 0, and the entries of a map have no order."""
    return repr(_ordered(found, expected.type)) == repr(_ordered(expected, expected.type))


def _ordered(array: pa.Array, type_: pa.DataType) -> Any:
    texts = array.cast(pa.string()).to_pylist() if types.is_temporal(type_) or types.is_decimal(type_) else None
    if texts is not None:
        return texts
    if types.is_map(type_):
        items = _ordered(array.items, type_.item_type)
        keys = array.keys.to_pylist()
        ends = array.offsets.to_pylist()
        return [sorted(zip(keys[a:b], map(repr, items[a:b]), strict=True)) for a, b in pairwise(ends)]
    if types.is_struct(type_):
        return [_ordered(array.field(n), field.type) for n, field in enumerate(type_)]
    if types.is_list(type_):
        return array.value_lengths().to_pylist(), _ordered(array.flatten(), type_.value_type)
    return array.to_pylist()


@pytest.fixture(scope="module")
def engines() -> dict[str, ScriptEngine]:
    return {"quickjs": QuickJs(LIMITS), "v8": V8(LIMITS)}


def run(engine: ScriptEngine, text: str, batch: pa.RecordBatch, outputs: pa.Schema) -> pa.RecordBatch:
    console = Console(lambda level, line: None)
    runner = Runner(
        text, inputs=batch.schema, outputs=outputs, copied="_gs_op", engine=engine, limits=LIMITS, console=console
    )
    return runner.run(batch)


_IDENTITIES = ["row => row", "row => ({ ...row })", "row => [row]", "row => Object.assign(Object.create(null), row)"]


def test_values_are_returned_unchanged(engines):
    for rng in rounds(SECONDS / 2):
        kinds = [random_type(rng) for _ in range(rng.randint(1, 6))]
        columns = {f"c{n}": column(rng, kind, ROWS) for n, kind in enumerate(kinds)}
        batch = pa.record_batch({**columns, "_gs_op": pa.array(["i"] * ROWS)})
        for name, engine in engines.items():
            found = run(engine, rng.choice(_IDENTITIES), batch, batch.schema)
            found.validate(full=True)
            for key, expected in columns.items():
                assert same(found.column(key), expected), (name, key, expected.type)


#: expressions that a script may return for a column; x is the row's number
_ODD = (Path(__file__).parents[1] / "corpus/scripts/odd_values.txt").read_text(encoding="utf-8").splitlines()


def test_odd_results_are_values_of_the_column_or_errors(engines):
    for rng in rounds(SECONDS / 2):
        kinds = [random_type(rng) for _ in range(rng.randint(1, 3))]
        outputs = pa.schema([*((f"c{n}", kind) for n, kind in enumerate(kinds)), ("_gs_op", pa.string())])
        values = ", ".join(f"c{n}: {rng.choice(_ODD)}" for n in range(len(kinds)))
        plain = ", ".join(f"c{n}: null" for n in range(len(kinds)))
        odd = rng.randrange(4)
        text = f"row => {{ const x = row.id; return x === {odd} ? {{ {values} }} : {{ {plain} }} }}"
        batch = pa.record_batch({"id": pa.array(range(4), pa.int64()), "_gs_op": ["i", "u", "d", "i"]})
        first, second = (outcome(engine, text, batch, outputs) for engine in engines.values())
        assert repr(first) == repr(second), (text, outputs)
        if isinstance(first, str):
            assert first == f"row {odd + 1} of the batch", (text, outputs)


def outcome(engine: ScriptEngine, text: str, batch: pa.RecordBatch, outputs: pa.Schema) -> Any:
    """The values of all columns, or the row that an error names."""
    try:
        found = run(engine, text, batch, outputs)
    except BadRow as error:
        return str(error).partition(":")[0]
    found.validate(full=True)
    assert found.column("_gs_op").to_pylist() == batch.column("_gs_op").to_pylist(), text
    return [_ordered(column, column.type) for column in found.columns]
