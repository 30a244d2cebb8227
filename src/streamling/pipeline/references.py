"""Connects nodes: resolves the names of upstreams and sorts the nodes topologically."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from streamling.errors import Problem, StreamlingError
from streamling.pipeline.dead_letters import dead_letters_of, sink_problems
from streamling.pipeline.document.location import Location
from streamling.pipeline.document.suggest import did_you_mean, listing
from streamling.pipeline.graph import canonical, find_cycle, resolve, topological_order
from streamling.pipeline.model import Node, NodeKind
from streamling.pipeline.nodes import Draft
from streamling.pipeline.validation_errors import problem_at

if TYPE_CHECKING:
    from streamling.sql.problems import SqlProblem


def link(drafts: Sequence[Draft], problems: list[Problem]) -> list[Node]:
    """Return the valid drafts as nodes, upstreams first; errors are added to ``problems``."""
    by_name = _by_name(drafts, problems)
    nodes = [_node(draft, by_name, problems) for draft in by_name.values() if draft.options is not None]
    for draft in by_name.values():
        if draft.options is None and isinstance(draft.raw, dict) and isinstance(draft.raw.get("from"), str):
            _upstream(draft.raw["from"], draft, by_name, problems)
    problems += sink_problems(drafts, by_name)
    upstreams = {node.name: node.upstreams for node in nodes}
    graph = {name: [up for up in read if up in upstreams] for name, read in upstreams.items()}
    cycle = find_cycle(graph)
    if cycle is not None:
        location = min((by_name[name].location for name in cycle), key=lambda location: location.line)
        message = f"these nodes form a cycle: {' → '.join(cycle)}"
        problems.append(problem_at(message, location, "let one of them read from a node outside the cycle"))
        return nodes
    named = {node.name: node for node in nodes}
    return [named[name] for name in topological_order(graph)]


def _by_name(drafts: Sequence[Draft], problems: list[Problem]) -> dict[str, Draft]:
    by_name: dict[str, Draft] = {}
    first: dict[str, Draft] = {}
    for draft in drafts:
        earlier = first.setdefault(canonical(draft.name), draft)
        if earlier is not draft:
            message = f"{draft} has the same name as {earlier} in line {earlier.location.line}"
            remedy = "names must be unique in all sections and are case-insensitive; rename one of the two"
            problems.append(problem_at(message, draft.location, remedy))
        by_name.setdefault(draft.name, draft)
    return by_name


def _node(draft: Draft, by_name: Mapping[str, Draft], problems: list[Problem]) -> Node:
    assert draft.options is not None
    found = [_upstream(reference, draft, by_name, problems) for reference in _references(draft, problems)]
    return Node(
        name=draft.name,
        kind=draft.kind,
        options=draft.options,
        upstreams=tuple(dict.fromkeys(name for name in found if name is not None)),
        dead_letters=dead_letters_of(draft, by_name, problems),
        primary_key=draft.options.primary_key,
        location=draft.location,
        field_locations=draft.field_locations(),
        value_locations=draft.value_locations(),
    )


def _references(draft: Draft, problems: list[Problem]) -> Sequence[str]:
    assert draft.options is not None
    try:
        return draft.options.upstreams()
    except StreamlingError as error:
        problems += sql_problems(error, str(draft), draft.document.entry_location((*draft.path, "sql")).value)
        return ()


def sql_problems(error: StreamlingError, node: str, text: Location) -> list[Problem]:
    """Return an error in SQL as problems of the file: positions in the SQL become positions in the file."""
    inner = getattr(error, "problems", None)
    if not inner:
        return [problem_at(f"{node}: {error}", text, error.remedy)]
    return [sql_problem(each, node, text) for each in inner]


def sql_problem(problem: SqlProblem, node: str, text: Location) -> Problem:
    """Return an error in a SQL text that begins at ``text``, at its place in the file."""
    line = text.line + max(problem.line - 1, 0)
    column = text.column + max(problem.column - 1, 0)
    return Problem(f"{node}: {problem.message}", text.file, line, column, problem.remedy, problem.excerpt)


def _upstream(reference: str, draft: Draft, by_name: Mapping[str, Draft], problems: list[Problem]) -> str | None:
    location = _reference_location(reference, draft)
    name = resolve(reference, by_name)
    if name is None:
        readable = [each.name for each in by_name.values() if each is not draft and _readable(each)]
        remedy = did_you_mean(reference, readable, f"sources and transforms: {listing(readable)}")
        message = f"{draft} reads from '{reference}', and there is no such source or transform"
        problems.append(problem_at(message, location, remedy))
        return None
    upstream = by_name[name]
    if upstream.kind is NodeKind.SINK:
        message = f"{draft} reads from '{name}', which is a sink"
        problems.append(problem_at(message, location, "read from the node that the sink reads from"))
        return None
    if not _readable(upstream):
        message = f"{draft} reads from '{name}', which is a {upstream.raw['type']} and has no output rows"
        remedy = f"look values up in it with dynamic_table_check('{name}', column)"
        problems.append(problem_at(message, location, remedy))
        return None
    return name


def _reference_location(reference: str, draft: Draft) -> Location:
    """Return where a name is written: in `from`, or in a FROM of the SQL."""
    field, offset = ("from", 0) if draft.options is None else draft.options.mention_of(reference)
    start = draft.document.entry_location((*draft.path, field)).value
    before = str(draft.raw.get(field))[:offset]
    column = len(before) - (before.rfind("\n") + 1)
    return Location(start.file, start.line + before.count("\n"), start.column + column)


def _readable(draft: Draft) -> bool:
    return draft.kind is not NodeKind.SINK and (draft.options is None or draft.options.emits_rows)
