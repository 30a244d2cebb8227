"""Rows of edge values, and which of them fit which kind of argument."""

from __future__ import annotations

import math
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

TEXTS = [
    None,
    "",
    "a",
    "Ab c",
    "żółw_%",
    "  x ",
    "a,b,,c",
    "ABC-def ghi",
    "0",
    "日本語😀",
    "xax",
    "a.b.c",
    "line\nbreak",
    "\\d$1",
]
LONGS = [None, 0, 1, -1, 7, 12, 18, 255, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63)]
INTS = [None, 0, 1, 2, 3, 5, -1, -2, -7, 40]
DOUBLES = [None, 0.0, -0.0, 1.0, 1.5, -1.5, 2.5, 0.1, 2.675, -0.7, 1e300, -1e300, 1e-300, math.nan, math.inf, -math.inf]
PRICES = [None, Decimal(0), Decimal("1.5"), Decimal("-2.5"), Decimal("0.0001"), Decimal("-9999999999999999.9999")]
TIMES = [
    None,
    datetime(1970, 1, 1),
    datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime(2024, 2, 29, 12, 30, 15, 123456),
    datetime(2000, 1, 1),
    datetime(2023, 12, 31, 23, 59, 59),
    datetime(1900, 3, 1),
    datetime(2262, 1, 1),
]
LISTS = [None, [], [1], [3, 1, 2, 1], [None, 5], [5, None, 5, 5], [2**63 - 1, -(2**63)], [1, 2, 3, 4, 5]]
WORDS = [None, [], ["a"], ["b", "a", "ż", "a"], [None, ""], ["a", None, "a"], ["x,y", "z"]]
VECTORS = [
    None,
    [],
    [1.0],
    [3.0, 4.0],
    [0.0, 0.0],
    [-1.5, 2.5],
    [None, 1.0],
    [None, None],
    [1e200, 1e200],
    [1.0, 2.0, 2.0],
]
NESTED = [None, [], [[1, 2], [3, 4]], [[1], [2]], [[], [7]], [None, [5]], [[None]]]
MAPS = [None, {}, {"a": 1}, {"b": None, "a": 2}, {"ż": 3, "": 4}]
MOMENTS = [None, "2024-05-06T07:08:09", "1969-12-31 23:59:59.123456", "2000-02-29", "2024-05-06 07:08:09Z"]
UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond")
HEX = [None, "", "61", "616263", "c5bc", "FFff"]

#: column → its type and the values its rows are drawn from
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    **{name: (pa.string(), TEXTS) for name in ("t1", "t2", "t3")},
    **{name: (pa.int64(), INTS) for name in ("i1", "i2", "i3")},
    **{name: (pa.int64(), LONGS) for name in ("l1", "l2", "l3")},
    **{name: (pa.int64(), [None, 0, 1, 3, 10, -4]) for name in ("s1", "s2", "s3")},
    **{name: (pa.float64(), DOUBLES) for name in ("x1", "x2")},
    **{name: (pa.timestamp("us"), TIMES) for name in ("ts1", "ts2")},
    "d1": (pa.date32(), [None if time is None else time.date() for time in TIMES]),
    **{name: (pa.int64(), [None, 1, 2, 3, 9]) for name in ("p1", "p2")},
    **{name: (pa.int32(), [None, 0, 1, -1, 12, 2**31 - 1, -(2**31)]) for name in ("n1", "n2")},
    **{name: (pa.decimal128(20, 4), PRICES) for name in ("q1", "q2")},
    **{name: (pa.bool_(), [None, True, False]) for name in ("b1", "b2")},
    "e1": (pa.int64(), [None, 0, 1, -1, 1_700_000_000, -5_000_000_000]),
    "m1": (pa.string(), MOMENTS),
    "day1": (pa.string(), [None, "2024-05-06", "1969-12-31", "2000-02-29"]),
    "h1": (pa.string(), HEX),
    **{name: (pa.list_(pa.int64()), LISTS) for name in ("li1", "li2", "li3")},
    **{name: (pa.list_(pa.string()), WORDS) for name in ("lt1", "lt2", "lt3")},
    **{name: (pa.list_(pa.float64()), VECTORS) for name in ("lx1", "lx2")},
    **{name: (pa.list_(pa.list_(pa.int64())), NESTED) for name in ("ll1",)},
    "mp1": (pa.map_(pa.string(), pa.int64()), MAPS),
    "st1": (pa.struct([("a", pa.int64()), ("b", pa.string())]), [None, {"a": 1, "b": None}, {"a": None, "b": "ż"}]),
}

