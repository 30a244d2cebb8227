"""Aligns the types of the branches of a UNION ALL, where Spark would find others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from streamling.spark.sql_text import quoted
from streamling.sql.inference import are_singles
from streamling.sql.names import Relation
from streamling.sql.plan import Column, Project
from streamling.sql.printing import spark_sql
from streamling.sql.text_coercion import result_type, to_type


def align_union_types(relations: Sequence[Relation]) -> list[Relation]:
    """The branches of a union, with text if one branch has text and others numbers, times if one has times, and FLOATs
    if there are only FLOATs and integers."""
    positions = list(zip(*(relation.columns or () for relation in relations), strict=True))
    wanted = [_common([column.type for column in position]) for position in positions]
    return [_with_types(relation, wanted) for relation in relations]


def _common(types: Sequence[pa.DataType | None]) -> pa.DataType | None:
    return pa.float32() if are_singles(types) else result_type(types)


def _with_types(relation: Relation, wanted: Sequence[pa.DataType | None]) -> Relation:
    columns = relation.columns or ()
    changed = [
        type_ is not None and column.type not in (type_, pa.null())
        for column, type_ in zip(columns, wanted, strict=True)
    ]
    if not any(changed):
        return relation
    items, types = [], []
    for column, type_, change in zip(columns, wanted, changed, strict=True):
        name = quoted(column.name)
        if change and type_ is not None:
            value = exp.Var(this=name)
            value.meta["arrow"] = column.type
            items.append(f"{spark_sql(to_type(value, type_))} AS {name}")
        else:
            items.append(name)
        types.append(Column(column.name, type_ if change else column.type))
    plan = Project(relation.plan, (*items, *map(quoted, relation.unseen)))
    return replace(relation, plan=plan, columns=tuple(types))
