"""Aligns the types of the branches of a UNION ALL, where Spark would find others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from streamling.spark.sql_text import quoted
from streamling.sql import typenames
from streamling.sql.casts import as_text
from streamling.sql.fragments import Args, type_of
from streamling.sql.inference import are_singles
from streamling.sql.names import Relation
from streamling.sql.plan import Column, Project
from streamling.sql.printing import spark_sql


def align_union_types(relations: Sequence[Relation]) -> list[Relation]:
    """Return the branches of a union, with text if one branch has text and others numbers, times if one has times, and
    FLOATs if there are only FLOATs and integers."""
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


_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)


def coerce_text(node: exp.Expr) -> None:
    """Coerce comparisons and CASE in place. The parts are rewritten."""
    if isinstance(node, _COMPARISONS):
        this, other = as_compared([node.this, node.expression])
        node.set("this", this)
        node.set("expression", other)
    elif isinstance(node, exp.Between):
        this, low, high = as_compared([node.this, node.args["low"], node.args["high"]])
        for key, value in (("this", this), ("low", low), ("high", high)):
            node.set(key, value)
    elif isinstance(node, exp.In):
        this, *values = as_compared([node.this, *node.expressions])
        node.set("this", this)
        node.set("expressions", values)
    elif isinstance(node, exp.Case):
        results = [branch.args["true"] for branch in node.args["ifs"]]
        results += [node.args["default"]] if node.args.get("default") else []
        for result, value in zip(results, as_results(results), strict=True):
            if value is not result:
                result.replace(value)


def as_compared(values: Args, *, numbers: bool = False) -> Args:
    """Return text as the number, date or time that it is compared with. Spark converts whole numbers like DataFusion by
    itself; they are converted here only with ``numbers``."""
    others = [type_ for value in values if (type_ := type_of(value)) is not None and _is_value(type_)]
    if not others or not any(map(_is_text, values)):
        return values
    temporal = [type_ for type_ in others if pa.types.is_temporal(type_)]
    if not temporal and not numbers and any(pa.types.is_integer(type_) for type_ in others):
        return values
    wanted = max(temporal or others, key=_rank)
    return [to_type(value, wanted) if _is_text(value) else value for value in values]


def as_results(values: Args) -> Args:
    """Return values of which one is the result, each converted to the type of the result."""
    wanted = result_type([type_of(value) for value in values])
    if wanted is None:
        return values
    return [value if type_of(value) in (wanted, None, pa.null()) else to_type(value, wanted) for value in values]


def result_type(types: Sequence[pa.DataType | None]) -> pa.DataType | None:
    """Return the common type of text and others; None if there is no text among them, or nothing else."""
    known = [type_ for type_ in types if type_ is not None and type_ != pa.null()]
    if len(known) < len([type_ for type_ in types if type_ != pa.null()]):
        return None  # a type that only Spark knows
    if known and all(pa.types.is_list(type_) for type_ in known):
        element = result_type([type_.value_type for type_ in known])
        return None if element is None else pa.list_(element)
    texts = [type_ for type_ in known if pa.types.is_string(type_)]
    others = [type_ for type_ in known if not pa.types.is_string(type_)]
    if not texts or not others:
        return None
    if all(pa.types.is_integer(one) or pa.types.is_floating(one) or pa.types.is_decimal(one) for one in others):
        return pa.string()
    return max(others, key=_rank) if all(pa.types.is_temporal(one) for one in others) else None


def to_type(value: exp.Expr, type_: pa.DataType) -> exp.Expr:
    """Return an implicit cast."""
    if pa.types.is_string(type_):
        return as_text(value)
    spelling = typenames.spark_type_name(type_)
    return value if spelling is None else typenames.converted(value, spelling, type_)


def _is_text(value: exp.Expr) -> bool:
    return bool(pa.types.is_string(type_of(value) or pa.null()))


def _is_value(type_: pa.DataType) -> bool:
    return bool(pa.types.is_temporal(type_) or pa.types.is_floating(type_) or pa.types.is_integer(type_))


def _rank(type_: pa.DataType) -> tuple[bool, bool]:
    """Rank timestamps over dates, with a zone over those without."""
    is_timestamp = bool(pa.types.is_timestamp(type_))
    return is_timestamp, is_timestamp and type_.tz is not None
