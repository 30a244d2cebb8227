"""Postgres aggregate sink: a landing table, and a trigger that keeps an aggregate of it."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, field_validator

from streamling.pipeline.options import Options, Parallel, Rebatched, SinkOptions
from streamling.pipeline.scalars import BadValueError


class GroupColumn(Options):
    """One column to group by."""

    from_: str | None = Field(default=None, alias="from", description="Input column; the same name by default.")
    type: str | None = Field(default=None, description="Postgres type; that of the input by default.")


class AggregateColumn(GroupColumn):
    """One aggregated column."""

    fn: Literal["sum", "count", "avg", "min", "max"] = Field(description="Aggregate function.")


class PostgresAggregateSinkOptions(Parallel, Rebatched, SinkOptions):
    """Sums, counts, averages and extremes, kept up to date inside Postgres."""

    reserved_labels: ClassVar[frozenset[str]] = frozenset({"table"})
    requires_primary_key: ClassVar[bool] = True

    schema_: str = Field(alias="schema", min_length=1, description="Schema of both tables.")
    landing_table: str = Field(min_length=1, description="Table that takes the rows.")
    agg_table: str = Field(min_length=1, description="Table with the aggregates.")
    group_by: dict[str, GroupColumn] = Field(
        default={}, description="Columns to group by; without any there is one row for everything."
    )
    aggregate: dict[str, AggregateColumn] = Field(description="Aggregated columns, at least one.")
    deduplicate: bool = Field(default=True, description="Write only the last row per key of a batch.")

    @field_validator("group_by", mode="before")
    @classmethod
    def _columns_without_fields(cls, value: object) -> object:
        """``account:`` with nothing below it is a column as it comes."""
        if not isinstance(value, dict):
            return value
        return {name: {} if column is None else column for name, column in value.items()}

    @field_validator("aggregate")
    @classmethod
    def _at_least_one(cls, value: dict[str, AggregateColumn]) -> dict[str, AggregateColumn]:
        if not value:
            raise BadValueError("is empty", "name at least one aggregated column, such as total: {fn: count}")
        return value
