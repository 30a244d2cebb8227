"""``dynamic_table_check('table', value)``: looks up a value in a dynamic table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from streamling.sql import catalog
from streamling.sql.dialect import parse
from streamling.sql.inference import type_of
from streamling.sql.plan import TableLookup
from streamling.sql.printing import spark_sql
from streamling.sql.problems import SqlProblem
from streamling.sql.source_text import SourceText
from streamling.sql.table_names import is_text, resolve_table_name

FUNCTION = "dynamic_table_check"

#: prefix of the columns that hold results between the parts of a plan
_ANSWER = "__checked"
_USAGE = f"write {FUNCTION}('table', value)"
_VOLATILE_SYNTAX = (exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime)


@dataclass(frozen=True)
class Lookup:
    """A reference to a dynamic table in a SQL text."""

    table: str
    call: exp.Expr
    text: SourceText

    def problem(self, message: str, remedy: str) -> SqlProblem:
        return self.text.problem(self.call, message, remedy)


def lookups(sql: str) -> list[Lookup]:
    """Every table that ``sql`` looks values up in, in text order. Raises `InvalidSql` if the text cannot be parsed."""
    if FUNCTION not in sql.lower():  # most do not: skip the parsing
        return []
    text, query = SourceText(sql), parse(sql)
    resolve_table_names(query)
    named = [call for call in _calls(query) if call.expressions and is_text(call.expressions[0])]
    found = [Lookup(call.expressions[0].name, call, text) for call in named]
    return sorted(found, key=lambda each: each.call.meta.get("start", 0))


def resolve_table_names(query: exp.Expr) -> None:
    """Replace constants that hold names of tables by the quoted names."""
    for call in _calls(query):
        if call.expressions:
            resolve_table_name(call.expressions[0])


def is_repeatable(sql: str) -> bool:
    """Whether the same rows give the same result when ``sql`` runs again."""
    parts = parse(sql).find_all(exp.Anonymous, *_VOLATILE_SYNTAX)
    return not any(isinstance(part, _VOLATILE_SYNTAX) or part.name.lower() in catalog.VOLATILE for part in parts)


def parse_lookup(node: exp.Anonymous, number: int, text: SourceText, problems: list[SqlProblem]) -> TableLookup | None:
    """The lookup of a call with rewritten arguments; None if the call is invalid, which is reported as a problem."""
    problem = _mistake(node, text)
    if problem is not None:
        problems.append(problem)
        return None
    table, value = node.expressions
    type_ = type_of(value)
    is_list = None if type_ is None else bool(pa.types.is_list(type_))
    return TableLookup(table.name, spark_sql(value), f"{_ANSWER}{number}", is_list)


def split_lookup_condition(condition: exp.Expr) -> list[exp.Expr]:
    """Split a condition into two that must both hold: the part without lookups, then the rest."""
    parts = list(condition.flatten()) if isinstance(condition, exp.And) else [condition]
    asking = [part for part in parts if _calls(part)]
    if not asking or len(asking) == len(parts):
        return [condition]
    return [exp.and_(*(part for part in parts if part not in asking)), exp.and_(*asking)]


def lookup_stages(table_lookups: Sequence[TableLookup]) -> Iterator[tuple[TableLookup, ...]]:
    """The lookups in groups that can run together: a lookup follows those whose results it needs."""
    layer: list[TableLookup] = []
    for each in table_lookups:
        if any(f"`{earlier.result_column}`" in each.value for earlier in layer):
            yield tuple(layer)
            layer = []
        layer.append(each)
    if layer:
        yield tuple(layer)


def can_look_up(type_: pa.DataType | None) -> bool:
    """Whether a table can look up values of a type: text or lists of text; None: only Spark knows."""
    if type_ is None or pa.types.is_null(type_) or pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return True
    return bool(pa.types.is_list(type_)) and not pa.types.is_list(type_.value_type) and can_look_up(type_.value_type)


def _mistake(node: exp.Anonymous, text: SourceText) -> SqlProblem | None:
    args = node.expressions
    if len(args) != 2:
        return text.problem(node, f"{FUNCTION}() takes the name of a table and a value, not {len(args)}", _USAGE)
    if not is_text(args[0]):
        return text.problem(node, f"the first argument of {FUNCTION}() is not a quoted name of a table", _USAGE)
    if node.find_ancestor(exp.Lambda) is not None:
        remedy = "pass the whole list: the result is true if one element is in the table"
        return text.problem(node, f"{FUNCTION}() is not allowed inside a lambda", remedy)
    type_ = type_of(args[1])
    if not can_look_up(type_):
        remedy = f"cast it: {FUNCTION}('{args[0].name}', CAST(value AS TEXT))"
        return text.problem(node, f"{FUNCTION}() looks up text or a list of texts, not {type_}", remedy)
    return None


def _calls(query: exp.Expr) -> list[exp.Anonymous]:
    return [call for call in query.find_all(exp.Anonymous) if call.name.lower() == FUNCTION]
