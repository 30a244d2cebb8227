"""``unnest(list)`` in the select list: one row per element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from streamling.spark.sql_text import quoted
from streamling.sql.expressions import Expressions
from streamling.sql.names import Relation
from streamling.sql.plan import Column, Plan, Project
from streamling.sql.problems import SqlProblem
from streamling.sql.source_text import SourceText

#: prefix of the columns that hold the elements between the projections of an unnest
UNNESTED = "__unnested"
_CALLS = ("unnest", "explode")


def unnest(
    items: Sequence[exp.Expr], source: Relation, text: SourceText, problems: list[SqlProblem]
) -> tuple[Sequence[exp.Expr], Relation]:
    """The items with their unnest calls replaced by columns of the returned source, which has one row per element.
    Several lists are unnested in parallel, the shorter ones padded with NULL; rows without any element are dropped."""
    whole = exp.Tuple(expressions=[item.copy() for item in items])
    calls = [call for call in whole.find_all(exp.Anonymous) if call.name.lower() in _CALLS]
    if not calls:
        return items, source
    expressions = Expressions(text, source, problems)
    lists, columns = [], []
    for number, call in enumerate(calls):
        sql, element = _element(call, expressions)
        column = Column(f"{UNNESTED}{number}", element)
        call.replace(_stand_in(call, column.name, text))
        lists.append(sql)
        columns.append(column)
    known = None if source.columns is None else (*source.columns, *columns)
    exploded = _exploded(expressions.with_lookups(), lists, columns)
    return whole.expressions, replace(source, plan=exploded, columns=known)


def _element(call: exp.Anonymous, expressions: Expressions) -> tuple[str, pa.DataType | None]:
    """The list as Spark SQL and the type of its elements."""
    if len(call.expressions) != 1:
        problem = expressions.text.problem(call, "unnest() takes one list", "write one unnest() per list")
        expressions.problems.append(problem)
        return "NULL", None
    sql, type_ = expressions.spark(call.expressions[0])
    if type_ is None:
        return sql, None
    if pa.types.is_list(type_):
        return sql, type_.value_type
    remedy = "write s.field for a field of a struct" if pa.types.is_struct(type_) else None
    expressions.problems.append(expressions.text.problem(call, f"unnest() takes a list, not {type_}", remedy))
    return sql, None


def _stand_in(call: exp.Expr, name: str, text: SourceText) -> exp.Expr:
    column = exp.column(exp.to_identifier(name, quoted=True))
    if isinstance(call.parent, exp.Tuple):  # the name of an item without an alias is the user's text
        return exp.alias_(column, exp.to_identifier(text.item(call), quoted=True))
    return column


def _exploded(source: Relation, lists: Sequence[str], columns: Sequence[Column]) -> Plan:
    kept = ["*"] if source.columns is None else [quoted(column.name) for column in source.columns]
    kept += map(quoted, source.unseen)
    names = [quoted(column.name) for column in columns]
    if len(lists) == 1:
        return Project(source.plan, (*kept, f"explode({lists[0]}) AS {names[0]}"), explodes=True)
    # arrays_zip is NULL as soon as one list is
    sides = [f"coalesce({sql}, array()) AS {name}" for sql, name in zip(lists, names, strict=True)]
    zipped = f"inline(arrays_zip({', '.join(names)}))"
    return Project(Project(source.plan, (*kept, *sides)), (*kept, zipped), explodes=True)
