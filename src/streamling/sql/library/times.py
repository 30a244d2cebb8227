"""Dates and times. The only time zone is UTC; values without a zone stay without one."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from streamling.sql.casts import TIME_OF_DAY, from_text
from streamling.sql.fragments import Args, UnsupportedSql, call, fill, literal_text, type_of
from streamling.sql.inference import TIMESTAMP_UTC
from streamling.sql.library.declaration import Function, Rewrite
from streamling.sql.library.time_conversions import (
    MICROS,
    MILLIS,
    NANOS,
    SECONDS,
    Unit,
    day_from_number,
    is_number,
    moment_from_number,
    moment_from_seconds,
    spark_format,
    whole_number,
)

_NTZ, _DATE, _TIME, _LONG = pa.timestamp("us"), pa.date32(), pa.time64("us"), pa.int64()
_PARTS = {
    "dow": "(dayofweek({0}) - 1)",
    "isodow": "(weekday({0}) + 1)",
    "second": "CAST(second({0}) AS INT)",
    "millisecond": "CAST(date_part('second', {0}) * 1000 AS INT)",
    "microsecond": "CAST(date_part('second', {0}) * 1000000 AS INT)",
    "nanosecond": "CAST(date_part('second', {0}) * 1000000000 AS BIGINT)",
    "epoch": "(unix_micros(CAST({0} AS TIMESTAMP_LTZ)) / 1000000D)",
}
#: the time between two moments as a total in one unit
_MICROS = "unix_micros(TIMESTAMP_LTZ'1970-01-01 00:00:00' + {0})"
_SPAN_PARTS = {
    part: f"CAST({_MICROS} DIV {micros} AS INT)"
    for part, micros in {
        "week": 604_800_000_000, "day": 86_400_000_000, "hour": 3_600_000_000, "minute": 60_000_000,
        "second": 1_000_000, "millisecond": 1_000, "microsecond": 1,
    }.items()
} | {"epoch": f"({_MICROS} / 1000000D)"}  # fmt: skip
#: a time of day on the first day
_FIRST_DAY = "(TIMESTAMP_NTZ'1970-01-01 00:00:00' + ({0} - TIME'00:00:00'))"


#: parts that both compute alike, including Spark's own
_PLAIN_PARTS = ("year", "yearofweek", "quarter", "month", "week", "day", "doy", "hour", "minute")
_SPELLINGS = {
    spelling: part
    for part, spellings in {
        "year": "y years yr yrs", "yearofweek": "isoyear", "quarter": "quarters qtr", "month": "mon mons months",
        "week": "w weeks", "day": "d days", "doy": "dayofyear", "hour": "h hours hr hrs",
        "minute": "m min mins minutes",
        "second": "s sec secs seconds", "millisecond": "ms msec msecs milliseconds",
        "microsecond": "us usec usecs microseconds", "nanosecond": "ns nanoseconds", "dow": "dayofweek",
        "isodow": "dayofweek_iso dow_iso",
    }.items()
    for spelling in spellings.split()
}  # fmt: skip


def part_of_date(part: str, value: exp.Expr) -> exp.Expr:
    """Return a part by name. DataFusion numbers weekdays from Sunday = 0, returns whole seconds, and has the epoch."""
    name = _SPELLINGS.get(part.lower(), part.lower())
    if name not in _PARTS and name not in _PLAIN_PARTS:
        known = ", ".join([*_PLAIN_PARTS, *_PARTS])
        raise UnsupportedSql(f"a date or time has no part '{part}'", f"parts are {known}")
    types = {"epoch": pa.float64(), "nanosecond": _LONG}
    if _is(value, pa.types.is_duration):
        if name not in _SPAN_PARTS:
            raise UnsupportedSql(
                f"the time between two moments has no part '{part}'", f"parts are {', '.join(_SPAN_PARTS)}"
            )
        return fill(_SPAN_PARTS[name], [value], types.get(name, pa.int32()))
    if name == "epoch" and _is(value, pa.types.is_time):
        value = fill(_FIRST_DAY, [value], _NTZ)
    value = _moment(value)
    is_moment = _is(value, pa.types.is_date, pa.types.is_timestamp, pa.types.is_time)
    type_ = types.get(name, pa.int32() if is_moment or name in _PARTS else None)
    return fill(_PARTS.get(name, f"date_part('{name}', {{0}})"), [value], type_)


def _date_part(args: Args) -> exp.Expr | None:
    part = literal_text(args[0])
    if part is None:
        raise UnsupportedSql("the part of the date must be a text literal", "such as date_part('year', x)")
    return part_of_date(part, args[1])


def _is(arg: exp.Expr, *tests: object) -> bool:
    type_ = type_of(arg)
    return type_ is not None and any(test(type_) for test in tests)  # type: ignore[operator]


def _moment(arg: exp.Expr) -> exp.Expr:
    """Read text as a time without a zone."""
    return from_text(arg, "TIMESTAMP_NTZ", _NTZ) or arg


def _date_trunc(args: Args) -> exp.Expr | None:
    """Keep a time without a zone as one; Spark's result would be in UTC."""
    args = [args[0], _moment(args[1])]
    if not _is(args[1], pa.types.is_date) and type_of(args[1]) != _NTZ:
        return fill("date_trunc({0}, {1})", args, TIMESTAMP_UTC if type_of(args[1]) == TIMESTAMP_UTC else None)
    return fill("CAST(date_trunc({0}, {1}) AS TIMESTAMP_NTZ)", args, _NTZ)


