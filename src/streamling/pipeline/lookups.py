"""Checks dynamic tables and the SQL that queries them: do they exist, are they used, is the order of rows defined."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from streamling.errors import Problem, StreamlingError
from streamling.pipeline.document.suggest import did_you_mean, listing
from streamling.pipeline.graph import resolve
from streamling.pipeline.model import Node
from streamling.pipeline.references import sql_problem
from streamling.pipeline.validation_errors import problem_at

if TYPE_CHECKING:
    from streamling.sql.statement import Lookup

log = logging.getLogger(__name__)


def lookup_problems(nodes: Sequence[Node]) -> list[Problem]:
    """Return the problems with the tables of a pipeline and the nodes that query them. An unused table causes a
    warning."""
    tables = {node.name: node for node in nodes if not node.options.emits_rows}
    origins = _origins(nodes)
    problems: list[Problem] = []
    used: set[str] = set()
    for node in nodes:
        for lookup in _lookups(node):
            name = resolve(lookup.table, tables)
            if name is None:
                fallback = f"dynamic tables: {listing(tables)}" if tables else "add one to 'transforms'"
                remedy = did_you_mean(lookup.table, list(tables), fallback) or fallback
                problem = lookup.problem(f"this pipeline has no dynamic table '{lookup.table}'", remedy)
                problems.append(sql_problem(problem, str(node), node.value_location("sql")))
                continue
            used.add(name)
            if others := _without_order(node, tables[name], origins):
                filled = tables[name].upstreams[0]
                problem = lookup.problem(
                    f"'{name}' is filled from '{filled}', and this reads '{others[0]}', which comes from the same"
                    " source: which of their rows come first is not known",
                    f"let both read '{filled}', or both '{others[0]}'",
                )
                problems.append(sql_problem(problem, str(node), node.value_location("sql")))
    for node in tables.values():
        if node.name not in used and not node.upstreams:
            log.warning("%s", problem_at(f"nothing looks values up in {node}", node.location, _use(node)))
    return problems


def _lookups(node: Node) -> Sequence[Lookup]:
    try:
        return node.options.lookups()
    except StreamlingError:
        return ()  # SQL that cannot be parsed has been reported


def _use(node: Node) -> str:
    return f"query it in a sql transform with dynamic_table_check('{node.name}', column), or remove it"


def _without_order(node: Node, table: Node, origins: Mapping[str, frozenset[str]]) -> list[str]:
    """Return upstreams of ``node`` whose rows come from the same source as those that fill ``table``, but in an
    undefined order. Rows of different sources have no order, and none is expected."""
    if not table.upstreams:
        return []
    filled = table.upstreams[0]
    return [name for name in node.upstreams if name != filled and origins[name] & origins[filled]]


def _origins(nodes: Sequence[Node]) -> dict[str, frozenset[str]]:
    """Return the sources that rows of each node come from."""
    origins: dict[str, frozenset[str]] = {}
    for node in nodes:
        above = (origins.get(upstream, frozenset()) for upstream in node.upstreams)
        origins[node.name] = frozenset[str]().union(*above) if node.upstreams else frozenset({node.name})
    return origins
