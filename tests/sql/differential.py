"""Every function that DataFusion also has, on both engines, over rows of edge values."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

import datafusion as oracle
import pyarrow as pa

from streamling.sql.frames import prepare
from streamling.sql.library.declaration import Function
from streamling.sql.plan import Column
from streamling.sql.statement import Statement
from streamling.types.spark import to_spark_schema
from tests.sql.edge_values import ALSO_GENERIC, COLUMNS, KINDS, WRITTEN


def rows(seed: int, count: int) -> pa.Table:
    """Every value of every column at least once, in random combinations."""
    chance = random.Random(seed)
    columns: dict[str, pa.Array] = {"id": pa.array(range(count))}
    for name, (type_, pool) in COLUMNS.items():
        values = [*pool, *chance.choices(pool, k=max(0, count - len(pool)))][:count]
        chance.shuffle(values)
        if pa.types.is_map(type_):
            values = [None if value is None else list(value.items()) for value in values]
        columns[name] = pa.array(values, type_)
        if pa.types.is_struct(type_):  # DataFusion reads the fields of a NULL struct
            fields = [pa.array([value and value[part.name] for value in values], part.type) for part in type_]
            missing = pa.array([value is None for value in values])
            columns[name] = pa.StructArray.from_arrays(fields, fields=list(type_), mask=missing)
    return pa.table(columns)


def expressions(function: Function) -> Iterator[str]:
    """Calls with every number of arguments and every variant of their kinds."""
    yield from WRITTEN.get(function.name, ())
    if function.name in WRITTEN and function.name not in ALSO_GENERIC:
        return
    least, most = function.arity
    for count in range(least, (most if most is not None else least + 2) + 1):
        kinds = [function.kind_of(place) for place in range(count)]
        choices = {kind: KINDS.get(kind) for kind in dict.fromkeys(kinds)}
        if any(options is None for options in choices.values()):
            continue
        # further arguments are tried with only two variants: their combinations would be thousands
        for variant in itertools.islice(_variants(choices), None if count == least else 2):
            taken: dict[str, Iterator[str]] = {
                kind: iter(itertools.cycle(columns)) for kind, columns in variant.items()
            }
            yield f"{function.name}({', '.join(next(taken[kind]) for kind in kinds)})"


def _variants(choices: dict[str, Any]) -> Iterator[dict[str, list[str]]]:
    """Lists and their elements vary together, everything else in all combinations."""
    if {"list", "element"} <= set(choices):
        paired = zip(choices["list"], choices["element"], strict=True)
        rest = {kind: options[0] for kind, options in choices.items() if kind not in ("list", "element")}
        yield from ({**rest, "list": list_, "element": element} for list_, element in paired)
        return
    for combination in itertools.product(*choices.values()):
        yield dict(zip(choices, combination, strict=True))


@dataclass
class Case:
    """One expression: DataFusion's results, and the rows for which it only has an error."""

    name: str
    expression: str
    expected: list[Any] | None = None
    failing: list[int] = field(default_factory=list)
    actual: list[Any] | None = None
    error: str = ""

    @property
    def differences(self) -> list[tuple[int, Any, Any]]:
        if self.expected is None or self.actual is None:
            return []
        pairs = zip(self.expected, self.actual, strict=True)
        return [
            (row, wanted, got)
            for row, (wanted, got) in enumerate(pairs)
            if row not in self.failing and not equal(wanted, got)
        ]


def ask_datafusion(cases: Sequence[Case], table: pa.Table) -> None:
    context = oracle.SessionContext()
    context.from_arrow(table, "t")
    for case in cases:
        try:
            context.sql(f"SELECT {case.expression} AS v FROM t")
        except Exception:  # not a valid call in DataFusion
            continue
        case.expected = [None] * table.num_rows
        fill(context, case, 0, table.num_rows)


