"""What a stateless transform may contain: projections, filters, unnest and UNION ALL over the nodes of the pipeline.

Operators pass checkpoint markers on and keep nothing between batches, so everything that needs more than the current
row is rejected here, with name and location, before anything runs.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from streamling.sql.problems import SqlProblem
from streamling.sql.source_text import SourceText

_T = TokenType
_NO_JOIN = "a sql transform reads one node; combine rows with UNION ALL, or look values up with a handler"
_NO_ORDER = "rows keep the order of the source; sort where the data is read"
_NO_AGGREGATE = "aggregate in the database, or with the postgres_aggregate sink"
_NO_WINDOW = "it would need other rows"

#: clause of a query → (its name, its keywords, what to do instead)
_CLAUSES: dict[str, tuple[str, tuple[TokenType, ...], str]] = {
    "joins": ("a join", (_T.JOIN, _T.COMMA), _NO_JOIN),
    "laterals": ("LATERAL", (_T.LATERAL,), "write unnest(list) in the select list"),
    "group": ("GROUP BY", (_T.GROUP_BY,), _NO_AGGREGATE),
    "having": ("HAVING", (_T.HAVING,), _NO_AGGREGATE),
    "qualify": ("QUALIFY", (_T.QUALIFY,), _NO_WINDOW),
    "windows": ("WINDOW", (_T.WINDOW,), _NO_WINDOW),
    "order": ("ORDER BY", (_T.ORDER_BY,), _NO_ORDER),
    "sort": ("SORT BY", (_T.SORT_BY,), _NO_ORDER),
    "cluster": ("CLUSTER BY", (_T.CLUSTER_BY,), _NO_ORDER),
    "distribute": ("DISTRIBUTE BY", (_T.DISTRIBUTE_BY,), "set parallelism on the node"),
    "limit": ("LIMIT", (_T.LIMIT, _T.FETCH), "a stream has no end to count from; filter with WHERE"),
    "offset": ("OFFSET", (_T.OFFSET,), "a stream has no start to count from; filter with WHERE"),
    "distinct": ("DISTINCT", (_T.DISTINCT,), "set a primary key: sinks keep one row per key"),
    "sample": ("TABLESAMPLE", (_T.TABLE_SAMPLE,), "filter with WHERE, for example rand() < 0.1"),
    "pivots": ("PIVOT", (_T.PIVOT, _T.UNPIVOT), _NO_AGGREGATE),
    "into": ("INTO", (_T.INTO,), "set from of a sink to this node instead"),
    "locks": ("FOR UPDATE", (_T.FOR,), "there is nothing to lock"),
    "hint": ("a hint", (_T.HINT,), "remove it"),
    "match": ("MATCH_RECOGNIZE", (_T.MATCH_RECOGNIZE,), _NO_WINDOW),
    "connect": ("CONNECT BY", (_T.CONNECT_BY, _T.START_WITH), _NO_JOIN),
    "by_name": ("BY NAME", (), "list the columns in the same order in every branch"),
    "kind": ("SELECT AS", (_T.SELECT,), "list the columns"),
}
_ALLOWED = frozenset({"with_", "expressions", "from_", "where", "this", "expression", "alias", "db", "catalog"})


def check(query: exp.Query, text: SourceText) -> list[SqlProblem]:
    """Return everything in the text that a stateless transform cannot do, in text order."""
    problems = [problem for node in query.walk() for problem in _of_node(node, text)]
    return sorted(dict.fromkeys(problems), key=lambda problem: (problem.line, problem.column))


def _of_node(node: exp.Expr, text: SourceText) -> Iterator[SqlProblem]:
    if isinstance(node, exp.Query | exp.Table):
        yield from _clauses(node, text)
    if isinstance(node, exp.SetOperation):
        yield from _set_operation(node, text)
    elif isinstance(node, exp.Select):
        yield from _select(node, text)
    elif isinstance(node, exp.Window):
        name = node.this.name.lower() if isinstance(node.this, exp.Anonymous) else "this"
        message = f"{name}() OVER is a window function, which a stateless transform cannot compute"
        yield text.problem(node.this, message, _NO_WINDOW)
    elif isinstance(node, exp.Dot) and isinstance(node.expression, exp.Func):
        yield text.problem(node.expression, "a function name cannot be qualified", "write only its name")
    elif isinstance(node, exp.With) and node.args.get("recursive"):
        yield text.problem(
            text.clause(node, _T.RECURSIVE), "WITH RECURSIVE is not supported in a sql transform", "write WITH"
        )
    elif isinstance(node, exp.TableAlias) and node.args.get("columns"):
        remedy = "rename the columns in the SELECT instead"
        yield text.problem(node.args["columns"][0], "column names after a table alias are not supported", remedy)


def _clauses(node: exp.Expr, text: SourceText) -> Iterator[SqlProblem]:
    for key, value in node.args.items():
        if not value or key in _ALLOWED or (isinstance(node, exp.SetOperation) and key == "distinct"):
            continue
        name, keywords, remedy = _CLAUSES.get(key, (key.strip("_").upper(), (), "remove it"))
        first = value[0] if isinstance(value, list) else value
        place = text.clause(first, *keywords) if isinstance(first, exp.Expr) else text.span(node)
        if key == "distinct":
            place = text.clause(node.expressions[0], _T.DISTINCT)
        yield text.problem(place, f"{name} is not supported in a stateless sql transform", remedy)


def _set_operation(node: exp.SetOperation, text: SourceText) -> Iterator[SqlProblem]:
    word = node.key.upper()
    place = text.clause(node.expression, _T.UNION, _T.INTERSECT, _T.EXCEPT)
    if not isinstance(node, exp.Union):
        yield text.problem(place, f"{word} is not supported in a stateless sql transform", "filter with WHERE")
    elif node.args.get("distinct"):
        remedy = "write UNION ALL; sinks keep one row per primary key"
        yield text.problem(place, "UNION without ALL would have to keep all rows", remedy)


def _select(node: exp.Select, text: SourceText) -> Iterator[SqlProblem]:
    if isinstance(node.parent, exp.In | exp.Exists | exp.Any | exp.All) or _is_value(node.parent):
        message = "a subquery inside an expression is not supported in a stateless sql transform"
        yield text.problem(text.clause(node, _T.SELECT), message, "subqueries are allowed only in FROM")
        return
    source = node.args.get("from_")
    if source is None:
        if not isinstance(node.parent, exp.Exists):
            yield text.problem(
                text.clause(node, _T.SELECT), "the SELECT has no FROM", "name the node to read: FROM <node>"
            )
    elif not isinstance(source.this, exp.Table | exp.Subquery) or not _readable(source.this):
        what = "VALUES" if isinstance(source.this, exp.Values) else "a table function"
        message = f"{what} is not allowed in FROM: rows come from the nodes of the pipeline"
        yield text.problem(text.clause(source.this, _T.FROM), message, "name a source or transform of the pipeline")


def _readable(relation: exp.Expr) -> bool:
    return not isinstance(relation, exp.Table) or isinstance(relation.this, exp.Identifier | exp.Dot)


def _is_value(parent: exp.Expr | None) -> bool:
    """Return whether this is a ``(SELECT …)`` used as a value."""
    return isinstance(parent, exp.Subquery) and not isinstance(
        parent.parent, exp.From | exp.Join | exp.SetOperation | exp.CTE | exp.Subquery | None.__class__
    )
