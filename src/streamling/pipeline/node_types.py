"""The types of nodes that a pipeline file may contain, as the parser needs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from streamling.pipeline.model import NodeKind
from streamling.pipeline.options import NodeOptions


@dataclass(frozen=True)
class NodeType:
    """What a `type` of the pipeline file means."""

    id: str
    kind: NodeKind
    options: type[NodeOptions]
    plugin: bool = False

    @property
    def has_free_fields(self) -> bool:
        """Whether any other field is an option of the plugin."""
        return self.options.model_config.get("extra") == "allow"


class NodeTypes(Protocol):
    """The types that are available; `streamling.plugins.registry` implements it."""

    @property
    def declared(self) -> frozenset[str]:
        """Ids of plugins that have not been imported; their kinds are not known."""

    @property
    def native_libraries(self) -> tuple[str, ...]:
        """Files beside the plugins that only the Rust implementation loads."""

    def get(self, kind: NodeKind, id: str) -> NodeType | None:
        """Return the type under ``id``."""

    def ids(self, kind: NodeKind) -> tuple[str, ...]:
        """Return all ids of a kind, sorted."""