def fill(context: Any, case: Case, start: int, end: int) -> None:
    """Results of rows ``start`` to ``end``; a failing range is halved until the failing rows are found."""
    assert case.expected is not None
    query = f"SELECT {case.expression} AS v FROM t WHERE id >= {start} AND id < {end} ORDER BY id"
    try:
        found = context.sql(query).to_arrow_table()["v"]
    except BaseException as error:  # a panic of Rust is not an Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        if end - start == 1:
            case.failing.append(start)
            return
        middle = (start + end) // 2
        fill(context, case, start, middle)
        fill(context, case, middle, end)
        return
    case.expected[start:end] = values(found)


def ask_spark(spark: Any, cases: Sequence[Case], table: pa.Table, together: int = 60) -> None:
    frame = spark.createDataFrame(table, to_spark_schema(table.schema))
    columns = [Column(name, table.schema.field(name).type) for name in table.schema.names]
    ready = []
    for case in cases:
        problems = Statement(f"SELECT {case.expression} AS v FROM t").compile({"t": columns}).problems
        case.error = str(problems[0]) if problems else ""
        ready += [case] if not case.error else []
    for start in range(0, len(ready), together):
        _run(spark, ready[start : start + together], frame, columns)


def _run(spark: Any, cases: Sequence[Case], frame: Any, columns: list[Column]) -> None:
    items = [f"{_masked(case)} AS v{number}" for number, case in enumerate(cases)]
    compiled = Statement(f"SELECT id, {', '.join(items)} FROM t").compile({"t": columns})
    try:
        found = prepare(spark, compiled.plan).run({"t": frame}).toArrow()
    except Exception as error:
        if len(cases) == 1:
            cases[0].error = str(error).split("\n")[0]
            return
        middle = len(cases) // 2
        _run(spark, cases[:middle], frame, columns)
        _run(spark, cases[middle:], frame, columns)
        return
    for number, case in enumerate(cases):
        case.actual = values(found[f"v{number}"])


def _masked(case: Case) -> str:
    """The expression only for the rows for which DataFusion has a result."""
    if not case.failing:
        return case.expression
    return f"CASE WHEN id NOT IN ({', '.join(map(str, case.failing))}) THEN {case.expression} END"


def values(array: Any) -> list[Any]:
    """As Python values; times to the microsecond, whatever the unit."""
    type_ = array.type
    if pa.types.is_timestamp(type_):
        array = array.cast(pa.timestamp("us", type_.tz), safe=False)
    elif pa.types.is_time(type_):
        array = array.cast(pa.time64("ns")).cast(pa.time64("us"), safe=False)
    try:
        return array.to_pylist()  # type: ignore[no-any-return]
    except (OverflowError, ValueError) as error:  # beyond Python's years
        if isinstance(error, UnicodeDecodeError) or not pa.types.is_temporal(type_):
            raise
        return [_within_pythons_years(value) for value in array]


def _within_pythons_years(value: Any) -> Any:
    """A date or time; others as the number that it is stored as."""
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        return value.cast(pa.int32() if pa.types.is_date32(value.type) else pa.int64()).as_py()


def equal(wanted: Any, got: Any) -> bool:
    if isinstance(wanted, list | tuple) and isinstance(got, list | tuple):
        return len(wanted) == len(got) and all(map(equal, wanted, got))
    if isinstance(wanted, dict) and isinstance(got, dict):
        return list(wanted) == list(got) and all(equal(wanted[key], got[key]) for key in wanted)
    if isinstance(wanted, float) or isinstance(got, float):
        return _close(wanted, got)
    if isinstance(wanted, datetime) and isinstance(got, datetime):
        return _utc(wanted) == _utc(got)
    if isinstance(wanted, pa.MonthDayNano) and isinstance(got, timedelta):
        return (wanted.months, wanted.days, wanted.nanoseconds // 1000) == (0, 0, got // timedelta(microseconds=1))
    return bool(wanted == got) and (isinstance(wanted, date) == isinstance(got, date))


def _close(wanted: Any, got: Any) -> bool:
    if wanted is None or got is None or isinstance(wanted, str) or isinstance(got, str):
        return wanted is got
    if math.isnan(wanted) or math.isnan(got):
        return math.isnan(wanted) and math.isnan(got)
    return wanted == got or math.isclose(wanted, got, rel_tol=1e-12)


def _utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