#: kind of an argument → columns for the first, second, … of its kind, in each of its variants
KINDS: dict[str, list[list[str]]] = {
    "text": [["t1", "t2", "t3"]],
    "int": [["i1", "i2", "i3"]],
    "long": [["l1", "l2", "l3"], ["s1", "s2", "s3"]],
    "number": [["x1", "x2"], ["l1", "l2"], ["n1", "n2"], ["q1", "q2"]],
    "any": [["t1", "t2", "t3"], ["l1", "l2", "l3"], ["x1", "x2", "x1"], ["q1", "q2"], ["ts1", "ts2"], ["b1", "b2"]],
    "list": [["li1", "li2", "li3"], ["lt1", "lt2", "lt3"]],
    "element": [["s1", "s2", "s3"], ["t1", "t2", "t3"]],
    "numbers": [["lx1", "lx2"], ["li1", "li2"]],
    "lists": [["ll1"], ["li1"]],
    "map": [["mp1"]],
    "time": [["ts1", "ts2"], ["d1", "ts2"]],
    "epoch": [["e1"]],
    "moment": [["m1"], ["e1"], ["ts1"]],
    "place": [["p1", "p2"]],
    "pattern": [["'a'"], ["'(a)(.)'"], ["'[0-9]+'"], ["'\\w+'"], ["'^x'"], ["'ł|b'"], ["'[[:alpha:]]{2}'"]],
    "flags": [["'i'"]],
    "interval": [["INTERVAL '15' MINUTE"], ["INTERVAL '1' DAY"], ["INTERVAL '7 hours'"]],
    "order": [["'DESC'"], ["'ASC'"]],
    "nulls": [["'NULLS LAST'"], ["'NULLS FIRST'"]],
    "unit": [[f"'{unit}'"] for unit in UNITS],
    "part": [[f"'{part}'"] for part in (*UNITS, "dow", "doy", "isodow", "epoch")],
}

