"""Random tables with sorting keys of every type, and a model of what a source has to read from them."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Sequence
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
#: SQL of a filter, and what it means
FILTERS: list[tuple[str, Callable[[Row], bool]]] = [
    ("x % 3 = 1", lambda row: row.x % 3 == 1),
    ("v >= 2", lambda row: row.v >= 2),
    ("v < 3 AND NOT d", lambda row: row.v < 3 and not row.d),
]
_ENGINES = ["MergeTree", "ReplacingMergeTree", "ReplacingMergeTree(v)", "ReplacingMergeTree(v, d)"]


@dataclass(frozen=True)
class Row:
    """A row as it is stored, after what ClickHouse does when rows are inserted."""

    x: int
    v: int
    d: int
    #: the part and the place in it; parts are numbered in the order of their inserts
    place: tuple[int, int]


@dataclass(frozen=True)
class Group:
    """Rows of which exactly one has to be read: several if ClickHouse does not say which one is left."""

    xs: set[int]
    #: whether none of them is right, too
    is_optional: bool = False


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
        settings = "allow_nullable_key = 1, index_granularity = 16"
        settings += ", allow_experimental_reverse_key = 1" if reverse else ""
        self.database.execute(
            f"CREATE TABLE t ({columns}, x Int32, v UInt8, d UInt8) ENGINE = {self.engine} ORDER BY ({order})"
            f" SETTINGS {settings}",
            "SYSTEM STOP MERGES t",
        )

    def insert(self, rows: int) -> None:
        """Add rows, some of which have the same key; few first keys make some of them dense."""
        pools = [self.random.sample(list(key.values), k=min(len(key.values), 5)) for key in self.keys]
        values = []
        for _ in range(rows):
            x = len(self.ranks)
            chosen = [self.random.choice(pool) for pool in pools]
            self.ranks[x] = tuple(rank for _, rank in chosen)
            version, deleted = self.random.randint(0, 3), int(self.random.random() < 0.3)
            values.append(f"({', '.join([*(sql for sql, _ in chosen), str(x), str(version), str(deleted)])})")
        self.database.execute(f"INSERT INTO t VALUES {', '.join(values)}")

    # ── the model ───────────────────────────────────────────────────────────────────────────────────────────

    def stored(self) -> list[Row]:
        """All rows with their versions, in no order."""
        found = self.database.rows(
            "SELECT x, v, d, toUInt32(splitByChar('_', _part)[-3]) AS part, _part_offset FROM t ORDER BY x"
        )
        return [Row(x, v, d, (part, int(offset))) for x, v, d, part, offset in found]

    def expected(self, matches: Callable[[Row], bool]) -> list[Group]:
        """What has to be read."""
        rows = self.stored()
        if self.engine == "MergeTree":
            return [Group({row.x}) for row in rows if matches(row)]
        groups: dict[tuple[int, ...], list[Row]] = {}
        for row in rows:
            groups.setdefault(self.ranks[row.x], []).append(row)
        found = []
        for winners in map(self._winners, groups.values()):
            matching = {row.x for row in winners if matches(row)}
            if matching:
                found.append(Group(matching, is_optional=len(matching) < len(winners)))
        return found

    def _winners(self, rows: list[Row]) -> list[Row]:
        """The rows of a key of which one is left."""
        if self.engine == "ReplacingMergeTree":
            return [max(rows, key=lambda row: row.place)]
        newest = [row for row in rows if row.v == max(row.v for row in rows)]
        return [] if self.engine.endswith("d)") and any(row.d for row in newest) else newest

    def differences(self, found: Sequence[int], matches: Callable[[Row], bool] = lambda row: True) -> dict[str, Any]:
        """What is wrong with the rows that were read; empty if they are right."""
        groups = self.expected(matches)
        owners = {x: number for number, group in enumerate(groups) for x in group.xs}
        read = [owners.get(x) for x in found]
        needed = {number for number, group in enumerate(groups) if not group.is_optional}
        return {
            what: wrong
            for what, wrong in {
                "stale": [x for x, group in zip(found, read, strict=True) if group is None],
                "missing": [groups[number].xs for number in needed - set(read)],
                "repeated": [groups[n].xs for n, count in Counter(read).items() if n is not None and count > 1],
                "out of order": [(a, b) for a, b in pairwise(found) if self.ranks[a] > self.ranks[b]],
            }.items()
            if wrong
        }
