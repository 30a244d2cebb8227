"""Warnings about pipelines that are valid but probably do not do what their author wants. Needs neither Spark nor any
other system.

Each check returns problems with their place in the file and a remedy; `streamling validate` shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from streamling.errors import Problem
from streamling.pipeline.document.location import Location
from streamling.pipeline.document.suggest import listing
from streamling.pipeline.graph import canonical
from streamling.pipeline.model import Node, NodeKind, Pipeline
from streamling.pipeline.options import SinkOptions, SourceOptions, SqlOptions
from streamling.pipeline.references import sql_problem
from streamling.pipeline.validation_errors import problem_at
from streamling.types.row_kind import OP_COLUMN

if TYPE_CHECKING:
    from streamling.sql.statement import Statement

#: fields that say where a sink writes
_TARGET_FIELDS = ("topic", "schema_", "table", "landing_table", "url")
#: parts of header names whose values are credentials
_CREDENTIALS = ("auth", "token", "secret", "api-key", "apikey", "password", "cookie")


def lint(pipeline: Pipeline) -> list[Problem]:
    """Return all warnings about ``pipeline``, in file order."""
    found = [problem for check in _CHECKS for problem in check(pipeline)]
    return sorted(dict.fromkeys(found), key=lambda problem: (problem.line, problem.column))


def _unused_tables(pipeline: Pipeline) -> Iterator[Problem]:
    """Warn about tables in memory that are filled, but that no SQL queries; one in Postgres may be for others."""
    queried = {canonical(lookup.table) for node in pipeline for lookup in node.options.lookups()}
    for node in pipeline.transforms:
        if getattr(node.options, "is_private_table", False) and node.upstreams and canonical(node.name) not in queried:
            remedy = f"query it with dynamic_table_check('{node.name}', column), or remove it"
            yield problem_at(f"{node} is filled, but no SQL looks values up in it", node.location, remedy)


def _stars(pipeline: Pipeline) -> Iterator[Problem]:
    """Warn about ``SELECT *`` right above a table: a column that is added to the source fails there."""
    for node, statement in _statements(pipeline):
        sinks = [sink for sink in pipeline.consumers(node.name) if _has_fixed_columns(sink)]
        if sinks:
            message = f"SELECT * passes every new column of its input to {listing(map(str, sinks))}"
            remedy = "list the columns" + (
                ", or set `evolve: add_columns`" if all(hasattr(sink.options, "evolve") for sink in sinks) else ""
            )
            for problem in statement.find_stars(message, remedy):
                yield sql_problem(problem, str(node), node.value_location("sql"))


def _has_fixed_columns(sink: Node) -> bool:
    options = sink.options
    if getattr(options, "evolve", "none") != "none":
        return False
    return (isinstance(options, SinkOptions) and options.has_fixed_columns) or (
        sink.kind is NodeKind.SINK and getattr(options, "data_format", None) == "avro"
    )


def _random_values(pipeline: Pipeline) -> Iterator[Problem]:
    """Warn about functions that return something else when rows are replayed, above a sink that finds rows by their
    key."""
    for node, statement in _statements(pipeline):
        below = {each.name for each in pipeline.downstream(node.name)}
        keyed = [sink for sink in pipeline.sinks if sink.name in below and _finds_rows_by_key(sink)]
        if keyed:
            message = (
                f"() returns another value when rows are replayed, so {listing(map(str, keyed))} cannot recognise them"
            )
            remedy = "derive the value from columns, for instance with md5(concat(…))"
            for problem in statement.find_random_calls(message, remedy):
                yield sql_problem(problem, str(node), node.value_location("sql"))


def _finds_rows_by_key(sink: Node) -> bool:
    options = sink.options
    upserts = isinstance(options, SinkOptions) and options.upserts
    return bool(sink.primary_key) and (upserts or options.requires_primary_key)


def _null_comparisons(pipeline: Pipeline) -> Iterator[Problem]:
    for node, statement in _statements(pipeline):
        for problem in statement.find_comparisons_with_null():
            yield sql_problem(problem, str(node), node.value_location("sql"))


def _shared_targets(pipeline: Pipeline) -> Iterator[Problem]:
    """Warn about sinks that write to the same table or topic: they overwrite each other's rows."""
    first: dict[tuple[object, ...], Node] = {}
    for sink in pipeline.sinks:
        target = tuple(getattr(sink.options, field, None) for field in _TARGET_FIELDS)
        if not any(target):
            continue
        other = first.setdefault((sink.type, *target), sink)
        if other is not sink:
            remedy = "combine the rows with UNION ALL and write them with one sink"
            yield problem_at(f"{sink} writes to the same place as {other}", sink.location, remedy)


def _loops(pipeline: Pipeline) -> Iterator[Problem]:
    """Warn about a topic that the pipeline reads and writes."""
    topics = {getattr(source.options, "topic", None): source for source in pipeline.sources}
    for sink in pipeline.sinks:
        topic = getattr(sink.options, "topic", None)
        if topic is not None and topic in topics:
            yield problem_at(
                f"{sink} writes to the topic '{topic}', which {topics[topic]} reads: rows may pass through repeatedly",
                sink.field_location("topic"),
                "write to another topic",
            )


def _plain_credentials(pipeline: Pipeline) -> Iterator[Problem]:
    """Warn about headers with credentials that are written in the file."""
    for node in pipeline:
        for header in getattr(node.options, "headers", {}):
            location = node.value_location(f"headers.{header}")
            if any(part in header.lower() for part in _CREDENTIALS) and not _is_variable(location):
                yield problem_at(
                    f"{node}: the value of the header '{header}' is in the file, where everyone who reads it sees it",
                    location,
                    "write ${secret:NAME}, and set the secret in the configuration or the environment",
                )


def _rejected_changes(pipeline: Pipeline) -> Iterator[Problem]:
    """Warn about a minimum or maximum from which rows may be deleted, unless a node above it looks at the operation."""
    for sink in pipeline.sinks:
        options = sink.options
        fields = options.rejecting_changes if isinstance(options, SinkOptions) and not sink.dead_letters else ()
        above = [node for node in pipeline if sink in pipeline.downstream(node.name)]
        source = next(
            (node for node in above if isinstance(node.options, SourceOptions) and node.options.may_delete), None
        )
        if source is None or any(OP_COLUMN in repr(node.options) for node in above):
            continue
        for field in fields:
            yield problem_at(
                f"{sink}: the first update or delete from {source} stops the pipeline: no value can be taken back from "
                f"'{field.removesuffix('.fn')}'",
                sink.field_location(field),
                f"select the rows with {OP_COLUMN} = 'i', or add errors: {{to: SINK}}",
            )


def _is_variable(location: Location) -> bool:
    """Return whether the text at ``location`` contains a variable; also if it cannot be read."""
    try:
        lines = Path(location.file).read_text(encoding="utf-8").splitlines()
        return "${" in lines[location.line - 1][location.column - 1 :]
    except (OSError, ValueError, IndexError):
        return True


def _statements(pipeline: Pipeline) -> Iterator[tuple[Node, Statement]]:
    for node in pipeline.transforms:
        if isinstance(node.options, SqlOptions) and (statement := node.options.statement) is not None:
            yield node, statement


_CHECKS: tuple[Callable[[Pipeline], Iterator[Problem]], ...] = (
    _unused_tables,
    _stars,
    _random_values,
    _null_comparisons,
    _shared_targets,
    _loops,
    _plain_credentials,
    _rejected_changes,
)
