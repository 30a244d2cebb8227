"""What the columns of a generate source can contain: one class per generator, each with its fields and its values."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cached_property, reduce
from typing import Annotated, Any, Literal, Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BeforeValidator, Field, PlainSerializer, PlainValidator, WithJsonSchema, model_validator

from streamling.connectors.generate.draws import Draws, remainder, unsigned
from streamling.connectors.generate.words import FIRST_NAMES, LAST_NAMES, WORDS
from streamling.pipeline.document.scalars import BadValueError, Duration
from streamling.pipeline.options import Options
from streamling.pipeline.typenames import TypeName, parse_type

_TIME = pa.timestamp("us", "UTC")
_MICROSECOND = timedelta(microseconds=1)
#: decimals are drawn as 64-bit integers
_MOST = (1 << 63) - 1
_MOST_DIGITS = 18


class Generator(Options):
    """Fields of every generator."""

    generator: str
    nulls: float = Field(default=0.0, ge=0, le=1, description="Share of rows that have a null instead, such as 0.1.")

    @property
    @abstractmethod
    def arrow_type(self) -> pa.DataType:
        """The type of the column."""

    @abstractmethod
    def values(self, draws: Draws) -> pa.Array:
        """Return one value per row, of any type that can be cast to that of the column."""

    def column(self, draws: Draws) -> pa.Array:
        """Return the values of the column, nulls included."""
        values = self.values(draws).cast(self.arrow_type)
        if not self.nulls:
            return values
        return pc.if_else(pc.less(draws.fractions(), pa.scalar(self.nulls)), pa.scalar(None, self.arrow_type), values)


# ── numbers ──────────────────────────────────────────────────────────────────────────────────────────────────


class Sequence(Generator):
    """1, 2, 3, …: unique integers in order."""

    generator: Literal["sequence"]
    start: int = Field(default=1, ge=0, le=10**15, description="The first value.")
    step: int = Field(default=1, ge=1, le=10**6, description="Difference between two values.")

    @property
    def arrow_type(self) -> pa.DataType:
        return pa.int64()

    def values(self, draws: Draws) -> pa.Array:
        steps = pc.multiply_checked(draws.numbers.cast(pa.int64()), pa.scalar(self.step, pa.int64()))
        return pc.add(steps, pa.scalar(self.start, pa.int64()))


def _check_number(value: object) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value or abs(value) > _MOST:
        raise BadValueError("is not a number of at most 64 bits", "write it without quotes, such as 4 or 0.5")
    return value


_Number = Annotated[int | float, PlainValidator(_check_number), WithJsonSchema({"type": "number"})]


class Number(Generator):
    """Random numbers between two others."""

    generator: Literal["number"]
    min: _Number = Field(description="The least value.")
    max: _Number = Field(description="The greatest value.")
    type: TypeName | None = Field(
        default=None,
        description="An integer type, float32, float64 or decimal(p,s); by default int64 if both limits are whole "
        "numbers, otherwise float64.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        kind = self.arrow_type
        is_decimal = pa.types.is_decimal128(kind) and kind.scale <= _MOST_DIGITS
        if not (is_decimal or pa.types.is_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind)):
            raise BadValueError(
                f"is '{self.type}', which cannot be a random number",
                f"write an integer type such as int32, float64, or a decimal with up to {_MOST_DIGITS} decimal places",
                field="type",
            )
        if self.max < self.min:
            raise BadValueError(f"is {self.max}, less than 'min' ({self.min})", "exchange them", field="max")
        for field, value in (("min", self.min), ("max", self.max)):
            if not pa.types.is_floating(kind) and not self._fits(value):
                raise BadValueError(f"is {value}, which {kind} cannot hold", "change it, or 'type'", field=field)
        if not pa.types.is_floating(kind) and self._span > _MOST:
            raise BadValueError(f"is {self.max}, too far from 'min' ({self.min})", "use float64", field="max")
        return self

    @property
    def arrow_type(self) -> pa.DataType:
        if self.type is not None:
            return parse_type(self.type)
        return pa.int64() if isinstance(self.min, int) and isinstance(self.max, int) else pa.float64()

    def values(self, draws: Draws) -> pa.Array:
        if pa.types.is_floating(self.arrow_type):
            width = pa.scalar(float(self.max) - float(self.min))
            return pc.add(pc.multiply(draws.fractions(), width), pa.scalar(float(self.min)))
        units = pc.add(draws.below(self._span).cast(pa.int64()), pa.scalar(self._units(self.min), pa.int64()))
        if self._scale == 0:
            return units
        # the product of a decimal(19, 0) and a decimal(18, 18) fits into 38 digits
        unit = pa.scalar(Decimal(1).scaleb(-self._scale), pa.decimal128(self._scale, self._scale))
        return pc.multiply(units.cast(pa.decimal128(19)), unit)

    @property
    def _scale(self) -> int:
        return self.arrow_type.scale if pa.types.is_decimal(self.arrow_type) else 0

    def _units(self, value: int | float) -> int:
        return int(Decimal(str(value)).scaleb(self._scale))

    @property
    def _span(self) -> int:
        return self._units(self.max) - self._units(self.min) + 1

    def _fits(self, value: int | float) -> bool:
        exact = Decimal(str(value))
        try:
            pa.scalar(exact if self._scale else int(exact)).cast(self.arrow_type)
        except (pa.ArrowException, OverflowError):
            return False
        return abs(units := self._units(value)) <= _MOST and units == exact.scaleb(self._scale)


# ── choices ──────────────────────────────────────────────────────────────────────────────────────────────────


class Choice(Generator):
    """One of some values."""

    generator: Literal["choice"]
    values_: list[Any] = Field(alias="values", min_length=1, description="The values: text, numbers or true and false.")
    weights: list[_Number] | None = Field(
        default=None, description="How often each value occurs, in relation to the others; by default equally often."
    )
    type: TypeName | None = Field(default=None, description="Type of the column; by default that of the values.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not all(isinstance(value, str | int | float) for value in self.values_):
            raise BadValueError(
                "has an entry that is neither text nor a number", "use 'nulls' for nulls", field="values"
            )
        try:
            _ = self._options
        except (pa.ArrowException, ArithmeticError):
            expected = "of one type" if self.type is None else f"of the type {self.type}"
            raise BadValueError(
                f"has entries that are not {expected}", "change them, or set 'type'", field="values"
            ) from None
        weights = self.weights
        if weights is not None and (len(weights) != len(self.values_) or min(weights) < 0 or sum(weights) == 0):
            raise BadValueError(
                f"does not fit the {len(self.values_)} values",
                "write one number per value, at least 0, and more than 0 for one of them",
                field="weights",
            )
        return self

    @property
    def arrow_type(self) -> pa.DataType:
        return self._options.type

    def values(self, draws: Draws) -> pa.Array:
        if self.weights is None:
            return draws.pick(self._options)
        total, fractions = sum(self.weights), draws.fractions()
        limits = [sum(self.weights[: end + 1]) / total for end in range(len(self.weights) - 1)]
        passed = (pc.greater_equal(fractions, pa.scalar(limit)).cast(pa.int32()) for limit in limits)
        return self._options.take(reduce(pc.add, passed, pa.repeat(pa.scalar(0, pa.int32()), len(fractions))))

    @cached_property
    def _options(self) -> pa.Array:
        if self.type is None:
            return pa.array(self.values_)
        kind = parse_type(self.type)
        if pa.types.is_decimal(kind):
            return pa.array([Decimal(str(value)) for value in self.values_], kind)
        return pa.array(self.values_).cast(kind)


# ── text ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Text(Generator):
    """The base of generators of text."""

    @property
    def arrow_type(self) -> pa.DataType:
        return pa.string()


class Name(Text):
    """Names of people, such as Mei Tanaka."""

    generator: Literal["name"]

    def values(self, draws: Draws) -> pa.Array:
        return _joined([draws.pick(_FIRST_NAMES), draws.pick(_LAST_NAMES)], " ")


class Email(Text):
    """E-mail addresses of the domain example.com, which is reserved for examples."""

    generator: Literal["email"]

    def values(self, draws: Draws) -> pa.Array:
        person = [pc.ascii_lower(draws.pick(names)) for names in (_FIRST_NAMES, _LAST_NAMES)]
        number = pc.binary_join_element_wise(draws.below(1000).cast(pa.string()), "example.com", "@")
        return _joined([*person, number], ".")


class Words(Text):
    """Words with a space between them."""

    generator: Literal["words"]
    count: int = Field(default=1, ge=1, le=100, description="Number of words.")

    def values(self, draws: Draws) -> pa.Array:
        return _joined([draws.pick(_WORDS) for _ in range(self.count)], " ")


class Uuid(Text):
    """Random UUIDs (version 4)."""

    generator: Literal["uuid"]

    def values(self, draws: Draws) -> pa.Array:
        first, second = draws.bits(), draws.bits()
        quads = [_digits(bits, shift) for bits in (first, second) for shift in (0, 16, 32, 48)]
        # the version and the variant
        quads[3] = pc.bit_wise_or(pc.bit_wise_and(quads[3], unsigned(0x0FFF)), unsigned(0x4000))
        quads[4] = pc.bit_wise_or(pc.bit_wise_and(quads[4], unsigned(0x3FFF)), unsigned(0x8000))
        text = [_QUADS.take(quad) for quad in quads]
        return _joined([_joined(text[:2], ""), *text[2:5], _joined(text[5:], "")], "-")


class Pattern(Text):
    """Text with random digits and letters in it, such as order numbers."""

    generator: Literal["pattern"]
    pattern: str = Field(
        min_length=1, description="`#` becomes a digit and `?` a capital letter; all else stays, such as `ORD-####`."
    )

    def values(self, draws: Draws) -> pa.Array:
        rows = len(draws.numbers)
        parts = [
            draws.pick(_PLACEHOLDERS[sign]) if sign in _PLACEHOLDERS else pa.repeat(sign, rows) for sign in self.pattern
        ]
        return _joined(parts, "")


# ── times ────────────────────────────────────────────────────────────────────────────────────────────────────


def _parse_time(value: object) -> datetime:
    try:
        if not isinstance(value, str):
            raise ValueError
        found = datetime.fromisoformat(value)
    except ValueError:
        raise BadValueError("is not a time", "write it as 2026-01-31T12:00:00Z or 2026-01-31") from None
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


_Time = Annotated[
    datetime,
    BeforeValidator(_parse_time),
    PlainSerializer(datetime.isoformat, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["2026-01-31T12:00:00Z"]}),
]


def _microseconds(time: datetime) -> int:
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // _MICROSECOND


class TimeGenerator(Generator):
    """The base of generators of times, which are in UTC."""

    @property
    def arrow_type(self) -> pa.DataType:
        return _TIME


class Now(TimeGenerator):
    """The time at which the row is generated: the only values that differ when rows are generated again."""

    generator: Literal["now"]

    def values(self, draws: Draws) -> pa.Array:
        return pa.repeat(pa.scalar(draws.now, pa.int64()), len(draws.numbers))


class Time(TimeGenerator):
    """Random times between two others."""

    generator: Literal["time"]
    min: _Time = Field(description="The earliest time, such as 2026-01-01T00:00:00Z; without a zone it is in UTC.")
    max: _Time = Field(description="The latest time.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.max < self.min:
            raise BadValueError("is before 'min'", "exchange them", field="max")
        return self

    def values(self, draws: Draws) -> pa.Array:
        first = _microseconds(self.min)
        return pc.add(draws.below(_microseconds(self.max) - first + 1).cast(pa.int64()), pa.scalar(first, pa.int64()))


class TimeSequence(TimeGenerator):
    """Times at equal distances."""

    generator: Literal["time_sequence"]
    start: _Time = Field(description="The first time, such as 2026-01-01T00:00:00Z; without a zone it is in UTC.")
    step: Duration = Field(
        default="1s", validate_default=True, gt=0, description="Distance between two times, such as 1s or 5m."
    )

    def values(self, draws: Draws) -> pa.Array:
        step = pa.scalar(max(round(self.step * 1e6), 1), pa.int64())
        steps = pc.multiply_checked(draws.numbers.cast(pa.int64()), step)
        return pc.add_checked(steps, pa.scalar(_microseconds(self.start), pa.int64()))


# ── the choice in the file ───────────────────────────────────────────────────────────────────────────────────


def _spell_out(value: object) -> object:
    """Turn ``name`` into ``{generator: name}``."""
    return {"generator": value} if isinstance(value, str) else value


_AnyGenerator = Annotated[
    Sequence | Number | Choice | Name | Email | Words | Uuid | Pattern | Now | Time | TimeSequence,
    Field(discriminator="generator"),
]
#: generators that need no other field
_SHORT = ("sequence", "name", "email", "words", "uuid", "now")

Column = Annotated[_AnyGenerator, BeforeValidator(_spell_out, json_schema_input_type=Literal[_SHORT] | _AnyGenerator)]

_FIRST_NAMES, _LAST_NAMES, _WORDS = pa.array(FIRST_NAMES), pa.array(LAST_NAMES), pa.array(WORDS)
_PLACEHOLDERS = {"#": pa.array("0123456789"), "?": pa.array("ABCDEFGHIJKLMNOPQRSTUVWXYZ")}
#: four hexadecimal digits
_QUADS = pa.array([f"{number:04x}" for number in range(1 << 16)])


def _digits(bits: pa.Array, shift: int) -> pa.Array:
    return remainder(pc.shift_right(bits, unsigned(shift)), unsigned(1 << 16))


def _joined(parts: Iterable[pa.Array], separator: str) -> pa.Array:
    return pc.binary_join_element_wise(*parts, separator)
