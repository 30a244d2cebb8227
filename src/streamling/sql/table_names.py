"""Names of dynamic tables given as a constant: a cast of one, or a column that consists of one."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp


def resolve_table_name(argument: exp.Expr) -> None:
    """Replace a constant that holds the name by the quoted name; leave anything else unchanged."""
    name = _constant(argument)
    if name is not None:
        settled = exp.Literal.string(name)
        settled.meta.update(argument.meta)
        argument.replace(settled)


def is_text(node: exp.Expr) -> bool:
    """Whether it is a quoted text."""
    return isinstance(node, exp.Literal) and bool(node.is_string)


def _constant(node: exp.Expr) -> str | None:
    if is_text(node):
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
    """The constant behind a column of what ``select`` reads. Columns of nodes are not constants."""
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
