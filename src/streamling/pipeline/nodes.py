"""One entry of a section: its type, then its fields as the options of that type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from streamling.errors import Problem
from streamling.pipeline.document.loader import Document, Path
from streamling.pipeline.document.location import Location
from streamling.pipeline.document.suggest import did_you_mean, listing
from streamling.pipeline.model import NodeKind
from streamling.pipeline.node_types import NodeType, NodeTypes
from streamling.pipeline.options import DeadLetterOptions, NodeOptions
from streamling.pipeline.plugin_fields import merge_options
from streamling.pipeline.validation_errors import Subject, dotted, problem_at, problems_of, value_kind


@dataclass(frozen=True)
class Draft:
    """A node as far as it could be parsed; ``options`` is None if they are invalid."""

    name: str
    kind: NodeKind
    raw: Any
    document: Document
    options: NodeOptions | None = None

    @property
    def path(self) -> Path:
        return (self.kind.section, self.name)

    @property
    def location(self) -> Location:
        return self.document.entry_location(self.path).key

    def __str__(self) -> str:
        type_ = self.raw.get("type") if isinstance(self.raw, dict) else None
        return f"{type_} {self.kind} '{self.name}'" if isinstance(type_, str) else f"{self.kind} '{self.name}'"

    def field_locations(self) -> Mapping[str, Location]:
        """Return places of the node's fields by dotted path."""
        return self._entry_locations(lambda entry_location: entry_location.key)

    def value_locations(self) -> Mapping[str, Location]:
        """Return places of the first character of the fields' values."""
        return self._entry_locations(lambda entry_location: entry_location.value)

    def _entry_locations(self, part: Any) -> Mapping[str, Location]:
        depth = len(self.path)
        return MappingProxyType(
            {
                dotted(path[depth:]): part(entry_location)
                for path, entry_location in self.document.entry_locations.items()
                if len(path) > depth and path[:depth] == self.path
            }
        )


def read_node(draft: Draft, registry: NodeTypes, problems: list[Problem]) -> Draft:
    """Return ``draft`` with its options; its errors are added to ``problems``."""
    if not isinstance(draft.raw, dict):
        remedy = "write its fields below it, indented, beginning with 'type'"
        message = f"{draft} is {value_kind(draft.raw)} where a mapping is expected"
        problems.append(problem_at(message, draft.location, remedy))
        return draft
    if not draft.name.strip():
        problems.append(problem_at(f"a {draft.kind} has an empty name", draft.location, "give it a name"))
    node_type = _type(draft, registry, problems)
    if node_type is None:
        return draft
    if isinstance(draft.raw.get("errors"), dict) and not issubclass(node_type.options, DeadLetterOptions):
        problems.append(_no_dead_letters(draft, registry))
        return draft
    return _read_options(draft, node_type, problems)


def _type(draft: Draft, registry: NodeTypes, problems: list[Problem]) -> NodeType | None:
    id = draft.raw.get("type")
    entry_location = draft.document.entry_location((*draft.path, "type"))
    known = registry.ids(draft.kind)
    if id is None:
        remedy = f"add it, one of: {listing(known)}"
        problems.append(problem_at(f"{draft}: the field 'type' is missing", entry_location.key, remedy))
        return None
    if not isinstance(id, str):
        problems.append(
            problem_at(f"{draft}: 'type' is {value_kind(id)} where text is expected", entry_location.value, None)
        )
        return None
    found = registry.get(draft.kind, id)
    if found is None:
        problems.append(
            problem_at(
                f"{draft.kind} '{draft.name}': there is no {draft.kind} type '{id}'; available: {listing(known)}",
                entry_location.value,
                _type_remedy(id, draft.kind, registry),
            )
        )
    return found


def _type_remedy(id: str, kind: NodeKind, registry: NodeTypes) -> str:
    elsewhere = next((other for other in NodeKind if other is not kind and id in registry.ids(other)), None)
    if elsewhere is not None:
        return f"'{id}' is a {elsewhere}: move it to the section '{elsewhere.section}'"
    plugin = "if it is a plugin, set 'plugin.path' or install its package"
    if registry.native_libraries:
        libraries = listing(registry.native_libraries)
        plugin = f"plugins are Python classes: native libraries such as {libraries} run in the Rust implementation only"
    return did_you_mean(id, [*registry.ids(kind), *registry.declared], plugin) or plugin


def _no_dead_letters(draft: Draft, registry: NodeTypes) -> Problem:
    able = [
        f"{id} {kind}"
        for kind in NodeKind
        for id in registry.ids(kind)
        if (found := registry.get(kind, id)) is not None and issubclass(found.options, DeadLetterOptions)
    ]
    return problem_at(
        f"{draft} cannot send bad rows to a dead-letter sink: only these types can: {listing(able)}",
        draft.document.entry_location((*draft.path, "errors")).key,
        "remove 'errors'",
    )


def _read_options(draft: Draft, node_type: NodeType, problems: list[Problem]) -> Draft:
    raw, model = draft.raw, node_type.options
    if node_type.plugin:
        if not isinstance(raw.get("options", {}), dict | None):
            message = f"{draft}: 'options' is {value_kind(raw['options'])} where a mapping is expected"
            location = draft.document.entry_location((*draft.path, "options")).value
            problems.append(problem_at(message, location, "write one 'name: value' per line, indented below it"))
            return draft
        raw = merge_options(raw, draft.kind, model, draft.document, draft.path)
    raw = _without_empty(raw, model)
    try:
        # Plugin options are text and are converted; built-in fields have their YAML types.
        strict = False if node_type.plugin else None
        options = model.model_validate(raw, by_alias=True, by_name=False, strict=strict)
    except ValidationError as error:
        problems += problems_of(error, Subject(draft.document, draft.path, raw, model, str(draft)))
        return draft
    return replace(draft, options=options)


def _without_empty(raw: Mapping[str, Any], model: type[NodeOptions]) -> dict[str, Any]:
    """Treat an optional field with nothing after its colon as not set."""
    optional = {info.alias or name for name, info in model.model_fields.items() if not info.is_required()}
    return {key: value for key, value in raw.items() if value is not None or key not in optional}
