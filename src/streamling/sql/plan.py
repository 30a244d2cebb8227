"""What a SQL text compiles to: a small tree that Spark's DataFrame calls carry out one to one.

Measured, 3 columns, one filter: 2.9 ms per batch with cached columns on the DataFrame, 12 ms with a temporary view and
``spark.sql``, 9–13 ms with ``spark.sql(text, x=df)``. Without views there are no names that could collide either.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class Column:
    """A column of a relation; the type is None where only Spark knows it."""

    name: str
    type: pa.DataType | None


@dataclass(frozen=True)
class Read:
    """The rows of an upstream node, by its declared name."""

    node: str


@dataclass(frozen=True)
class Filter:
    """The rows for which the condition (Spark SQL) is true."""

    child: Plan
    condition: str


@dataclass(frozen=True)
class Project:
    """One output column per item (Spark SQL with its alias)."""

    child: Plan
    items: tuple[str, ...]


@dataclass(frozen=True)
class UnionAll:
    """The rows of all children, columns by position."""

    children: tuple[Plan, ...]


Plan = Read | Filter | Project | UnionAll


def texts(plan: Plan) -> Iterator[str]:
    """Every condition and item of a plan."""
    if isinstance(plan, Filter):
        yield plan.condition
    elif isinstance(plan, Project):
        yield from plan.items
    for child in _children(plan):
        yield from texts(child)


def _children(plan: Plan) -> tuple[Plan, ...]:
    if isinstance(plan, UnionAll):
        return plan.children
    return () if isinstance(plan, Read) else (plan.child,)


def quoted(name: str) -> str:
    """A name as Spark reads it back unchanged."""
    return "`" + name.replace("`", "``") + "`"
