"""From the text of a pipeline file to a checked `Pipeline`; all errors are reported together."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Protocol

from streamling.errors import InvalidPipeline, Problem, StreamlingError, error_context
from streamling.pipeline.checks import job_problems, label_problems, orphan_problems
from streamling.pipeline.document.loader import Document, load_yaml
from streamling.pipeline.document.secrets import secrets_in
from streamling.pipeline.document.suggest import closest, did_you_mean, listing
from streamling.pipeline.graph import resolve
from streamling.pipeline.keys import keyless, with_known_keys
from streamling.pipeline.model import Node, NodeKind, Pipeline
from streamling.pipeline.node_types import NodeTypes
from streamling.pipeline.nodes import Draft, read_node
from streamling.pipeline.references import link, sql_problem
from streamling.pipeline.validation_errors import problem_at
from streamling.pipeline.variables import Variables, expand_variables
from streamling.redaction import add_secrets

if TYPE_CHECKING:
    from streamling.sql.statement import Lookup


log = logging.getLogger(__name__)

#: rewrites the text of a pipeline file before it is parsed
Preprocessor = Callable[[str], str]

#: top-level keys of the hosted product; they do not affect the data flow
_HOSTED_KEYS = frozenset(
    {
        "name",
        "description",
        "resource_size",
        "resources",
        "job",
        "definition",
        "version",
        "dedicated_egress_ip",
    }
)


class Rules(Protocol):
    """The part of the application's configuration that decides which pipelines are valid."""

    @property
    def enforce_primary_keys(self) -> bool: ...

    @property
    def job_mode(self) -> bool: ...


@dataclass(frozen=True)
class DefaultRules:
    """`Rules` without a configuration."""

    enforce_primary_keys: bool = False
    job_mode: bool = False


def load_pipeline(
    path: str | os.PathLike[str],
    *,
    registry: NodeTypes,
    config: Rules | None = None,
    preprocessors: Sequence[Preprocessor] = (),
    variables: Variables | None = None,
) -> Pipeline:
    """Read and check the pipeline file at ``path``; raises `InvalidPipeline` with all errors in it."""
    file = os.fspath(path)
    try:
        text = FilePath(path).read_bytes()
    except OSError as error:
        message = f"the pipeline file cannot be read: {error.strerror or error}"
        raise InvalidPipeline([Problem(message, file, remedy="check the path")]) from None
    return parse_pipeline(
        text, file=file, registry=registry, config=config, preprocessors=preprocessors, variables=variables
    )


def parse_pipeline(
    text: str | bytes,
    *,
    file: str = "pipeline.yaml",
    registry: NodeTypes,
    config: Rules | None = None,
    preprocessors: Sequence[Preprocessor] = (),
    variables: Variables | None = None,
) -> Pipeline:
    """Check the text of a pipeline file; raises `InvalidPipeline` with all errors in it."""
    rules, variables = config or DefaultRules(), variables or Variables()
    written = document = expand_variables(load_yaml(text, file), registry, variables)
    if preprocessors:
        document = expand_variables(_preprocess(text, preprocessors, file), registry, variables)
    add_secrets(secrets_in(document.data))  # before any message contains a value
    broken_sections: list[Problem] = []
    drafts = _drafts(document, broken_sections)
    problems = [*document.problems, *broken_sections]
    drafts = [read_node(draft, registry, problems) for draft in drafts]
    # If a section could not be parsed, every reference to it would look wrong.
    nodes = link(drafts, [] if broken_sections else problems)
    problems += lookup_problems(nodes) if not problems else []
    # An orphan is often the result of another error, such as a misspelt `from`; that one is enough.
    problems += orphan_problems(written, registry, nodes) if not problems else []
    problems += [problem for node in nodes for problem in label_problems(node)]
    if rules.job_mode:
        problems += job_problems(nodes, registry)
    pipeline = with_known_keys(Pipeline(tuple(nodes), file, document.name))
    add_secrets(secret for node in nodes for secret in secrets_in(node.options))
    problems += keyless(pipeline, rules.enforce_primary_keys) if not problems else []
    if problems:
        raise InvalidPipeline(_in_file_order(problems))
    return pipeline


def _preprocess(text: str | bytes, preprocessors: Sequence[Preprocessor], file: str) -> Document:
    before = text.decode("utf-8-sig") if isinstance(text, bytes) else text
    after = before
    for preprocessor in preprocessors:
        with error_context("preprocessing the pipeline file"):
            after = preprocessor(after)
    return load_yaml(after, file if after == before else f"{file} (preprocessed)")


def _in_file_order(problems: list[Problem]) -> list[Problem]:
    unique = dict.fromkeys(problems)
    return sorted(unique, key=lambda problem: (problem.file, problem.line, problem.column))


# ── sections ─────────────────────────────────────────────────────────────────────────────────────────────


def _drafts(document: Document, problems: list[Problem]) -> list[Draft]:
    data = document.data
    if not isinstance(data, dict):
        what = "is empty" if data is None else "is not a mapping"
        remedy = "a pipeline has the sections sources, transforms and sinks; transforms is optional"
        problems.append(Problem(f"the file {what}", document.file, remedy=remedy))
        return []
    _warn_about_typos(data, document)
    return [draft for kind in NodeKind for draft in _section(kind, data, document, problems)]


def _section(kind: NodeKind, data: dict[str, Any], document: Document, problems: list[Problem]) -> list[Draft]:
    entries = data.get(kind.section)
    location = document.entry_location((kind.section,)).key
    add_one = f"add at least one {kind} below it"
    if kind.section not in data:
        typo = closest(kind.section, data.keys() - {k.section for k in NodeKind} - _HOSTED_KEYS)
        if typo or not kind.optional:
            remedy = f"rename '{typo}' to '{kind.section}'" if typo else f"add at least one {kind}"
            message = f"the section '{kind.section}' is missing"
            problems.append(problem_at(message, document.entry_location((typo,) if typo else ()).key, remedy))
    elif isinstance(entries, dict) and (entries or kind.optional):
        return [Draft(str(name), kind, raw, document) for name, raw in entries.items()]
    elif not entries and isinstance(entries, dict | None):
        if not kind.optional:
            problems.append(problem_at(f"the section '{kind.section}' is empty", location, add_one))
    else:
        remedy = f"write one name per {kind}, with its fields indented below"
        problems.append(problem_at(f"the section '{kind.section}' must be a mapping", location, remedy))
    return []


def _warn_about_typos(data: dict[str, Any], document: Document) -> None:
    sections = [kind.section for kind in NodeKind]
    for key in data.keys() - _HOSTED_KEYS - set(sections):
        match = closest(key, sections)
        if match in data:
            log.warning(
                "%s:%d: the top-level key '%s' is ignored (did you mean '%s'?)",
                document.file,
                document.entry_location((key,)).key.line,
                key,
                match,
            )


# ── dynamic tables and the SQL that queries them ─────────────────────────────────────────────────────────────────


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
