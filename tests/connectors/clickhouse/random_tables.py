"""Random tables with sorting keys of every type, engines, versions and parts, and what the server itself reads from
them."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any

from tests.connectors.clickhouse.driver import Database


@dataclass(frozen=True)
class KeyColumn:
    """A part of a sorting key: the type of its column, and values as SQL with their place in the order."""

    type: str
    values: Sequence[tuple[str, int]]
    #: SQL of the key; ``{}`` is replaced with the column
    expression: str = "{}"


def _ranked(type_: str, *values: str, expression: str = "{}") -> KeyColumn:
    """Values in ascending order; those that are equal when sorted are joined with ``=``."""
    ranked = [(value, rank) for rank, equal in enumerate(values) for value in equal.split("=")]
    return KeyColumn(type_, ranked, expression)


def _integers(type_: str, bits: int, *, signed: bool) -> KeyColumn:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    middle = range(-2, 4) if signed else range(2, 8)
    return _ranked(type_, *(f"'{n}'" for n in (low, low + 1, *middle, high - 1, high)))


def _float(size: int, number: float) -> str:
    code, whole = ("f", "I") if size == 32 else ("d", "Q")
    (bits,) = struct.unpack(f"<{whole}", struct.pack(f"<{code}", number))
    return f"reinterpretAsFloat{size}(toUInt{size}({bits}))"


def _floats(size: int) -> KeyColumn:
    tiny, large = (1e-40, 3e38) if size == 32 else (5e-324, 1.7e308)
    ordered = [float("-inf"), -large, -0.1, -tiny]
    texts = [_float(size, n) for n in ordered]
    texts.append(f"{_float(size, -0.0)}={_float(size, 0.0)}")
    texts += [_float(size, n) for n in (tiny, 0.1, 0.3, large, float("inf"))]
    return _ranked(f"Float{size}", *texts, f"{_float(size, float('nan'))}=-{_float(size, float('nan'))}")


def _texts(type_: str) -> KeyColumn:
    contents = [b"", b"\0", b"\0\xff", b"\t\n\\", b"'", b"A", b"a", b"a\0", b"ab", "\u00e9".encode(), b"\xff\xfe"]
    return _ranked(type_, *(f"unhex('{content.hex()}')" for content in contents))


def _nullable(key: KeyColumn) -> KeyColumn:
    wrapped = key.type.removeprefix("LowCardinality(").removesuffix(")") if "LowCardinality" in key.type else key.type
    type_ = f"LowCardinality(Nullable({wrapped}))" if "LowCardinality" in key.type else f"Nullable({wrapped})"
    return KeyColumn(type_, [*key.values, ("NULL", 1000)], key.expression)


_INTEGERS = [
    _integers(f"{sign}Int{bits}", bits, signed=not sign) for bits in (8, 16, 32, 64, 128, 256) for sign in ("", "U")
]
_DATES = ("'2024-01-01'", "'2024-01-02'", "'2024-02-29'")
_PLAIN = [
    *_INTEGERS,
    _floats(32),
    _floats(64),
    _ranked("Decimal(9, 3)", "'-999999.999'", "'-0.001'", "'0'", "'1.5'", "'999999.999'"),
    _ranked("Decimal(38, 10)", "'-1234567890123456789012345678.0123456789'", "'0.0000000001'", "'1'"),
    _ranked("Decimal(76, 20)", f"'-{'9' * 56}.{'9' * 20}'", "'0'", f"'{'9' * 56}.{'9' * 20}'"),
    _texts("String"),
    _texts("LowCardinality(String)"),
    _ranked("FixedString(3)", *(f"unhex('{digits}')" for digits in ("000000", "00ff00", "41", "4100ff", "ffffff"))),
    _ranked("Date", "'1970-01-01'", *_DATES, "'2149-06-06'"),
    _ranked("Date32", "'1900-01-01'", "'1969-12-31'", *_DATES, "'2299-12-31'"),
    # the hour that Berlin has twice
    _ranked("DateTime('Europe/Berlin')", "0", *(str(1729987200 + n * 1800) for n in range(6)), "4294967295"),
    _ranked("DateTime", "0", "1", "1700000000", "4294967295"),
    *(
        _ranked(
            f"DateTime64({digits}, '{zone}')",
            *(
                f"toDateTime64('{text}', {digits}, 'UTC')"
                for text in ("1950-01-01 00:00:00", "1969-12-31 23:59:59.5", "1970-01-01 00:00:00")
            ),
            f"toDateTime64('2024-10-27 00:59:59', {digits}, 'UTC')",
            f"toDateTime64('2024-10-27 01:59:59.9', {digits}, 'UTC')",
        )
        for digits, zone in ((3, "Europe/Berlin"), (9, "UTC"))
    ),
    KeyColumn("UUID", [(f"'{n:08x}-0000-4000-8000-{n:012x}'", n) for n in range(1, 6)]),
    _ranked("Enum8('z' = -5, 'it\\'s' = 1, 'a' = 7)", "'z'", "'it\\'s'", "'a'"),
    _ranked("Enum16('b' = -300, 'a' = 300)", "'b'", "'a'"),
    _ranked("IPv4", "'0.0.0.0'", "'9.0.0.1'", "'10.0.0.1'", "'255.255.255.255'"),
    _ranked("IPv6", "'::'", "'::1'", "'2001:db8::1'", "'ffff::'"),
    _ranked("Bool", "false", "true"),
]
_EXPRESSIONS = [
    KeyColumn("Int32", [(str(n), n // 3) for n in range(12)], "intDiv({}, 3)"),
    KeyColumn("Int64", [(str(n), -n) for n in range(8)], "-{}"),
    KeyColumn("String", [("'a'", 0), ("'A'", 0), ("'b'", 1), ("'B'", 1)], "lower({})"),
    KeyColumn(
        "DateTime", [(f"toDateTime('2024-01-0{d} 0{h}:00:00')", d) for d in (1, 2) for h in (0, 5)], "toDate({})"
    ),
    KeyColumn("UInt64", [(str(n), n % 3) for n in range(9)], "{} % 3"),
]
KEYS = [*_PLAIN, *map(_nullable, _PLAIN), *_EXPRESSIONS]
#: integers more often than their share: they are read differently
_FIRST = [*KEYS, *_INTEGERS, *_EXPRESSIONS[:2]]
FILTERS = ["x % 3 = 1", "v >= 2", "v < 3 AND NOT d", "day = '2024-02-01'"]
#: replacing engines more often than their share: they decide between rows
_ENGINES = [
    "MergeTree",
    "ReplacingMergeTree",
    "ReplacingMergeTree(v)",
    *["ReplacingMergeTree(v, d)"] * 4,
    "SummingMergeTree(total)",
    "CollapsingMergeTree(sign)",
    "VersionedCollapsingMergeTree(sign, v)",
]
#: all columns of a row but those of the key
COLUMNS = "x, v, d, day, total, sign"
#: the server does not move a condition from behind a LIMIT to the front, where it would see rows that are not merged
_NO_LIMIT = 2**63 - 1
#: the values of a row as text
Read = tuple[str, ...]


@dataclass
class RandomTable:
    """A table ``t`` of a database."""

    random: Random
    database: Database
    keys: list[KeyColumn] = field(init=False)
    engine: str = field(init=False)
    #: the place of a row's key in the order, by ``x``
    ranks: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        chosen = [self.random.choice(_FIRST), *self.random.choices(KEYS, k=self.random.randint(0, 3))]
        self.keys, self.engine = chosen, self.random.choice(_ENGINES)

    def create(self) -> None:
        columns = ", ".join(f"k{n} {key.type}" for n, key in enumerate(self.keys))
        reverse = self.random.random() < 0.2
        order = ", ".join(
            key.expression.format(f"k{n}") + (" DESC" if reverse and self.random.random() < 0.5 else "")
            for n, key in enumerate(self.keys)
        )
        partition = " PARTITION BY toYYYYMM(day)" if self.random.random() < 0.3 else ""
        settings = "allow_nullable_key = 1, index_granularity = 16"
        settings += ", allow_experimental_reverse_key = 1" if reverse else ""
        self.database.execute(
            f"CREATE TABLE t ({columns}, x Int32, v UInt8, d UInt8, day Date, total Int64, sign Int8)"
            f" ENGINE = {self.engine}{partition} ORDER BY ({order}) SETTINGS {settings}",
            "SYSTEM STOP MERGES t",
        )

    def insert(self, rows: int) -> None:
        """Add rows, some of which have the same key; few first keys make some of them dense, and few versions make
        many of them equal. Some inserts keep several rows of a key, and some are followed by a merge."""
        pools = [self.random.sample(list(key.values), k=min(len(key.values), 5)) for key in self.keys]
        values = []
        for _ in range(rows):
            x = len(self.ranks)
            chosen = [self.random.choice(pool) for pool in pools]
            self.ranks[x] = tuple(rank for _, rank in chosen)
            version, deleted = self.random.randint(0, 2), int(self.random.random() < 0.4)
            day = self.random.choice(["'2024-01-01'", "'2024-02-01'"])
            row = [*(sql for sql, _ in chosen), x, version, deleted, day, x % 7, self.random.choice([1, 1, -1])]
            values.append(f"({', '.join(map(str, row))})")
        merges_block = int(self.random.random() < 0.5)
        self.database.execute(f"INSERT INTO t SETTINGS optimize_on_insert = {merges_block} VALUES {', '.join(values)}")
        if self.random.random() < 0.3:
            self.database.execute("SYSTEM START MERGES t", "OPTIMIZE TABLE t", "SYSTEM STOP MERGES t")

    # ── what has to be read ─────────────────────────────────────────────────────────────────────────────────

    def final(self, filter: str | None) -> list[Read]:
        """What the server shows with FINAL, in no order."""
        final = "" if self.engine == "MergeTree" else " FINAL"
        condition = "" if filter is None else f" WHERE {filter}"
        rows = self.database.rows(
            f"SELECT {COLUMNS} FROM (SELECT {COLUMNS} FROM t{final} LIMIT {_NO_LIMIT}){condition}"
        )
        return [tuple(map(str, row)) for row in rows]

    def differences(self, found: Sequence[Read], filter: str | None = None) -> dict[str, Any]:
        """What is wrong with the rows that were read; empty if they are right."""
        read, right = Counter(found), Counter(self.final(filter))
        keys = [self.ranks[int(x)] for x, *_ in found]
        return {
            what: wrong
            for what, wrong in {
                "too many": read - right,
                "missing": right - read,
                "out of order": [(a, b) for a, b in pairwise(keys) if a > b],
            }.items()
            if wrong
        }