def _format(arg: exp.Expr) -> exp.Expr:
    """Return a format in Spark's syntax."""
    written = literal_text(arg)
    if written is None:
        return arg
    spelled = spark_format(written)
    if spelled is None:
        raise UnsupportedSql(f"the format '{written}' contains an unknown code", "such as '%Y-%m-%d %H:%M:%S'")
    return exp.Literal.string(spelled)


def _to_char(args: Args) -> exp.Expr | None:
    """Format times; numbers are left to Spark's own ``to_char``."""
    if not _is(args[0], pa.types.is_temporal):
        return None if type_of(args[0]) is not None else call("date_format", args[0], _format(args[1]))
    if _is(args[0], pa.types.is_time):
        day = fill(_FIRST_DAY, args[:1])
        return call("date_format", day, _format(args[1]))
    return call("date_format", args[0], _format(args[1]))


def _first_of(function: str, args: Args) -> exp.Expr:
    """Parse text with the first format that matches."""
    tries = [call(f"try_{function}", args[0], _format(form)) for form in args[1:-1]]
    return (
        call("coalesce", *tries, call(function, args[0], _format(args[-1])))
        if tries
        else call(function, args[0], _format(args[-1]))
    )


def _to_date(args: Args) -> exp.Expr:
    """Translate ``to_date``: numbers are days."""
    if is_number(args[0]):
        return day_from_number("to_date", args[0])
    if len(args) > 1:
        return _first_of("to_date", args)
    return from_text(args[0], "DATE", _DATE) or fill("CAST({0} AS DATE)", args)


def _to_time(args: Args) -> exp.Expr:
    if _is(args[0], pa.types.is_timestamp):
        return fill(TIME_OF_DAY, args[:1])
    if len(args) > 1:
        return _first_of("to_time", args)
    return from_text(args[0], "TIME(6)", _TIME) or fill("CAST({0} AS TIME(6))", args)


def _to_timestamp(name: str, unit: Unit | None = None, step: int = 1) -> Rewrite:
    """Translate ``to_timestamp``: numbers are whole units since 1970, or seconds with a fraction. Text is parsed. Times
    are truncated (towards 1970) to ``step`` microseconds. The result has no zone."""

    def rewrite(args: Args) -> exp.Expr:
        if is_number(args[0]):
            return moment_from_number(name, args[0], unit) if unit else moment_from_seconds(name, args[0])
        read = _moment(args[0]) if len(args) == 1 else _first_of("to_timestamp", args)
        cut = f"timestamp_micros(unix_micros(CAST({{0}} AS TIMESTAMP_LTZ)) DIV {step} * {step})" if step > 1 else "{0}"
        return fill(f"CAST({cut} AS TIMESTAMP_NTZ)", [read])

    return rewrite


