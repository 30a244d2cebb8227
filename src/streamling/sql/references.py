"""The nodes that a SQL text reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlglot import exp

from streamling.sql.dialect import parse


def parts(table: exp.Table) -> tuple[exp.Identifier, ...]:
    """The dotted parts of a table name, outermost first."""
    return tuple(part for part in table.find_all(exp.Identifier, bfs=False) if not _in_alias(part, table))


def table_name(table: exp.Table) -> str:
    """The name as the user wrote it, without quotes: ``raw.transactions``."""
    ordered = sorted(parts(table), key=lambda part: part.meta.get("start", 0))
    return ".".join(part.name for part in ordered)


def references(query: exp.Expr) -> Iterator[exp.Table]:
    """Every reference to a node in a FROM or join, in text order, except names of CTEs."""
    tables = [table for table in query.find_all(exp.Table) if not _is_cte(table) and parts(table)]
    yield from sorted(tables, key=lambda table: parts(table)[0].meta.get("start", 0))


def node_names(query: exp.Expr) -> list[str]:
    """The names of `references`, each once."""
    return list(dict.fromkeys(table_name(table) for table in references(query)))


def mention_of(name: str, sql: str) -> int:
    """The position of ``name`` in a FROM or join of ``sql``; 0 if there is none."""
    for table in references(parse(sql)):
        if table_name(table) == name:
            return int(min(part.meta.get("start", 0) for part in parts(table)))
    return 0


def match(name: str, declared: Iterable[str]) -> str | None:
    """The declared node with this ``name``: the same spelling, otherwise the same ignoring case."""
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
    """Whether some FROM in ``query`` refers to this CTE."""
    return any(defining_cte(table) is cte for table in query.find_all(exp.Table))


def defining_cte(table: exp.Table) -> exp.CTE | None:
    """The CTE of an enclosing WITH with this name, if one is defined before this position."""
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
    """The CTEs of a WITH that can be referred to: inside one of them, those before it."""
    ctes: list[exp.CTE] = list(clause.expressions)
    before = [number for number, cte in enumerate(ctes) if cte is within and not clause.args.get("recursive")]
    return ctes[: before[0]] if before else ctes
