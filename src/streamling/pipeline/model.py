"""A pipeline as read from its file: nodes with their options, their places in the file, and their upstreams."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from streamling.errors import NodeLabel
from streamling.pipeline.document.location import UNKNOWN_LOCATION, Location
from streamling.pipeline.options import NodeOptions

if TYPE_CHECKING:
    from streamling.pipeline.config import AppConfig

log = logging.getLogger(__name__)


class NodeKind(StrEnum):
    SOURCE = "source"
    TRANSFORM = "transform"
    SINK = "sink"

    @property
    def section(self) -> str:
        """Name of the section of the file that contains nodes of this kind."""
        return f"{self.value}s"

    @property
    def has_input(self) -> bool:
        """Whether nodes of this kind take rows from other nodes."""
        return self is not NodeKind.SOURCE

    @property
    def has_output(self) -> bool:
        """Whether nodes of this kind pass rows on to other nodes."""
        return self is not NodeKind.SINK

    @property
    def optional(self) -> bool:
        """Whether a pipeline may have no nodes of this kind."""
        return self is NodeKind.TRANSFORM


@dataclass(frozen=True)
class Node:
    """One entry under `sources`, `transforms` or `sinks`."""

    name: str
    kind: NodeKind
    options: NodeOptions
    #: upstream nodes by their declared names, each once, in the order of first mention
    upstreams: tuple[str, ...] = ()
    #: the sink that takes the rows that this node rejects
    dead_letters: str | None = None
    #: key columns, own or inherited; empty if there is no key
    primary_key: tuple[str, ...] = ()
    location: Location = UNKNOWN_LOCATION
    #: places of the node's fields by dotted path, e.g. ``sql`` or ``telemetry.labels.team``
    field_locations: Mapping[str, Location] = field(default_factory=lambda: MappingProxyType({}))
    #: where the values of the fields begin; of a block text such as ``sql: |``, its first line
    value_locations: Mapping[str, Location] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def type(self) -> str:
        return self.options.type

    @property
    def label(self) -> NodeLabel:
        """How errors name the node."""
        return NodeLabel(self.type, self.kind, self.name)

    def __str__(self) -> str:
        return str(self.label)

    def field_location(self, path: str) -> Location:
        """Return where the field is in the file."""
        return self.field_locations.get(path, self.location)

    def value_location(self, path: str) -> Location:
        """Return where the field's value begins: the place of line 1, column 1 of a text."""
        return self.value_locations.get(path, self.location)


@dataclass(frozen=True)
class Pipeline:
    """A checked pipeline: every upstream exists, there are no cycles, nodes are in topological order."""

    nodes: tuple[Node, ...]
    file: str = ""
    #: the name in the file
    name: str = ""

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __getitem__(self, name: str) -> Node:
        return self._by_name[name]

    def of_kind(self, kind: NodeKind) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if node.kind is kind)

    @property
    def sources(self) -> tuple[Node, ...]:
        return self.of_kind(NodeKind.SOURCE)

    @property
    def transforms(self) -> tuple[Node, ...]:
        return self.of_kind(NodeKind.TRANSFORM)

    @property
    def sinks(self) -> tuple[Node, ...]:
        return self.of_kind(NodeKind.SINK)

    def with_config_defaults(self, config: AppConfig) -> Pipeline:
        """Return the same with the defaults of the configuration for fields that its nodes do not set. Warns about
        fields that have no effect."""
        for node in self:
            for name, why in node.options.ineffective().items():
                log.warning("%s: `%s` has no effect: %s", node, name, why)
        nodes = (replace(node, options=node.options.with_config_defaults(config)) for node in self.nodes)
        return replace(self, nodes=tuple(nodes))

    def consumers(self, name: str) -> tuple[Node, ...]:
        return self._consumers.get(name, ())

    def downstream(self, name: str) -> Iterator[Node]:
        """Yield every node that rows of ``name`` can reach, each once."""
        waiting, seen = [*self.consumers(name)], set()
        while waiting:
            node = waiting.pop()
            if node.name not in seen:
                seen.add(node.name)
                yield node
                waiting += self.consumers(node.name)

    def rejecting_nodes(self, sink: str) -> tuple[Node, ...]:
        """Return the nodes whose rejected rows ``sink`` takes; such a sink takes no other rows."""
        return tuple(node for node in self.nodes if node.dead_letters == sink)

    @cached_property
    def _by_name(self) -> dict[str, Node]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def _consumers(self) -> dict[str, tuple[Node, ...]]:
        consumers: dict[str, list[Node]] = {}
        for node in self.nodes:
            for upstream in node.upstreams:
                consumers.setdefault(upstream, []).append(node)
        return {name: tuple(nodes) for name, nodes in consumers.items()}
