"""Parses ``INTERVAL '1 day 2 hours'``, with the units of DataFusion and the clock format of Postgres.

Spark gets one plain literal, and nothing of the user's text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise

from sqlglot import exp

from streamling.sql.fragments import UnsupportedSql

_EXAMPLES = "such as INTERVAL '1 month', INTERVAL '1.5 hours' or INTERVAL '1 day 02:03:04'"
_MICROS, _DAYS_A_MONTH = 1_000_000, 30
_DAY = 86_400 * _MICROS

#: unit → months, days, microseconds
_UNITS: dict[str, tuple[int, int, Decimal]] = {
    spelling: (months, days, Decimal(micros))
    for spellings, months, days, micros in (
        ("c cent cents century centuries", 1200, 0, "0"),
        ("dec decs decade decades", 120, 0, "0"),
        ("y yr yrs year years", 12, 0, "0"),
        ("quarter quarters", 3, 0, "0"),
        ("mon mons month months", 1, 0, "0"),
        ("w week weeks", 0, 7, "0"),
        ("d day days", 0, 1, "0"),
        ("h hr hrs hour hours", 0, 0, "3600e6"),
        ("m min mins minute minutes", 0, 0, "60e6"),
        ("s sec secs second seconds", 0, 0, "1e6"),
        ("ms msec msecs millisecond milliseconds", 0, 0, "1e3"),
        ("us usec usecs microsecond microseconds", 0, 0, "1"),
        ("ns nanosecond nanoseconds", 0, 0, "1e-3"),
    )
    for spelling in spellings.split()
}
_CLOCK, _NUMBER = r"[+-]?\d+:\d{1,2}(?::\d{1,2}(?:\.\d+)?)?", r"[+-]?(?:\d+(?:\.\d+)?|\.\d+)"
_PART = re.compile(rf"\s*(?:(?P<clock>{_CLOCK})|(?P<number>{_NUMBER}))", re.A)
_UNIT = re.compile(r"\s*([A-Za-z]+)", re.A)
#: standard SQL: the fields of a value are the units from the first to the last
_FIELDS = ("year", "month", "day", "hour", "minute", "second")


@dataclass(frozen=True)
class IntervalLength:
    """The length of an interval."""

    months: int = 0
    days: int = 0
    micros: int = 0

    def __add__(self, other: IntervalLength) -> IntervalLength:
        return IntervalLength(self.months + other.months, self.days + other.days, self.micros + other.micros)

    def whole_days(self) -> IntervalLength:
        """Return the interval without the fraction of a day."""
        return IntervalLength(self.months, self.days + int(Decimal(self.micros) / _DAY))

    def part_of_day(self) -> IntervalLength:
        """Return the interval without months and whole days."""
        return IntervalLength(micros=int(Decimal(self.micros) % _DAY))

    def spark(self) -> str:
        """Return the interval as Spark SQL. Months and days are separate: Spark has no literal for both."""
        if not self.days and not self.micros:
            return f"INTERVAL '{self.months}' MONTH"
        if self.months:
            fraction = Decimal(self.micros) / _MICROS
            return f"make_interval(0, {self.months}, 0, {self.days}, 0, 0, {fraction:f})"
        if not self.micros:
            return f"INTERVAL '{self.days}' DAY"
        total = self.days * _DAY + self.micros
        sign, rest = "-" if total < 0 else "", abs(total)
        days, rest = divmod(rest, _DAY)
        hours, rest = divmod(rest, 3600 * _MICROS)
        minutes, rest = divmod(rest, 60 * _MICROS)
        seconds, micros = divmod(rest, _MICROS)
        return f"INTERVAL '{sign}{days} {hours:02}:{minutes:02}:{seconds:02}.{micros:06}' DAY TO SECOND"


def parse_interval(node: exp.Interval) -> IntervalLength:
    """Parse an interval of the syntax tree. Raises `UnsupportedSql`."""
    value, unit = node.this, node.args.get("unit")
    if isinstance(value, exp.Neg):
        span = parse_interval(exp.Interval(this=value.this, unit=unit))
        return IntervalLength(-span.months, -span.days, -span.micros)
    if not isinstance(value, exp.Literal):
        raise UnsupportedSql("the length of an interval must be a literal", "write x * INTERVAL '1' DAY")
    written = value.name
    try:
        if isinstance(unit, exp.IntervalSpan):
            span = _standard(written, unit.this.name.lower(), unit.expression.name.lower())
        else:
            span = _parsed(f"{written} {unit.name}" if unit is not None else written)
    except ValueError:
        shown = f"{written} {unit.name}" if isinstance(unit, exp.Var) else written
        raise UnsupportedSql(f"'{shown}' is not an interval", _EXAMPLES) from None
    if abs(span.months) >= 2**31 or abs(span.days) >= 2**31 or abs(span.days * _DAY + span.micros) >= 2**63:
        raise UnsupportedSql(f"the interval '{written}' is too long", _EXAMPLES)
    return span


def _parsed(text: str) -> IntervalLength:
    """Parse numbers with units, and times of day; a last number without a unit is in seconds."""
    span, place = IntervalLength(), 0
    seen: set[object] = set()
    text = text.rstrip()
    while place < len(text) or not seen:
        part = _PART.match(text, place)
        if part is None:
            raise ValueError(text)
        place = part.end()
        if part["clock"]:
            unit, added = "clock", _clock(part["clock"])
        else:
            found = _UNIT.match(text, place)
            unit = found[1].lower() if found else "s"
            if (found is None and place < len(text)) or unit not in _UNITS:
                raise ValueError(text)
            place = found.end() if found else place
            added = _scaled(Decimal(part["number"]), *_UNITS[unit])
        if _UNITS.get(unit, unit) in seen:
            raise ValueError(text)
        seen.add(_UNITS.get(unit, unit))
        span += added
    return span


def _scaled(number: Decimal, months: int, days: int, micros: Decimal) -> IntervalLength:
    """Carry a fraction to the next smaller unit: a month has 30 days, a day 24 hours."""
    whole_months, part_months = _split(number * months)
    whole_days, part_days = _split(number * days)
    if months:  # a fraction of a month gives whole days only
        whole_days = int(part_months * _DAYS_A_MONTH)
    return IntervalLength(whole_months, whole_days, int(part_days * _DAY + number * micros))


def _split(number: Decimal) -> tuple[int, Decimal]:
    return int(number), number - int(number)


def _clock(text: str) -> IntervalLength:
    sign = -1 if text.startswith("-") else 1
    hours, minutes, *seconds = text.lstrip("+-").split(":")
    if int(minutes) > 59 or (seconds and Decimal(seconds[0]) >= 60):
        raise ValueError(text)
    total = int(hours) * 3600 + int(minutes) * 60 + Decimal(seconds[0] if seconds else 0)
    return IntervalLength(micros=sign * int(total * _MICROS))


def _standard(text: str, first: str, last: str) -> IntervalLength:
    """Parse ``'1-2' YEAR TO MONTH``, ``'1 02:03:04' DAY TO SECOND``."""
    if first not in _FIELDS or last not in _FIELDS:
        raise ValueError(text)
    units = _FIELDS[_FIELDS.index(first) : _FIELDS.index(last) + 1]
    signs = {("year", "month"): "-", ("day", "hour"): " ", ("hour", "minute"): ":", ("minute", "second"): ":"}
    between = [signs.get(pair) for pair in pairwise(units)]
    pattern = r"\s*([+-]?)\s*(\d+)"
    for sign, unit in zip(between, units[1:], strict=True):
        if sign is None:
            raise ValueError(text)
        pattern += re.escape(sign) + (r"(\d+(?:\.\d+)?)" if unit == "second" else r"(\d+)")
    match = re.fullmatch(pattern + r"\s*", text, re.A)
    if match is None or not between:
        raise ValueError(text)
    span = IntervalLength()
    for number, unit in zip(match.groups()[1:], units, strict=True):
        span += _scaled(Decimal(number), *_UNITS[unit])
    return IntervalLength(-span.months, -span.days, -span.micros) if match[1] == "-" else span


def interval(node: exp.Interval) -> exp.Expr:
    """Return an interval as Spark SQL, with its length in ``meta["span"]``."""
    span = parse_interval(node)
    made = exp.Var(this=span.spark())
    made.meta.update({**node.meta, "span": span})
    return made
