"""One entry of a section: its type, then its fields as the options of that type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from streamling.document.loader import Document, Path
from streamling.document.location import Location
from streamling.document.suggest import did_you_mean, listing
from streamling.errors import Problem
from streamling.pipeline.mistakes import Subject, describe, dotted, place_problem, problems_of
from streamling.pipeline.model import NodeKind
from streamling.pipeline.node_types import NodeType, NodeTypes
from streamling.pipeline.options import NodeOptions, Rejecting
from streamling.pipeline.plugin_fields import merge_options


@dataclass(frozen=True)
class Draft:
    """A node as far as it could be read; ``options`` is None when they are wrong."""

    name: str
    kind: NodeKind
    raw: Any
    document: Document
    options: NodeOptions | None = None

    @property
    def path(self) -> Path:
        return (self.kind.section, self.name)

    @property
    def place(self) -> Location:
        return self.document.spot(self.path).key

    def __str__(self) -> str:
        type_ = self.raw.get("type") if isinstance(self.raw, dict) else None
        return f"{type_} {self.kind} '{self.name}'" if isinstance(type_, str) else f"{self.kind} '{self.name}'"

    def places(self) -> Mapping[str, Location]:
        """Places of the node's fields by dotted path."""
        return self._spots(lambda spot: spot.key)

    def texts(self) -> Mapping[str, Location]:
        """Places of the first character of the fields' values."""
        return self._spots(lambda spot: spot.value)

    def _spots(self, part: Any) -> Mapping[str, Location]:
        depth = len(self.path)
        return MappingProxyType(
            {
                dotted(path[depth:]): part(spot)
                for path, spot in self.document.spots.items()
                if len(path) > depth and path[:depth] == self.path
            }
        )


def read_node(draft: Draft, registry: NodeTypes, problems: list[Problem]) -> Draft:
    """``draft`` with its options, or its mistakes in ``problems``."""
    if not isinstance(draft.raw, dict):
        remedy = "write its fields below it, indented, beginning with 'type'"
        message = f"{draft} is {describe(draft.raw)} where a mapping is expected"
        problems.append(place_problem(message, draft.place, remedy))
        return draft
    if not draft.name.strip():
        problems.append(place_problem(f"a {draft.kind} has an empty name", draft.place, "give it a name"))
    node_type = _type(draft, registry, problems)
    if node_type is None:
        return draft
    if isinstance(draft.raw.get("errors"), dict) and not issubclass(node_type.options, Rejecting):
        problems.append(_no_dead_letters(draft, registry))
        return draft
    return _read_options(draft, node_type, problems)


def _type(draft: Draft, registry: NodeTypes, problems: list[Problem]) -> NodeType | None:
    id = draft.raw.get("type")
    spot = draft.document.spot((*draft.path, "type"))
    known = registry.ids(draft.kind)
    if id is None:
        remedy = f"add it, one of: {listing(known)}"
        problems.append(place_problem(f"{draft}: the field 'type' is missing", spot.key, remedy))
        return None
    if not isinstance(id, str):
        problems.append(place_problem(f"{draft}: 'type' is {describe(id)} where text is expected", spot.value, None))
        return None
    found = registry.get(draft.kind, id)
    if found is None:
        problems.append(
            place_problem(
                f"{draft.kind} '{draft.name}': there is no {draft.kind} type '{id}'; available: {listing(known)}",
                spot.value,
                _type_remedy(id, draft.kind, registry),
            )
        )
    return found


def _type_remedy(id: str, kind: NodeKind, registry: NodeTypes) -> str:
    elsewhere = next((other for other in NodeKind if other is not kind and id in registry.ids(other)), None)
    if elsewhere is not None:
        return f"'{id}' is a {elsewhere}: move it to the section '{elsewhere.section}'"
    plugin = "if it is a plugin, set 'plugin.path' or install its package"
    return did_you_mean(id, [*registry.ids(kind), *registry.declared], plugin) or plugin


def _no_dead_letters(draft: Draft, registry: NodeTypes) -> Problem:
    able = [
        f"{id} {kind}"
        for kind in NodeKind
        for id in registry.ids(kind)
        if (found := registry.get(kind, id)) is not None and issubclass(found.options, Rejecting)
    ]
    return place_problem(
        f"{draft} cannot send bad rows to a dead-letter sink: only these types can: {listing(able)}",
        draft.document.spot((*draft.path, "errors")).key,
        "remove 'errors'",
    )


def _read_options(draft: Draft, node_type: NodeType, problems: list[Problem]) -> Draft:
    raw, model = draft.raw, node_type.options
    if node_type.plugin:
        if not isinstance(raw.get("options", {}), dict | None):
            message = f"{draft}: 'options' is {describe(raw['options'])} where a mapping is expected"
            place = draft.document.spot((*draft.path, "options")).value
            problems.append(place_problem(message, place, "write one 'name: value' per line, indented below it"))
            return draft
        raw = merge_options(raw, draft.kind, model, draft.document, draft.path)
    raw = _without_empty(raw, model)
    try:
        # Plugin options arrive as text and are converted; built-in fields are what YAML says they are.
        strict = False if node_type.plugin else None
        options = model.model_validate(raw, by_alias=True, by_name=False, strict=strict)
    except ValidationError as error:
        problems += problems_of(error, Subject(draft.document, draft.path, raw, model, str(draft)))
        return draft
    return replace(draft, options=options)


def _without_empty(raw: Mapping[str, Any], model: type[NodeOptions]) -> dict[str, Any]:
    """An optional field with nothing after its colon counts as left out."""
    optional = {info.alias or name for name, info in model.model_fields.items() if not info.is_required()}
    return {key: value for key, value in raw.items() if value is not None or key not in optional}