def _from_unixtime(args: Args) -> exp.Expr:
    if is_number(args[0]):
        return moment_from_number("from_unixtime", args[0], SECONDS)
    return fill("CAST(timestamp_seconds({0}) AS TIMESTAMP_NTZ)", args)


def _to_unixtime(args: Args) -> exp.Expr:
    if is_number(args[0]):
        return whole_number("to_unixtime", args[0])
    moment = _moment(args[0]) if len(args) == 1 else _first_of("to_timestamp", args)
    return fill("(unix_micros(CAST({0} AS TIMESTAMP_LTZ)) DIV 1000000)", [moment])


_ZERO = "TIMESTAMP_LTZ'1970-01-01 00:00:00+00:00'"
_STEP = f"unix_micros({_ZERO} + {{0}})"
_MOMENT = "unix_micros(CAST({1} AS TIMESTAMP_LTZ))"
_ORIGIN = "unix_micros(CAST({2} AS TIMESTAMP_LTZ))"
#: bins of months start at the month of the origin; a bin that starts too late is replaced by the previous one
_MONTHS_ON = "floor(((year({0}) - year({1})) * 12 + month({0}) - month({1})) / {2}D) * {2}"
_BIN_START = "({1} + CAST({0} AS INT) * INTERVAL '1' MONTH)"


def _date_bin(args: Args) -> exp.Expr:
    span, moment = args[0].meta.get("span"), _moment(args[1])
    if span is None:
        return fill(_BIN[len(args) - 2], [args[0], moment, *args[2:]])
    if (span.months and (span.days or span.micros)) or span.months < 0 or span.days < 0 or span.micros < 0:
        raise UnsupportedSql("date_bin() takes months or smaller units, but not both", "such as INTERVAL '1 month'")
    if span == type(span)():
        raise UnsupportedSql("the first argument of date_bin() has no length", "such as INTERVAL '15 minutes'")
    if not span.months:
        return fill(_BIN[len(args) - 2], [args[0], moment, *args[2:]])
    plain = fill("CAST({0} AS TIMESTAMP_NTZ)", [moment])
    origin = fill("CAST({0} AS TIMESTAMP_NTZ)", [_moment(args[2])]) if len(args) > 2 else exp.Var(this=_EPOCH)
    months = fill(_MONTHS_ON, [plain, origin, exp.Literal.number(span.months)])
    start = fill(_BIN_START, [months, origin])
    earlier = fill(_BIN_START, [fill("({0} - {1})", [months, exp.Literal.number(span.months)]), origin])
    return fill("if({0} > {1}, {2}, {0})", [start, plain, earlier])


_EPOCH = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"
_BIN = (
    f"CAST(timestamp_micros({_MOMENT} - pmod({_MOMENT}, {_STEP})) AS TIMESTAMP_NTZ)",
    f"CAST(timestamp_micros({_MOMENT} - pmod({_MOMENT} - {_ORIGIN}, {_STEP})) AS TIMESTAMP_NTZ)",
)
_READ = "Numbers are {} since 1970; text is parsed with the first format that matches."

