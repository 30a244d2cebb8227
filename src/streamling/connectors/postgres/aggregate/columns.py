"""The columns of an aggregate table: where their values come from and how the trigger computes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import pyarrow as pa

from streamling.connectors.postgres.types import arrow_type_of, postgres_type
from streamling.errors import StreamlingError
from streamling.pipeline.document.suggest import did_you_mean

if TYPE_CHECKING:
    from streamling.connectors.postgres.aggregate.sink import AggregateColumn, GroupColumn

Function = Literal["sum", "count", "avg", "min", "max"]

#: key column and value of the single row of an aggregate without groups
GLOBAL_GROUP: Final = ("key", "value")

#: Postgres types by what their values support; types of one family are interchangeable
_FAMILIES: Final = {
    "numbers": ("SMALLINT", "INTEGER", "INT", "BIGINT", "NUMERIC", "REAL", "DOUBLE PRECISION", "FLOAT"),
    "texts": ("TEXT", "VARCHAR", "CHAR"),
    "dates and timestamps": ("DATE", "TIMESTAMP", "TIMESTAMPTZ"),
    "times of day": ("TIME",),
    "booleans": ("BOOLEAN", "BOOL"),
    "bytes": ("BYTEA",),
    "JSON": ("JSON", "JSONB"),
}
_ORDERED: Final = ("numbers", "texts", "dates and timestamps", "times of day")


@dataclass(frozen=True)
class GroupByColumn:
    """A column to group by."""

    name: str
    source: str
    type: str
    #: whether values have to be converted
    converted: bool


@dataclass(frozen=True)
class Accumulator:
    """A column that the trigger maintains. An average consists of two of them."""

    name: str
    #: name of the aggregate in the options
    output_name: str
    fn: Function
    #: None: counts rows regardless of their values
    source: str | None
    type: str
    converted: bool = False

    @property
    def is_extreme(self) -> bool:
        return self.fn in ("min", "max")


@dataclass(frozen=True)
class Aggregates:
    """All columns of the aggregate table."""

    groups: Sequence[GroupByColumn]
    accumulators: Sequence[Accumulator]

    @property
    def key(self) -> list[str]:
        return [group.name for group in self.groups] or [GLOBAL_GROUP[0]]

    @property
    def names(self) -> list[str]:
        return [*self.key, *(column.name for column in self.accumulators)]

    @property
    def extremes(self) -> list[Accumulator]:
        """Columns from which no value can be subtracted."""
        return [column for column in self.accumulators if column.is_extreme]

    @property
    def sums(self) -> list[Accumulator]:
        """Columns for which an update would need the old value."""
        return [column for column in self.accumulators if column.fn in ("sum", "avg")]


def resolve_columns(
    fields: Sequence[pa.Field], group_by: Mapping[str, GroupColumn], aggregate: Mapping[str, AggregateColumn]
) -> Aggregates:
    """Resolve the options for rows of ``fields``; raise a user error if they are invalid."""
    known = {field.name: field for field in fields}
    groups = [_group(name, column, known) for name, column in group_by.items()]
    accumulators = [one for name, column in aggregate.items() for one in _accumulators(name, column, known)]
    aggregates = Aggregates(groups, accumulators)
    _check_names(aggregates)
    return aggregates


# ── one column ───────────────────────────────────────────────────────────────────────────────────────────────


def _group(name: str, column: GroupColumn, known: Mapping[str, pa.Field]) -> GroupByColumn:
    option = f"group_by.{name}"
    field = _field(option, column.from_ or name, known)
    found = _type(field)
    if _family(found) == "JSON":
        raise StreamlingError.user(
            f"`{option}` groups by '{field.name}', which has type {field.type}",
            remedy="group by a part of it that you extract in a sql transform",
        )
    type_, converted = _resolve_type(option, column.type, found, (_family(found), "texts"))
    return GroupByColumn(name, field.name, type_, converted)


def _accumulators(name: str, column: AggregateColumn, known: Mapping[str, pa.Field]) -> list[Accumulator]:
    option = f"aggregate.{name}"
    if column.fn == "count":
        source = None if column.from_ is None else _field(option, column.from_, known).name
        return [Accumulator(name, name, "count", source, _resolve_type(option, column.type, "BIGINT", ("numbers",))[0])]
    field = _field(option, column.from_ or name, known)
    found = _type(field)
    allowed = _ORDERED if column.fn in ("min", "max") else ("numbers",)
    if _family(found) not in allowed:
        raise StreamlingError.user(
            f"`{option}` is the {column.fn} of '{field.name}', which has type {field.type}; {column.fn} supports "
            f"{' and '.join(allowed) if len(allowed) == 1 else ', '.join(allowed)}",
            remedy="name another column with `from`, or cast this one in a sql transform",
        )
    type_, converted = _resolve_type(option, column.type, found, (_family(found),))
    if column.fn == "avg":
        return [
            Accumulator(f"{name}_sum", name, "sum", field.name, type_, converted),
            Accumulator(f"{name}_count", name, "avg", field.name, "BIGINT"),
        ]
    return [Accumulator(name, name, column.fn, field.name, type_, converted)]


def _field(option: str, name: str, known: Mapping[str, pa.Field]) -> pa.Field:
    if name not in known:
        raise StreamlingError.user(
            f"`{option}` uses the column '{name}', which is not one of ({', '.join(known)})",
            remedy=did_you_mean(name, known, "name one of them with `from`"),
        )
    return known[name]


def _type(field: pa.Field) -> str:
    return postgres_type(field) or "TEXT"


def _resolve_type(option: str, override: str | None, found: str, families: Sequence[str]) -> tuple[str, bool]:
    """Return the type of a column, and whether values of the type ``found`` have to be converted to it. Only types that
    `arrow_type_of` recognizes reach a statement."""
    if override is None:
        return found, False
    try:
        arrow_type_of(override)
    except StreamlingError as error:
        raise StreamlingError.user(f"`{option}.type`: {error}", remedy=error.remedy) from None
    type_ = " ".join(override.upper().split())
    if _family(type_) not in families:
        raise StreamlingError.user(
            f"`{option}.type` is {type_}, which cannot hold {_family(found)} ({found})",
            remedy=f"choose a type of {' or '.join(dict.fromkeys(families))}, or cast the column in a sql transform",
        )
    return type_, type_ != found


def _family(type_: str) -> str:
    name = type_.split("(")[0].strip()
    return next(family for family, names in _FAMILIES.items() if name in names)


def _check_names(aggregates: Aggregates) -> None:
    seen: set[str] = set()
    for name in aggregates.names:
        if name in seen:
            raise StreamlingError.user(
                f"the aggregate table would have two columns '{name}'",
                remedy="rename one; an avg creates two columns, NAME_sum and NAME_count, and an aggregate without "
                f"groups has a column '{GLOBAL_GROUP[0]}'",
            )
        seen.add(name)
