"""``dynamic_table_check('table', value)``: looks up a value in a dynamic table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from sqlglot import exp

from streamling.sql.fragments import UnsupportedSql, literal_text, type_of
from streamling.sql.plan import TableLookup
from streamling.sql.printing import spark_sql
from streamling.sql.references import LOOKUP_FUNCTION, lookup_calls

#: prefix of the columns that hold results between the parts of a plan
_ANSWER = "__checked"
_USAGE = f"write {LOOKUP_FUNCTION}('table', value)"


def parse_lookup(node: exp.Anonymous, number: int) -> TableLookup:
    """Return the lookup of a call with rewritten arguments. Raises `UnsupportedSql`."""
    args = node.expressions
    if len(args) != 2:
        raise UnsupportedSql(f"{LOOKUP_FUNCTION}() takes the name of a table and a value, not {len(args)}", _USAGE)
    table, value = args
    if literal_text(table) is None:
        raise UnsupportedSql(f"the first argument of {LOOKUP_FUNCTION}() is not a quoted name of a table", _USAGE)
    if node.find_ancestor(exp.Lambda) is not None:
        remedy = "pass the whole list: the result is true if one element is in the table"
        raise UnsupportedSql(f"{LOOKUP_FUNCTION}() is not allowed inside a lambda", remedy)
    type_ = type_of(value)
    if not can_look_up(type_):
        remedy = f"cast it: {LOOKUP_FUNCTION}('{table.name}', CAST(value AS TEXT))"
        raise UnsupportedSql(f"{LOOKUP_FUNCTION}() looks up text or a list of texts, not {type_}", remedy)
    is_list = None if type_ is None else bool(pa.types.is_list(type_))
    return TableLookup(table.name, spark_sql(value), f"{_ANSWER}{number}", is_list)


def split_lookup_condition(condition: exp.Expr) -> list[exp.Expr]:
    """Split a condition into two that must both hold: the part without lookups, then the rest."""
    parts = list(condition.flatten()) if isinstance(condition, exp.And) else [condition]
    asking = [part for part in parts if lookup_calls(part)]
    if not asking or len(asking) == len(parts):
        return [condition]
    return [exp.and_(*(part for part in parts if part not in asking)), exp.and_(*asking)]


def lookup_stages(table_lookups: Sequence[TableLookup]) -> Iterator[tuple[TableLookup, ...]]:
    """Yield the lookups in groups that can run together: a lookup follows those whose results it needs."""
    layer: list[TableLookup] = []
    for each in table_lookups:
        if any(f"`{earlier.result_column}`" in each.value for earlier in layer):
            yield tuple(layer)
            layer = []
        layer.append(each)
    if layer:
        yield tuple(layer)


def can_look_up(type_: pa.DataType | None) -> bool:
    """Return whether a table can look up values of a type: text or lists of text; None: only Spark knows."""
    if type_ is None or pa.types.is_null(type_) or pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return True
    return bool(pa.types.is_list(type_)) and not pa.types.is_list(type_.value_type) and can_look_up(type_.value_type)
