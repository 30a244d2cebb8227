"""The select list: stars, aliases, unnest, and the row kind of every row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from streamling.spark.sql_text import quoted
from streamling.sql.expressions import Expressions
from streamling.sql.fragments import rewrite_number, widen
from streamling.sql.names import Relation, find_column
from streamling.sql.plan import Column, LogicalType, Plan, Project
from streamling.sql.source_text import Compilation, SourceText
from streamling.types.names import arrow_type_name
from streamling.types.row_kind import OP_COLUMN
from streamling.types.wide.layout import contains_wide

#: values of the row kind, which follows the rows through every projection
_KINDS = ("i", "u", "d")
#: prefix of the columns that hold the elements between the projections of an unnest
_UNNESTED = "__unnested"
_UNNEST_CALLS = ("unnest", "explode")


@dataclass(frozen=True)
class Item:
    """One output column: Spark SQL, the column, and its location in the text."""

    sql: str
    column: Column
    node: exp.Expr

    @property
    def aliased(self) -> str:
        name = quoted(self.column.name)
        return name if name == self.sql else f"{self.sql} AS {name}"


def project(items: Sequence[exp.Expr], source: Relation, compilation: Compilation) -> Relation:
    """Return ``SELECT items FROM source``."""
    items, source = unnest(items, source, compilation)
    expressions = Expressions(compilation, source)
    output: list[Item] = []
    for item in items:
        output += _items(item, expressions)
        expressions.names.aliases = [done.column for done in output]
        expressions.earlier = [done.aliased for done in output]
    source = expressions.with_lookups()
    unseen = tuple(map(quoted, source.unseen))
    if source.columns is None:
        return Relation(_projected(source, output), _known(items, output))
    _check(output, compilation)
    output += _row_kind(source.columns, output)
    columns = tuple(item.column for item in output)
    same = [item.sql for item in output] == [quoted(column.name) for column in source.columns]
    if same and columns == source.columns and not source.untidy:
        return Relation(source.plan, columns, unseen=source.unseen)
    return Relation(_projected(source, output, unseen), columns, unseen=source.unseen)


def _projected(source: Relation, output: Sequence[Item], unseen: tuple[str, ...] = ()) -> Project:
    logical_types = find_logical_types([item.column for item in output])
    return Project(source.plan, (*(item.aliased for item in output), *unseen), logical_types=logical_types)


def find_logical_types(columns: Sequence[Column]) -> tuple[LogicalType, ...]:
    """Return the logical types of columns that Spark stores as another type."""
    return tuple(
        LogicalType(number, column.name, arrow_type_name(column.type))
        for number, column in enumerate(columns)
        if contains_wide(column.type)
    )


def with_op(relations: Sequence[Relation]) -> list[Relation]:
    """Return the branches of a union with the row kind in the same position: ``i`` for branches without one."""
    columns = [relation.columns or () for relation in relations]
    if not any(column.name == OP_COLUMN for part in columns for column in part):
        return list(relations)
    place = next((i for i, column in enumerate(columns[0]) if column.name == OP_COLUMN), len(columns[0]))
    return [_op_at(relation, place) for relation in relations]


def _op_at(relation: Relation, place: int) -> Relation:
    columns = relation.columns or ()
    rest = [column for column in columns if column.name != OP_COLUMN]
    has_op = len(rest) < len(columns)
    ordered = (*rest[:place], Column(OP_COLUMN, pa.string()), *rest[place:])
    if ordered == tuple(columns):
        return relation
    items = [
        f"'i' AS {quoted(OP_COLUMN)}" if column.name == OP_COLUMN and not has_op else quoted(column.name)
        for column in ordered
    ]
    plan = Project(relation.plan, (*items, *map(quoted, relation.unseen)))
    return Relation(plan, ordered, unseen=relation.unseen)


def _known(items: Sequence[exp.Expr], output: Sequence[Item]) -> tuple[Column, ...] | None:
    """Return the columns of a projection over unknown columns: the named ones, unless a star may add more."""
    if any(item.is_star for item in items):
        return None
    columns = tuple(item.column for item in output)
    return (
        columns if any(column.name == OP_COLUMN for column in columns) else (*columns, Column(OP_COLUMN, pa.string()))
    )


def _items(node: exp.Expr, expressions: Expressions) -> Iterator[Item]:
    if node.is_star:
        yield from _star(node, expressions)
        return
    inner = node.this if isinstance(node, exp.Alias) else node
    sql, type_ = expressions.spark(inner)
    if isinstance(inner, exp.Literal) and type_ == pa.int64():
        sql = widen(rewrite_number(inner.copy())).sql("spark")
    yield Item(sql, Column(_name(node, expressions), type_), inner)


def _name(node: exp.Expr, expressions: Expressions) -> str:
    """Return the name of the column: the alias, the column itself (also inside a cast), otherwise the text as
    written."""
    if isinstance(node, exp.Alias):
        alias = node.args["alias"]
        return str(alias.name) if alias.quoted else str(alias.name).lower()
    inner = node
    while isinstance(inner, exp.Cast | exp.Paren):
        inner = inner.this
    written = inner.name if isinstance(inner, exp.Column | exp.Dot) else expressions.compilation.text.item(node)
    return expressions.name(inner) or written


def _star(node: exp.Expr, expressions: Expressions) -> Iterator[Item]:
    star = node.this if isinstance(node, exp.Column) else node
    for word in ("rename", "ilike"):
        if star.args.get(word):
            message = f"* {word.upper()} is not supported"
            expressions.compilation.report(star, message, "write the columns with AS")
    columns = expressions.relation.columns
    if isinstance(node, exp.Column) and (node.table.lower(),) not in expressions.relation.names:
        message = f"there is no table '{node.table}' in this SELECT"
        expressions.compilation.report(node, message)
    if columns is None:
        return
    left_out = {_excluded(name, columns, expressions) for name in star.args.get("except_") or ()}
    replaced = {alias.alias.lower(): alias.this for alias in star.args.get("replace") or ()}
    for column in columns:
        if column.name in left_out or column.name.startswith(_UNNESTED):
            continue
        if column.name.lower() in replaced:
            sql, type_ = expressions.spark(replaced[column.name.lower()])
            yield Item(sql, Column(column.name, type_), replaced[column.name.lower()])
        else:
            yield Item(quoted(column.name), column, star)


def _excluded(name: exp.Expr, columns: Sequence[Column], expressions: Expressions) -> str | None:
    identifier = name.this if isinstance(name, exp.Column) else name
    if not isinstance(identifier, exp.Identifier):
        expressions.compilation.report(name, "this is not the name of a column to exclude")
        return None
    column = find_column(identifier, columns)
    if column is None:
        message = f"there is no column '{identifier.name}' to exclude"
        listed = ", ".join(column.name for column in columns[:20])
        expressions.compilation.report(name, message, f"columns: {listed}")
    return column.name if column else None


def _row_kind(columns: Sequence[Column], output: Sequence[Item]) -> Iterator[Item]:
    """Yield ``_gs_op`` of the rows, if they have one and the select list does not mention it."""
    if any(item.column.name == OP_COLUMN for item in output):
        return
    for column in columns:
        if column.name == OP_COLUMN:
            yield Item(quoted(OP_COLUMN), column, exp.Star())


def _check(output: Sequence[Item], compilation: Compilation) -> None:
    seen: set[str] = set()
    for item in output:
        name = item.column.name
        if name in seen:
            remedy = f"write * EXCEPT ({name}), …" if name == OP_COLUMN else "give one of them another name with AS"
            compilation.report(item.node, f"two columns have the name '{name}'", remedy)
        seen.add(name)
        if name == OP_COLUMN and (wrong := _wrong_kind(item)):
            compilation.report(item.node, f"{OP_COLUMN} is the row kind and {wrong}", "use 'i', 'u' or 'd'")


def _wrong_kind(item: Item) -> str | None:
    node, type_ = item.node, item.column.type
    if isinstance(node, exp.Literal) and node.is_string and node.name not in _KINDS:
        return f"cannot be '{node.name}'"
    if type_ is not None and not pa.types.is_string(type_) and not pa.types.is_null(type_):
        return f"must be text, not {type_}"
    return None


def unnest(
    items: Sequence[exp.Expr], source: Relation, compilation: Compilation
) -> tuple[Sequence[exp.Expr], Relation]:
    """Return the items with their unnest calls replaced by columns of the returned source, which has one row per
    element. Several lists are unnested in parallel, the shorter ones padded with NULL; rows without any element are
    dropped."""
    whole = exp.Tuple(expressions=[item.copy() for item in items])
    calls = [call for call in whole.find_all(exp.Anonymous) if call.name.lower() in _UNNEST_CALLS]
    if not calls:
        return items, source
    expressions = Expressions(compilation, source)
    lists, columns = [], []
    for number, call in enumerate(calls):
        sql, element = _element(call, expressions)
        column = Column(f"{_UNNESTED}{number}", element)
        call.replace(_stand_in(call, column.name, compilation.text))
        lists.append(sql)
        columns.append(column)
    known = None if source.columns is None else (*source.columns, *columns)
    exploded = _exploded(expressions.with_lookups(), lists, columns)
    return whole.expressions, replace(source, plan=exploded, columns=known)


def _element(call: exp.Anonymous, expressions: Expressions) -> tuple[str, pa.DataType | None]:
    """Return the list as Spark SQL and the type of its elements."""
    if len(call.expressions) != 1:
        expressions.compilation.report(call, "unnest() takes one list", "write one unnest() per list")
        return "NULL", None
    sql, type_ = expressions.spark(call.expressions[0])
    if type_ is None:
        return sql, None
    if pa.types.is_list(type_):
        return sql, type_.value_type
    remedy = "write s.field for a field of a struct" if pa.types.is_struct(type_) else None
    expressions.compilation.report(call, f"unnest() takes a list, not {type_}", remedy)
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
