"""Random SQL expressions over columns of every type, as trees that say which construct met which types."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa

INTS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32")
DECIMALS = ("d10_2", "d20_4", "d38_18", "d38_0")
FLOATS = ("f32", "f64")
NUMBERS = (*INTS, "u64", *DECIMALS, *FLOATS)

_TIMES = [datetime(1970, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2024, 2, 29, 12, 30, 15, 123456)]
_TIMES += [datetime(2000, 1, 1), datetime(2023, 12, 31, 23, 59, 59), datetime(1900, 3, 1, 0, 0, 1, 500000)]

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
    "f64": (pa.float64(), [0.0, -0.0, 1.5, -2.5, 0.1, 2.675, 1e17, 1e-9, 123456.789]),
    "d10_2": (pa.decimal128(10, 2), [Decimal("0"), Decimal("1.50"), Decimal("-2.55"), Decimal("99999999.99")]),
    "d20_4": (pa.decimal128(20, 4), [Decimal("0.0001"), Decimal("-7.1250"), Decimal("9999999999999999.9999")]),
    "d38_18": (pa.decimal128(38, 18), [Decimal("1"), Decimal("-0.000000000000000001"), Decimal("12345678.5")]),
    "d38_0": (pa.decimal128(38, 0), [Decimal(0), Decimal(-3), Decimal("98765432109876543210987654321098765432")]),
    "text": (pa.string(), ["", "a", "Ab c", "żółw_%", "  x ", "12", "-3.5", "2024-05-06", "日本語😀", "a.b.c", "true"]),
    "bin": (pa.binary(), [b"", b"a", b"\x00\xff", "ż".encode()]),
    "bool": (pa.bool_(), [True, False]),
    "day": (pa.date32(), [moment.date() for moment in _TIMES]),
    "ts": (pa.timestamp("us"), _TIMES),
    "tz": (pa.timestamp("us", "UTC"), _TIMES),
    "tm": (pa.time64("us"), [time(0), time(23, 59, 59, 999999), time(12, 30, 15)]),
    "li": (pa.list_(pa.int64()), [[], [1], [3, 1, 2, 1], [None, 5], [2**40, -1]]),
    "lt": (pa.list_(pa.string()), [[], ["a"], ["b", None, "a"], ["", "ż"]]),
    "lx": (pa.list_(pa.float64()), [[], [1.5], [0.1, None, -2.0]]),
    "st": (pa.struct([("a", pa.int64()), ("b", pa.string())]), [{"a": 7, "b": "x"}, {"a": None, "b": None}]),
    "mp": (pa.map_(pa.string(), pa.int64()), [{}, {"a": 7}, {"b": None, "a": -3}]),
}
_SECOND = "_2"  # there are two columns of every type


@dataclass(frozen=True)
class Expr:
    """``construct`` names what it is: ``+``, ``cast to text``, ``round``, ``column``."""

    construct: str
    kind: str
    sql: str
    args: tuple[Expr, ...] = ()

    def walk(self) -> Iterator[Expr]:
        yield self
        for arg in self.args:
            yield from arg.walk()


def table(chance: random.Random, count: int) -> pa.Table:
    columns: dict[str, Any] = {"id": pa.array(range(count))}
    for name, (type_, pool) in COLUMNS.items():
        for column in (name, name + _SECOND):
            values = [*pool, None, *chance.choices([*pool, None], k=count)][:count]
            chance.shuffle(values)
            columns[column] = _array(values, type_)
    return pa.table(columns)


def _array(values: list[Any], type_: pa.DataType) -> pa.Array:
    if pa.types.is_map(type_):
        values = [None if value is None else list(value.items()) for value in values]
    if pa.types.is_struct(type_):  # DataFusion looks at the fields of a NULL struct
        fields = [pa.array([value and value[part.name] for value in values], part.type) for part in type_]
        return pa.StructArray.from_arrays(fields, fields=list(type_), mask=pa.array([v is None for v in values]))
    if isinstance(values[0], date) and pa.types.is_timestamp(type_):
        values = [None if value is None else value for value in values]
    return pa.array(values, type_)


_DIGITS = {"d10_2": (10, 2), "d20_4": (20, 4), "d38_18": (38, 18), "d38_0": (38, 0)}
_NAMES = {
    "i8": "TINYINT", "i16": "SMALLINT", "i32": "INT", "i64": "BIGINT", "u8": "TINYINT UNSIGNED",
    "u16": "SMALLINT UNSIGNED", "u32": "INT UNSIGNED", "u64": "BIGINT UNSIGNED", "f32": "FLOAT", "f64": "DOUBLE",
    "text": "TEXT", "bool": "BOOLEAN", "day": "DATE", "ts": "TIMESTAMP", "bin": "BYTEA",
    **{name: f"DECIMAL({p}, {s})" for name, (p, s) in _DIGITS.items()},
}  # fmt: skip
_PARTS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "dow", "doy", "isodow")
_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
_TEXTS = ("", "a", "b ", "A", "ż", "_", "12", "x.y")
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")


class Grammar:
    """Makes expressions of a wanted kind: ``int``, ``dec``, ``f32``, ``f64``, ``text``, ``bool``, ``day``, ``ts``, …"""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self._makers: dict[str, Sequence[Callable[[int], Expr]]] = {
            "int": (
                self._int_operator,
                self._bits,
                self._int_call,
                self._cast_to_int,
                self._part,
                self._inside,
                self._sign,
            ),
            "dec": (self._dec_operator, self._dec_operator, self._dec_call, self._cast_to_dec, self._sign_dec),
            "f64": (self._float_operator, self._float_call, self._float_call, self._cast_to_float, self._epoch),
            "f32": (self._single_operator, self._cast_to_float),
            "text": (self._joined, self._text_call, self._text_call, self._text_call, self._cast_to_text),
            "bool": (self._compared, self._compared, self._logic, self._test, self._listed, self._matched),
            "day": (self._cast_to_day, self._day_moved),
            "ts": (self._cut, self._ts_moved, self._cast_to_ts),
            "li": (partial(self._list_call, "li"), partial(self._list_call, "li"), partial(self._made_list, "li")),
            "lt": (partial(self._list_call, "lt"), partial(self._list_call, "lt"), partial(self._made_list, "lt")),
        }

    def expression(self) -> Expr:
        if self.chance.random() < 0.03:
            return self._curve()
        kind = self.chance.choice(
            ("int", "int", "dec", "dec", "f64", "f32", "text", "text", "bool", "bool", "day", "ts", "li", "lt")
        )
        return self.make(kind, self.chance.choice((1, 2, 2, 3)))

    def make(self, kind: str, depth: int) -> Expr:
        if kind not in self._makers or depth <= 0 or self.chance.random() < 0.1:
            return self.leaf(kind)
        if self.chance.random() < 0.15:
            return self._choice(kind, depth)
        return self.chance.choice(self._makers[kind])(depth)

    # ── leaves ──────────────────────────────────────────────────────────────────────────────────────────────

    def column(self, kind: str) -> Expr:
        name = {"int": INTS, "dec": DECIMALS, "number": NUMBERS}.get(kind, (kind,))
        chosen = self.chance.choice(name)
        return Expr("column", chosen, chosen + self.chance.choice(("", _SECOND)))

    def leaf(self, kind: str) -> Expr:
        if self.chance.random() < 0.7 or kind not in ("int", "f64", "text", "bool", "day", "ts"):
            return self.column(kind)
        return self.literal(kind)

    def literal(self, kind: str) -> Expr:
        text = {
            "int": lambda: str(self.chance.choice((0, 1, 2, 3, 7, 10, 100))),
            "f64": lambda: self.chance.choice(("0.5", "1.5", "2.0", "10.25", "1e3")),
            "text": lambda: f"'{self.chance.choice(_TEXTS)}'",
            "bool": lambda: self.chance.choice(("true", "false")),
            "day": lambda: "DATE '2024-02-29'",
            "ts": lambda: "TIMESTAMP '2024-02-29 01:02:03'",
        }[kind]()
        return Expr("literal", "i64" if kind == "int" else kind, text)

    # ── any kind ────────────────────────────────────────────────────────────────────────────────────────────

    def _choice(self, kind: str, depth: int) -> Expr:
        form = self.chance.choice(("CASE", "CASE", "coalesce", "nullif", "greatest", "least", "nvl2"))
        if kind in ("li", "lt", "bool") and form in ("greatest", "least"):
            form = "coalesce"
        a, b = self.make(kind, depth - 1), self.make(kind, depth - 1)
        if form == "CASE":
            condition = self.make("bool", depth - 1)
            default = "" if self.chance.random() < 0.2 else f" ELSE {b.sql}"
            return Expr("CASE", _wider(a, b), f"CASE WHEN {condition.sql} THEN {a.sql}{default} END", (a, b, condition))
        if form == "nvl2":
            c = self.make("bool", depth - 1)
            return Expr(form, _wider(a, b), f"nvl2({c.sql}, {a.sql}, {b.sql})", (a, b, c))
        return Expr(form, _wider(a, b), f"{form}({a.sql}, {b.sql})", (a, b))

    def _call(self, name: str, kind: str, *args: Expr, sql: str = "") -> Expr:
        return Expr(name, kind, sql or f"{name}({', '.join(arg.sql for arg in args)})", args)

    # ── numbers ─────────────────────────────────────────────────────────────────────────────────────────────

    def _binary(self, symbols: Sequence[str], kind: str, left: Expr, right: Expr) -> Expr:
        symbol = self.chance.choice(symbols)
        return Expr(symbol, kind, f"({left.sql} {symbol} {right.sql})", (left, right))

    def _int_operator(self, depth: int) -> Expr:
        a, b = self.make("int", depth - 1), self.make("int", depth - 1)
        return self._binary(("+", "-", "*", "/", "%"), _wider(a, b), a, b)

    def _bits(self, depth: int) -> Expr:
        a, b = self.make("int", depth - 1), self.make("int", depth - 1)
        return self._binary(("&", "|"), _wider(a, b), a, b)

    def _sign(self, depth: int) -> Expr:
        a = self.make("int", depth - 1)
        if any(part.construct in ("&", "|") for part in a.walk()):  # DataFusion takes -(a | b) for ~(a | b)
            return a
        return self.chance.choice((Expr("-x", a.kind, f"(- {a.sql})", (a,)), self._call("abs", a.kind, a)))

    def _int_call(self, depth: int) -> Expr:
        text = self.make("text", depth - 1)
        name = self.chance.choice(
            (
                "length",
                "character_length",
                "octet_length",
                "bit_length",
                "ascii",
                "strpos",
                "array_length",
                "cardinality",
                "array_position",
                "levenshtein",
                "date_diff",
                "find_in_set",
            )
        )
        if name in ("strpos", "levenshtein", "find_in_set"):
            return self._call(name, "i64", text, self.make("text", depth - 1))
        if name == "date_diff":
            a, b = self.make("day", depth - 1), self.make("day", depth - 1)
            return Expr("day - day", "i64", f"({a.sql} - {b.sql})", (a, b))
        if name == "array_position":
            return self._call(name, "i64", self.make("lt", depth - 1), text)
        if name in ("array_length", "cardinality"):
            return self._call(name, "i64", self.make(self.chance.choice(("li", "lt")), depth - 1))
        return self._call(name, "i32", text)

    def _cast_to_int(self, depth: int) -> Expr:
        return self._cast(
            self.chance.choice((*INTS, "i64", "i32")), ("int", "f64", "text", "bool", "dec", "f32"), depth
        )

    def _cast(self, target: str, sources: Sequence[str], depth: int) -> Expr:
        word = self.chance.choice(("CAST", "CAST", "TRY_CAST"))
        value = self.make(self.chance.choice(sources), depth - 1)
        return Expr(f"{word} AS {target}", target, f"{word}({value.sql} AS {_NAMES[target]})", (value,))

    def _part(self, depth: int) -> Expr:
        value, part = self.make(self.chance.choice(("ts", "day")), depth - 1), self.chance.choice(_PARTS)
        written = self.chance.choice((f"extract({part} FROM {value.sql})", f"date_part('{part}', {value.sql})"))
        return Expr("extract", "i32", written, (value,))

    def _inside(self, depth: int) -> Expr:
        index = self.chance.choice(("1", "2", "-1", "9"))
        list_ = self.make("li", depth - 1)
        return self.chance.choice(
            (
                Expr("list[n]", "i64", f"{_bracketed(list_)}[{index}]", (list_,)),
                Expr("struct['f']", "i64", f"{self.column('st').sql}['a']", ()),
                Expr("map['k']", "i64", f"{self.column('mp').sql}['{self.chance.choice('ab')}']", ()),
            )
        )

    def _dec_operator(self, depth: int) -> Expr:
        a = self.make("dec", depth - 1)
        b = self.make(self.chance.choice(("dec", "dec", "int")), depth - 1)
        a, b = (a, b) if self.chance.random() < 0.8 else (b, a)
        return self._binary(("+", "-", "*", "/", "%"), "dec", a, b)

    def _sign_dec(self, depth: int) -> Expr:
        a = self.make("dec", depth - 1)
        return self.chance.choice((Expr("-x", a.kind, f"(- {a.sql})", (a,)), self._call("abs", a.kind, a)))

    def _dec_call(self, depth: int) -> Expr:
        a, name = self.make("dec", depth - 1), self.chance.choice(("round", "round", "floor", "ceil", "trunc", "trunc"))
        if name in ("round", "trunc") and self.chance.random() < 0.7:
            return self._call(name, "dec", a, sql=f"{name}({a.sql}, {self.chance.choice((0, 1, 2, 3, -1))})")
        return self._call(name, "dec", a)

    def _cast_to_dec(self, depth: int) -> Expr:
        return self._cast(self.chance.choice(DECIMALS), ("int", "f64", "text", "dec"), depth)

    def _float_operator(self, depth: int) -> Expr:
        a, b = self.make("f64", depth - 1), self.make(self.chance.choice(("f64", "int", "dec", "f32")), depth - 1)
        a, b = (a, b) if self.chance.random() < 0.5 else (b, a)
        return self._binary(("+", "-", "*", "/", "%"), "f64", a, b)

    def _single_operator(self, depth: int) -> Expr:
        a, b = self.make("f32", depth - 1), self.make(self.chance.choice(("f32", "int", "dec")), depth - 1)
        a, b = (a, b) if self.chance.random() < 0.5 else (b, a)
        return self._binary(("+", "-", "*", "/", "%"), "f32", a, b)

    def _float_call(self, depth: int) -> Expr:
        a = self.make(self.chance.choice(("f64", "f64", "int", "f32")), depth - 1)
        name = self.chance.choice(("abs", "round", "floor", "ceil", "trunc", "sqrt", "signum", "nanvl", "round2"))
        if name == "nanvl":
            return self._call(name, "f64", a, self.make("f64", depth - 1))
        if name == "round2":
            return self._call("round", "f64", a, sql=f"round({a.sql}, {self.chance.choice((0, 1, 2, -1))})")
        return self._call(name, "f64", a)

    def _curve(self) -> Expr:
        """Only as a whole expression: a comparison would see the last digit, which libraries compute differently."""
        a = self.make(self.chance.choice(("f64", "int", "f32")), 1)
        if self.chance.random() < 0.3:
            return self._call(self.chance.choice(("power", "atan2")), "f64", a, self.make("f64", 1))
        return self._call(
            self.chance.choice(("ln", "log2", "log10", "exp", "sin", "cos", "tan", "cbrt", "degrees", "tanh")), "f64", a
        )

    def _epoch(self, depth: int) -> Expr:
        value = self.make("ts", depth - 1)
        return Expr("extract", "f64", f"extract(epoch FROM {value.sql})", (value,))

    def _cast_to_float(self, depth: int) -> Expr:
        return self._cast(self.chance.choice(FLOATS), ("int", "dec", "f64", "text", "f32"), depth)

    # ── text ────────────────────────────────────────────────────────────────────────────────────────────────

    def _joined(self, depth: int) -> Expr:
        a = self.make("text", depth - 1)
        b = self.make(self.chance.choice(("text", "text", "int", "f64", "dec", "bool", "day", "ts", "f32")), depth - 1)
        a, b = (a, b) if self.chance.random() < 0.5 else (b, a)
        return self.chance.choice(
            (Expr("||", "text", f"({a.sql} || {b.sql})", (a, b)), self._call("concat", "text", a, b))
        )

    def _text_call(self, depth: int) -> Expr:
        a, b, c = (self.make("text", depth - 1) for _ in range(3))
        count = Expr("literal", "i64", str(self.chance.choice((0, 1, 2, 5, -1))))
        name = self.chance.choice(
            (
                "upper",
                "lower",
                "reverse",
                "btrim",
                "ltrim",
                "rtrim",
                "initcap",
                "md5",
                "left",
                "right",
                "repeat",
                "substr",
                "replace",
                "translate",
                "split_part",
                "lpad",
                "rpad",
                "concat_ws",
                "to_hex",
                "array_to_string",
                "chr",
                "encode",
            )
        )
        if name in ("left", "right"):
            return self._call(name, "text", a, count)
        if name == "repeat":
            return self._call(name, "text", a, Expr("literal", "i64", "2"))
        if name in ("lpad", "rpad"):
            return self._call(name, "text", a, Expr("literal", "i64", self.chance.choice(("0", "1", "6"))), b)
        if name == "substr":
            return self._call(name, "text", a, count, Expr("literal", "i64", self.chance.choice(("0", "1", "3"))))
        if name in ("replace", "translate", "concat_ws"):
            return self._call(name, "text", a, b, c)
        if name == "split_part":
            return self._call(
                name,
                "text",
                a,
                Expr("literal", "text", self.chance.choice(("'.'", "' '", "'a'"))),
                Expr("literal", "i64", self.chance.choice(("1", "2", "-1"))),
            )
        if name == "to_hex":
            return self._call(name, "text", self.column("i64"))
        if name == "array_to_string":
            return self._call(name, "text", self.make("lt", depth - 1), Expr("literal", "text", "','"))
        if name == "chr":
            return self._call(name, "text", Expr("literal", "i64", self.chance.choice(("65", "380"))))
        if name == "encode":
            return self._call(name, "text", a, Expr("literal", "text", self.chance.choice(("'hex'", "'base64'"))))
        return self._call(name, "text", a)

    def _cast_to_text(self, depth: int) -> Expr:
        return self._cast("text", ("int", "f64", "f32", "dec", "bool", "day", "ts", "text", "tm", "tz"), depth)

    # ── conditions ──────────────────────────────────────────────────────────────────────────────────────────

    def _pair(self, depth: int) -> tuple[Expr, Expr]:
        a, b = self.chance.choice(
            (("int", "int"), ("int", "dec"), ("dec", "dec"), ("int", "f64"), ("f32", "f64"), ("f64", "f64"),
             ("text", "text"), ("day", "day"), ("ts", "ts"), ("day", "ts"), ("bool", "bool"), ("tz", "tz"),
             ("tm", "tm"), ("bin", "bin"), ("u64", "int"))
        )  # fmt: skip
        return self.make(a, depth - 1), self.make(b, depth - 1)

    def _compared(self, depth: int) -> Expr:
        a, b = self._pair(depth)
        return self._binary(_COMPARISONS, "bool", a, b)

    def _logic(self, depth: int) -> Expr:
        a, b = self.make("bool", depth - 1), self.make("bool", depth - 1)
        if self.chance.random() < 0.3:
            return Expr("NOT", "bool", f"(NOT {a.sql})", (a,))
        return self._binary(("AND", "OR"), "bool", a, b)

    def _test(self, depth: int) -> Expr:
        a = self.make(self.chance.choice(("int", "text", "bool", "dec", "f64", "ts", "li")), depth - 1)
        test = self.chance.choice(("IS NULL", "IS NOT NULL"))
        if a.kind == "bool":
            test = self.chance.choice((test, "IS TRUE", "IS NOT TRUE", "IS FALSE", "IS UNKNOWN"))
        return Expr(test, "bool", f"({a.sql} {test})", (a,))

    def _listed(self, depth: int) -> Expr:
        a, b = self._pair(depth)
        c, negated = (
            self.make(b.kind if b.kind in self._makers else _group(b.kind), depth - 1),
            self.chance.choice(("", "NOT ")),
        )
        if self.chance.random() < 0.5:
            return Expr("BETWEEN", "bool", f"({a.sql} {negated}BETWEEN {b.sql} AND {c.sql})", (a, b, c))
        return Expr("IN", "bool", f"({a.sql} {negated}IN ({b.sql}, {c.sql}))", (a, b, c))

    def _matched(self, depth: int) -> Expr:
        a, word = self.make("text", depth - 1), self.chance.choice(("LIKE", "NOT LIKE", "ILIKE"))
        pattern = self.chance.choice(("'a%'", "'%b'", "'_b%'", "'%'", "''", "'A_ c'", "'%ż%'"))
        if self.chance.random() < 0.1:
            return self._call("isnan", "bool", self.make("f64", depth - 1))
        if self.chance.random() < 0.1:
            return self._call("array_has", "bool", self.make("lt", depth - 1), a)
        if self.chance.random() < 0.3:
            return self._call(
                self.chance.choice(("starts_with", "ends_with", "contains")), "bool", a, self.make("text", depth - 1)
            )
        return Expr(word, "bool", f"({a.sql} {word} {pattern})", (a,))

    # ── times ───────────────────────────────────────────────────────────────────────────────────────────────

    def _cut(self, depth: int) -> Expr:
        value = self.make("ts", depth - 1)
        return Expr("date_trunc", "ts", f"date_trunc('{self.chance.choice(_UNITS)}', {value.sql})", (value,))

    def _interval(self) -> str:
        count, unit = (
            self.chance.choice((1, 3, 15)),
            self.chance.choice(("day", "hour", "minute", "month", "year", "second")),
        )
        return f"INTERVAL '{count}' {unit.upper()}"

    def _ts_moved(self, depth: int) -> Expr:
        value, sign = self.make("ts", depth - 1), self.chance.choice("+-")
        return Expr("ts ± interval", "ts", f"({value.sql} {sign} {self._interval()})", (value,))

    def _day_moved(self, depth: int) -> Expr:
        value, sign = self.make("day", depth - 1), self.chance.choice("+-")
        if self.chance.random() < 0.4:
            return Expr("day ± int", "day", f"({value.sql} {sign} {self.chance.choice((1, 30))})", (value,))
        unit = self.chance.choice(("DAY", "MONTH", "YEAR"))
        return Expr(
            "day ± interval", "day", f"({value.sql} {sign} INTERVAL '{self.chance.choice((1, 2))}' {unit})", (value,)
        )

    def _cast_to_day(self, depth: int) -> Expr:
        return self._cast("day", ("ts", "day", "tz"), depth)

    def _cast_to_ts(self, depth: int) -> Expr:
        return self._cast("ts", ("ts", "day", "tz"), depth)

    # ── lists ───────────────────────────────────────────────────────────────────────────────────────────────

    def _list_call(self, kind: str, depth: int) -> Expr:
        a, b = self.make(kind, depth - 1), self.make(kind, depth - 1)
        element = self.make("text", depth - 1) if kind == "lt" else Expr("column", "i64", "i64")
        name = self.chance.choice(
            (
                "array_append",
                "array_prepend",
                "array_concat",
                "array_distinct",
                "array_sort",
                "array_reverse",
                "array_remove_all",
                "array_slice",
                "array_union",
                "array_intersect",
                "array_except",
                "array_pop_back",
            )
        )
        if name in ("array_append", "array_remove_all"):
            return self._call(name, kind, a, element)
        if name == "array_prepend":
            return self._call(name, kind, element, a)
        if name in ("array_concat", "array_union", "array_intersect", "array_except"):
            return self._call(name, kind, a, b)
        if name == "array_slice":
            return self._call(
                name,
                kind,
                a,
                sql=f"array_slice({a.sql}, {self.chance.choice((1, 2, -2))}, {self.chance.choice((1, 3, -1))})",
            )
        return self._call(name, kind, a)

    def _made_list(self, kind: str, depth: int) -> Expr:
        element = "int" if kind == "li" else "text"
        a, b = self.make(element, depth - 1), self.make(element, depth - 1)
        return Expr("[a, b]", kind, f"[{a.sql}, {b.sql}]", (a, b))


def _bracketed(list_: Expr) -> str:
    return list_.sql if list_.construct == "column" else f"({list_.sql})"


def _group(kind: str) -> str:
    return "int" if kind in INTS else "dec" if kind in (*DECIMALS, "dec") else kind


def _wider(a: Expr, b: Expr) -> str:
    """The kind of one of both: that of the left, or the wider integer."""
    order = ("i8", "u8", "i16", "u16", "i32", "u32", "i64")
    if a.kind in order and b.kind in order:
        return max(a.kind, b.kind, key=order.index)
    return a.kind if a.kind == b.kind else _group(a.kind)
