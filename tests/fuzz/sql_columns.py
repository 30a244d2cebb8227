"""The rows for random SQL expressions: two columns of every type, full of edge values."""

from __future__ import annotations

import random
from datetime import datetime, time
from decimal import Decimal
from itertools import accumulate
from typing import Any

import pyarrow as pa

INTS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32")
DECIMALS = ("d10_2", "d20_4", "d38_18", "d38_0")
FLOATS = ("f32", "f64")
#: the second column of a type
SECOND = "_2"

_TIMES = [
    datetime(1970, 1, 1),
    datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime(2024, 2, 29, 12, 30, 15, 123456),
    datetime(2000, 1, 1),
    datetime(2023, 12, 31, 23, 59, 59),
    datetime(1900, 3, 1, 0, 0, 1, 500000),
]
_TEXTS = [
    "",
    "a",
    "Ab c",
    "żółw_%",
    "  x ",
    "12",
    "-3.5",
    "2024-05-06",
    "2024-05-06t07:08:09z",
    "日本語😀",
    "a.b.c",
    "true",
]
#: a combining accent, letters that change their length with their case, a family of joined emoji, text from right to
#: left, spaces of other widths, a byte order mark, line breaks, a control character
_ODD_TEXTS = [
    "e\u0301",
    "Straße ŉ",
    "İıſ",
    "👩‍👩‍👧",
    "שלום a",
    "\u00a0x\u2003",
    "\ufeffb",
    "a\r\nb\t",
    "a\x01b",
    "ﬁn ǆ",
    "𝒳y",
]
_PAIR = pa.struct([("a", pa.int64()), ("b", pa.string())])
_PAIRS = [{"a": 7, "b": "x"}, {"a": None, "b": None}, {"a": -1, "b": "ż"}]
_LISTS = [[], [1], [3, 1, 2, 1], [None, 5], [2**40, -1]]

#: column, which is also the name of its type here → Arrow type and values
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i8": (pa.int8(), [0, 1, -1, 7, 127, -128]),
    "i16": (pa.int16(), [0, 1, -1, 12, 32767, -32768]),
    "i32": (pa.int32(), [0, 1, -1, 3, 1000, 2**31 - 1, -(2**31)]),
    "i64": (pa.int64(), [0, 1, -1, 5, 255, 2**53 + 1, 2**63 - 1, -(2**63)]),
    "u8": (pa.uint8(), [0, 1, 200, 255]),
    "u16": (pa.uint16(), [0, 2, 65535]),
    "u32": (pa.uint32(), [0, 3, 2**32 - 1]),
    "u64": (pa.uint64(), [0, 4, 2**64 - 1]),
    "f32": (pa.float32(), [0.0, 1.5, -2.25, 0.1, 3e8, -1e-7]),
    "f64": (pa.float64(), [0.0, -0.0, 1.5, -2.5, 0.1, 2.675, 1e17, 1e-9, 123456.789, 1.2345678, -1700000000.1234567]),
    "d10_2": (pa.decimal128(10, 2), [Decimal("0"), Decimal("1.50"), Decimal("-2.55"), Decimal("99999999.99")]),
    "d20_4": (pa.decimal128(20, 4), [Decimal("0.0001"), Decimal("-7.1250"), Decimal("9999999999999999.9999")]),
    "d38_18": (pa.decimal128(38, 18), [Decimal("1"), Decimal("-0.000000000000000001"), Decimal("12345678.5")]),
    "d38_0": (pa.decimal128(38, 0), [Decimal(0), Decimal(-3), Decimal("98765432109876543210987654321098765432")]),
    "text": (pa.string(), [*_TEXTS, *_ODD_TEXTS]),
    "bin": (pa.binary(), [b"", b"a", b"\x00\xff", "ż".encode()]),
    "bool": (pa.bool_(), [True, False]),
    "day": (pa.date32(), [moment.date() for moment in _TIMES]),
    "ts": (pa.timestamp("us"), _TIMES),
    "tz": (pa.timestamp("us", "UTC"), _TIMES),
    "tm": (pa.time64("us"), [time(0), time(23, 59, 59, 999999), time(12, 30, 15)]),
    "li": (pa.list_(pa.int64()), _LISTS),
    "lt": (pa.list_(pa.string()), [[], ["a"], ["b", None, "a"], ["", "ż"]]),
    "lx": (pa.list_(pa.float64()), [[], [1.5], [0.1, None, -2.0]]),
    "ll": (pa.list_(pa.list_(pa.int64())), [[], [[1, 2], [3]], [[], None, [5]], [[None]]]),
    "st": (_PAIR, _PAIRS),
    "sn": (
        pa.struct([("s", _PAIR), ("l", pa.list_(pa.int64()))]),
        [{"s": _PAIRS[0], "l": [1, None]}, {"s": None, "l": None}, {"s": _PAIRS[1], "l": []}],
    ),
    "ls": (pa.list_(_PAIR), [[], _PAIRS[:2], [None, _PAIRS[2]]]),
    "mp": (pa.map_(pa.string(), pa.int64()), [{}, {"a": 7}, {"b": None, "a": -3}, {"ż": 1}]),
    "ml": (pa.map_(pa.string(), pa.list_(pa.int64())), [{}, {"a": [1, 2]}, {"b": None, "a": []}]),
}


def table(chance: random.Random, count: int) -> pa.Table:
    columns: dict[str, Any] = {"id": pa.array(range(count))}
    for name, (type_, pool) in COLUMNS.items():
        for column in (name, name + SECOND):
            values = chance.sample(pool, min(len(pool), count - 1))
            values += [None, *chance.choices([*pool, None], k=count)]
            values = values[:count]
            chance.shuffle(values)
            columns[column] = _array(values, type_)
    return pa.table(columns)


def _array(values: list[Any], type_: pa.DataType) -> pa.Array:
    if pa.types.is_map(type_):
        values = [None if value is None else list(value.items()) for value in values]
    if pa.types.is_struct(type_):  # DataFusion reads the fields of a NULL struct
        fields = [_array([value and value[part.name] for value in values], part.type) for part in type_]
        return pa.StructArray.from_arrays(fields, fields=list(type_), mask=pa.array([v is None for v in values]))
    if pa.types.is_list(type_) and pa.types.is_struct(type_.value_type):
        inner = _array([element for value in values for element in value or ()], type_.value_type)
        ends = [0, *accumulate(len(value or ()) for value in values)]
        missing = pa.array([value is None for value in values])
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), inner, type_, mask=missing)
    return pa.array(values, type_)