#: expressions for functions whose arguments must fit each other
WRITTEN: dict[str, list[str]] = {
    "arrow_cast": ["arrow_cast(s1, 'Utf8')", "arrow_cast(s1, 'Float64')", "arrow_cast(x1, 'Utf8')"],
    "arrow_try_cast": ["arrow_try_cast(t1, 'Int64')", "arrow_try_cast(t1, 'Date32')"],
    "arrow_typeof": [f"arrow_typeof({column})" for column in ("t1", "l1", "x1", "ts1", "d1", "li1", "st1", "1.5")],
    "cast_to_type": ["cast_to_type(s1, x1)", "cast_to_type(s1, t1)"],
    "try_cast_to_type": ["try_cast_to_type(t1, s1)"],
    "with_metadata": ["with_metadata(t1, 'k', 'v')"],
    "get_field": ["get_field(st1, 'a')", "get_field(mp1, 'a')", "st1['b']"],
    "map": ["map(['a', 'b'], [s1, s2])"],
    "map_extract": ["map_extract(mp1, 'a')", "element_at(mp1, 'ż')"],
    "named_struct": ["named_struct('a', t1, 'b', l1)"],
    "struct": ["struct(t1, l1)", "row(t1)"],
    "encode": ["encode(t1, 'hex')", "encode(t1, 'base64')"],
    "decode": ["decode(h1, 'hex')", "decode(encode(t1, 'base64'), 'base64')"],
    "digest": [
        f"digest(t1, '{name}')" for name in ("md5", "sha224", "sha256", "sha384", "sha512", "blake2s", "blake2b")
    ],
    "chr": ["chr(ascii(t1))", "chr(i1 + 64)"],
    "to_char": [
        f"to_char({c}, '{f}')"
        for c in ("ts1", "d1")
        for f in ("%Y-%m-%d", "%d.%m.%y", "%j %B %b", "%D %-d %-m", "%A %a", "%F")
    ]
    + ["date_format(ts1, '%H:%M:%S %I %p %T %R')", "to_char(ts1, '%S.%f %3f %6f%.3f%.6f')"],
    "to_date": [
        "to_date(day1)",
        "to_date(to_char(d1, '%d.%m.%Y'), '%Y/%m/%d', '%d.%m.%Y')",
        "to_date(ts1)",
        "to_date(i1)",
    ],
    "to_time": ["to_time('01:02:03')", "to_time(ts1)", "to_time('01.02', '%H:%M', '%H.%M')"],
    "to_timestamp": [
        "to_timestamp(m1)",
        "to_timestamp(e1)",
        "to_timestamp(ts1)",
        "to_timestamp(d1)",
        "to_timestamp(1.5)",
        "to_timestamp(to_char(ts1, '%d.%m.%Y %H:%M:%S'), '%Y/%m/%d', '%d.%m.%Y %H:%M:%S')",
    ],
    "regexp_replace": [
        "regexp_replace(t1, '(a)(.)', '\\2\\1', 'g')",
        "regexp_replace(t1, '([a-z])', '<$1>', 'i')",
        "regexp_replace(t1, 'a', 'x')",
        "regexp_replace(t1, '(a)', '[\\1]')",
    ],
    "overlay": ["overlay(t1 PLACING 'xy' FROM 2 FOR 1)", "overlay(t1 PLACING t2 FROM 3)"],
    "make_date": ["make_date(2000 + i1, 2, 3)", "make_date(2024, i1, i2)"],
    "current_date": ["current_date() = today()"],
    "current_time": ["current_time() IS NULL"],
    "now": ["now() IS NULL"],
    "random": ["random() < 1.0", "rand() >= 0.0"],
    "uuid": ["length(uuid())"],
    "pi": ["pi()"],
    "regexp_count": ["regexp_count(t1, 'a|b', 2)", "regexp_count(t1, '[A-Z]', 1, 'i')"],
    "regexp_instr": [
        "regexp_instr(t1, '[a-z]', 2)",
        "regexp_instr(t1, '[a-c]', 1, 2)",
        "regexp_instr(t1, '[A-C]', 1, 1, 'i')",
    ],
    "generate_series": ["generate_series(s1, s2)", "generate_series(s1, s2, s3)"],
    "range": ["range(s1)", "range(s1, s2)", "range(s1, s2, s3)"],
    "array_repeat": ["array_repeat(t1, s1)", "array_repeat(l1, i1)"],
    "array_resize": ["array_resize(li1, s1)", "array_resize(lt1, 3)", "array_resize(li1, 4, l1)"],
    "array_slice": ["array_slice(li1, i1, i2)", "array_slice(lt1, i1, i2)", "array_slice(li1, i1, i2, 2)"],
    "array_scale": ["array_scale(lx1, x1)"],
    "date_bin": [
        f"date_bin(INTERVAL '{step}', {moment})"
        for step in ("15 minutes", "1 day", "7 hours")
        for moment in ("ts1", "ts1, TIMESTAMP '2001-02-03 04:05:06'")
    ],
    "make_time": ["make_time(abs(i1) % 24, 5, 6)", "make_time(1, 2, i1)"],
    "to_unixtime": ["to_unixtime(m1)", "to_unixtime(ts1)", "to_unixtime(e1)", "to_unixtime(d1)"],
    "factorial": ["factorial(i1)"],
    "nullif": ["nullif(t1, t2)", "nullif(l1, l2)", "nullif(x1, x2)", "nullif(0.0, -0.0)"],
    "version": ["version()"],
    "lpad": ["lpad(t1, abs(i1))", "lpad(t1, abs(i1), t2)"],
    "rpad": ["rpad(t1, abs(i1))", "rpad(t1, abs(i1), t2)"],
    "repeat": ["repeat(t1, i1)"],
}
#: their generic expressions are added to those above
ALSO_GENERIC = {"regexp_count", "regexp_instr"}