FUNCTIONS = (
    Function(
        "current_date", "", "current_date()", "Date of the batch, UTC.", "current_date() = today()", _DATE, "today"
    ),
    Function(
        "current_time", "", "current_time()", "Time of day of the batch, UTC.", "current_time() = current_time()", _TIME
    ),
    Function(
        "date_bin",
        "interval time time?",
        _date_bin,
        "Start of the time interval that contains a moment.",
        "date_bin(INTERVAL '15' MINUTE, TIMESTAMP '2024-01-02 03:44:00') = TIMESTAMP '2024-01-02 03:30:00'",
        _NTZ,
    ),
    Function(
        "date_part",
        "part time",
        _date_part,
        "Year, month, day, hour, …, dow, doy, epoch; also `extract(part FROM x)`.",
        "date_part('year', DATE '2024-05-06') = 2024\nextract(dow FROM DATE '2024-05-05') = 0",
        None,
        "datepart",
    ),
    Function(
        "date_trunc",
        "unit time",
        _date_trunc,
        "Start of the year, month, week, day, hour, ….",
        "date_trunc('month', DATE '2024-05-06') = TIMESTAMP '2024-05-01 00:00:00'",
        None,
        "datetrunc",
    ),
    Function(
        "from_unixtime",
        "epoch",
        _from_unixtime,
        "The time at a number of seconds since 1970.",
        "from_unixtime(60) = TIMESTAMP '1970-01-01 00:01:00'",
        _NTZ,
    ),
    Function(
        "make_date",
        "int int int",
        "make_date({0}, {1}, {2})",
        "A date from year, month and day.",
        "make_date(2024, 5, 6) = DATE '2024-05-06'",
        _DATE,
    ),
    Function(
        "make_time",
        "int int int",
        "make_time({0}, {1}, {2})",
        "A time from hour, minute and second.",
        "make_time(1, 2, 3) = CAST('01:02:03' AS TIME)",
        _TIME,
    ),
    Function(
        "now",
        "",
        "current_timestamp()",
        "Time of the batch, UTC, the same for all its rows.",
        "now() = current_timestamp()",
        TIMESTAMP_UTC,
        "current_timestamp",
    ),
    Function(
        "to_char",
        "time format",
        _to_char,
        "Formats a date or time as text.",
        "to_char(DATE '2024-05-06', '%d/%m/%y') = '06/05/24'",
        pa.string(),
        "date_format dateformat",
    ),
    Function(
        "to_date",
        "moment format*",
        _to_date,
        "A date; numbers are days since 1970, text is parsed with the first format that matches.",
        "to_date('2024-05-06') = DATE '2024-05-06'\nto_date('06.05.2024', '%d.%m.%Y') = DATE '2024-05-06'",
        _DATE,
    ),
    Function(
        "to_local_time",
        "time",
        "CAST({0} AS TIMESTAMP_NTZ)",
        "The time without its zone.",
        "to_local_time(TIMESTAMP '2024-01-01 00:00:00') = TIMESTAMP '2024-01-01 00:00:00'",
        _NTZ,
    ),
    Function(
        "to_time",
        "moment format*",
        _to_time,
        "A time of day; text is parsed with the first format that matches.",
        "to_time('01:02:03') = make_time(1, 2, 3)",
        _TIME,
    ),
    Function(
        "to_timestamp",
        "moment format*",
        _to_timestamp("to_timestamp"),
        _READ.format("seconds"),
        "to_timestamp(1) = TIMESTAMP '1970-01-01 00:00:01'\n"
        "to_timestamp('02.01.2024 03:04:05', '%d.%m.%Y %H:%M:%S') = TIMESTAMP '2024-01-02 03:04:05'",
        _NTZ,
    ),
    Function(
        "to_timestamp_micros",
        "moment format*",
        _to_timestamp("to_timestamp_micros", MICROS),
        _READ.format("microseconds"),
        "to_timestamp_micros(1000000) = TIMESTAMP '1970-01-01 00:00:01'",
        _NTZ,
    ),
    Function(
        "to_timestamp_millis",
        "moment format*",
        _to_timestamp("to_timestamp_millis", MILLIS, 1000),
        _READ.format("milliseconds"),
        "to_timestamp_millis(1000) = TIMESTAMP '1970-01-01 00:00:01'",
        _NTZ,
    ),
    Function(
        "to_timestamp_nanos",
        "moment format*",
        _to_timestamp("to_timestamp_nanos", NANOS),
        _READ.format("nanoseconds"),
        "to_timestamp_nanos(1000000000) = TIMESTAMP '1970-01-01 00:00:01'",
        _NTZ,
    ),
    Function(
        "to_timestamp_seconds",
        "moment format*",
        _to_timestamp("to_timestamp_seconds", SECONDS, 1000000),
        _READ.format("seconds"),
        "to_timestamp_seconds(1) = TIMESTAMP '1970-01-01 00:00:01'",
        _NTZ,
    ),
    Function(
        "to_unixtime",
        "moment format*",
        _to_unixtime,
        "Whole seconds since 1970.",
        "to_unixtime('1970-01-01 00:01:00') = 60",
        _LONG,
    ),
)
