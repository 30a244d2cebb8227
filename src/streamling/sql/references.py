"""The nodes and dynamic tables that a SQL text refers to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlglot import exp

#: looks up a value in a dynamic table
LOOKUP_FUNCTION = "dynamic_table_check"


def name_parts(table: exp.Table) -> tuple[exp.Identifier, ...]:
    """Return the dotted parts of a table name, outermost first."""
    return tuple(part for part in table.find_all(exp.Identifier, bfs=False) if not _in_alias(part, table))


def table_name(table: exp.Table) -> str:
    """Return the name as the user wrote it, without quotes: ``raw.transactions``."""
    ordered = sorted(name_parts(table), key=lambda part: part.meta.get("start", 0))
    return ".".join(part.name for part in ordered)


def references(query: exp.Expr) -> Iterator[exp.Table]:
    """Yield every reference to a node in a FROM or join, in text order, except names of CTEs."""
    tables = [table for table in query.find_all(exp.Table) if not _is_cte(table) and name_parts(table)]
    yield from sorted(tables, key=lambda table: name_parts(table)[0].meta.get("start", 0))


def match(name: str, declared: Iterable[str]) -> str | None:
    """Return the declared node with this ``name``: the same spelling, otherwise the same ignoring case."""
    names = list(declared)
    if name in names:
        return name
    return next((candidate for candidate in names if candidate.lower() == name.lower()), None)


def _in_alias(part: exp.Expr, table: exp.Table) -> bool:
    node: exp.Expr | None = part
    while node is not None and node is not table:
        if node.arg_key not in ("this", "db", "catalog", "expression"):
            return True
        node = node.parent
    return False


def _is_cte(table: exp.Table) -> bool:
    return defining_cte(table) is not None


def is_used(cte: exp.CTE, query: exp.Expr) -> bool:
    """Return whether some FROM in ``query`` refers to this CTE."""
    return any(defining_cte(table) is cte for table in query.find_all(exp.Table))


def defining_cte(table: exp.Table) -> exp.CTE | None:
    """Return the CTE of an enclosing WITH with this name, if one is defined before this position."""
    if table.args.get("db") or not isinstance(table.this, exp.Identifier):
        return None
    child: exp.Expr = table
    within: exp.CTE | None = None
    while (parent := child.parent) is not None:
        if isinstance(parent, exp.CTE):
            within = parent
        elif isinstance(parent, exp.Query) and (clause := parent.args.get("with_")):
            for cte in reversed(_visible(clause, within)):
                if cte.alias.lower() == table.name.lower():
                    return cte
        child = parent
    return None


def _visible(clause: exp.With, within: exp.CTE | None) -> list[exp.CTE]:
    """Return the CTEs of a WITH that can be referred to: inside one of them, those before it."""
    ctes: list[exp.CTE] = list(clause.expressions)
    before = [number for number, cte in enumerate(ctes) if cte is within and not clause.args.get("recursive")]
    return ctes[: before[0]] if before else ctes


def lookup_calls(query: exp.Expr) -> list[exp.Anonymous]:
    return [call for call in query.find_all(exp.Anonymous) if call.name.lower() == LOOKUP_FUNCTION]


def resolve_table_names(query: exp.Expr) -> None:
    """Replace constants that hold names of dynamic tables by the quoted names: a cast of a text, or a column that
    consists of one. Anything else is left unchanged."""
    for call in lookup_calls(query):
        name = _constant(call.expressions[0]) if call.expressions else None
        if name is not None:
            settled = exp.Literal.string(name)
            settled.meta.update(call.expressions[0].meta)
            call.expressions[0].replace(settled)


def _constant(node: exp.Expr) -> str | None:
    if node.is_string:
        return node.name
    if isinstance(node, exp.Paren):
        return _constant(node.this)
    if isinstance(node, exp.Cast):
        return _constant(node.this) if node.to.is_type(*exp.DataType.TEXT_TYPES) else None
    if not isinstance(node, exp.Column):
        return None
    select = node.find_ancestor(exp.Select)
    return None if select is None else _column(node, select)


def _column(column: exp.Column, select: exp.Select) -> str | None:
    """Return the constant behind a column of what ``select`` reads. Columns of nodes are not constants."""
    source = next((clause.this for clause in [select.args.get("from_")] if clause), exp.Null())
    inner = _query(source, select)
    if not isinstance(inner, exp.Select) or column.table.lower() not in ("", source.alias_or_name.lower()):
        return None
    for item in inner.expressions:
        if item.alias_or_name.lower() == column.name.lower():
            return _constant(item.unalias())
    return _column(exp.column(column.name), inner) if any(item.is_star for item in inner.expressions) else None


def _query(source: exp.Expr, select: exp.Select) -> object:
    if isinstance(source, exp.Subquery):
        return source.this
    if not isinstance(source, exp.Table) or source.args.get("db"):
        return None
    around = list(_around(select))
    for outer in around:
        clause = outer.args.get("with_")
        for cte in clause.expressions if clause else ():
            # the name has another meaning inside it
            if cte.alias.lower() == source.name.lower() and not any(each is cte for each in around):
                return cte.this
    return None


def _around(node: exp.Expr) -> Iterator[exp.Expr]:
    current: exp.Expr | None = node
    while current is not None:
        yield current
        current = current.parent
