"""All node types: built-ins, which are imported when a pipeline uses them, and plugins by their id."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from types import MappingProxyType, new_class
from typing import TYPE_CHECKING, Any

from streamling.builtins import Builtin, builtins
from streamling.errors import StreamlingError
from streamling.pipeline.model import Node, NodeKind
from streamling.pipeline.node_types import NodeType
from streamling.pipeline.options import (
    BatchOptions,
    FreeFormOptions,
    NodeOptions,
    ParallelOptions,
    SinkOptions,
    UpstreamOptions,
)

if TYPE_CHECKING:
    from streamling.plugins.operators import Operator
    from streamling.plugins.preprocessor import Preprocessor
    from streamling.sql.user_functions import SqlFunction

#: fields that every plugin of a kind has besides its own
_PLUGIN_FIELDS: Mapping[NodeKind, tuple[type[NodeOptions], ...]] = MappingProxyType(
    {
        NodeKind.SOURCE: (ParallelOptions,),
        NodeKind.TRANSFORM: (UpstreamOptions, BatchOptions, ParallelOptions),
        NodeKind.SINK: (SinkOptions, BatchOptions, ParallelOptions),
    }
)


@dataclass(frozen=True, kw_only=True)
class OperatorType(NodeType):
    """A node type and the class that runs it."""

    operator: type[Operator[Any]]


#: returns the class that runs a type
Substitute = Callable[[OperatorType], "type[Operator[Any]]"]


class Registry:
    """Node types by kind and id; preprocessors and functions of plugins by id."""

    def __init__(self, builtins: Iterable[Builtin]) -> None:
        #: which package provides a built-in type, and where in the package it is
        self._builtins = {
            (kind, id): (builtin, target)
            for builtin in builtins
            for kind, targets in _targets(builtin).items()
            for id, target in targets.items()
        }
        self._types: dict[tuple[NodeKind, str], OperatorType] = {}
        self._preprocessors: dict[str, type[Preprocessor]] = {}
        self._functions: dict[str, type[SqlFunction]] = {}
        self._substitute: Substitute = lambda found: found.operator
        #: ids of plugins that have not been imported; their kinds are not known
        self.declared: frozenset[str] = frozenset()
        #: files beside the plugins that only the Rust implementation loads
        self.native_libraries: tuple[str, ...] = ()

    @classmethod
    def builtin(cls) -> Registry:
        """Return a new registry of the built-in types."""
        return cls(builtins())

    def get(self, kind: NodeKind, id: str) -> OperatorType | None:
        """Return the type ``id``; imports its module if it is a built-in that is used for the first time."""
        key = (kind, id)
        if key not in self._types and key in self._builtins:
            self._types[key] = _load(kind, id, *self._builtins[key])
        return self._types.get(key)

    def operator(self, node: Node) -> type[Operator[Any]]:
        """Return the class that runs ``node``, whose type has been checked."""
        found = self.get(node.kind, node.type)
        assert found is not None, f"{node} has an unknown type"
        return self._substitute(found)

    def substituting(self, substitute: Substitute) -> Registry:
        """Return the same types, run by the classes that ``substitute`` returns for them, such as sinks that write
        nothing."""
        other = copy(self)
        other._substitute = substitute
        return other

    def ids(self, kind: NodeKind) -> tuple[str, ...]:
        """Return all ids of a kind, sorted."""
        return tuple(sorted({id for of_kind, id in (*self._builtins, *self._types) if of_kind is kind}))

    def register(self, kind: NodeKind, id: str, operator: type[Operator[Any]]) -> None:
        """Make a plugin's class available as ``type: id``."""
        if id in self.ids(kind):
            raise StreamlingError.user(f"there is already a {kind} '{id}'", remedy="give the plugin another id")
        self._types[kind, id] = OperatorType(
            id, kind, _plugin_options(kind, id, operator), plugin=True, operator=operator
        )

    @property
    def preprocessors(self) -> Mapping[str, type[Preprocessor]]:
        return self._preprocessors

    def register_preprocessor(self, id: str, preprocessor: type[Preprocessor]) -> None:
        """Make a plugin's class available in `plugin.preprocessor_ids`."""
        if id in self._preprocessors:
            raise StreamlingError.user(f"there is already a preprocessor '{id}'", remedy="give the plugin another id")
        self._preprocessors[id] = preprocessor

    @property
    def functions(self) -> Mapping[str, type[SqlFunction]]:
        return self._functions

    def register_function(self, id: str, function: type[SqlFunction]) -> None:
        """Make a plugin's class available in SQL under its id."""
        if not re.fullmatch(r"[a-z_][a-z0-9_]*", id):
            raise StreamlingError.user(
                f"'{id}' cannot be the name of a function in SQL", remedy="use lower-case letters, digits and _"
            )
        if id in self._functions:
            raise StreamlingError.user(f"there is already a function '{id}'", remedy="give the plugin another id")
        self._functions[id] = function


def _targets(builtin: Builtin) -> Mapping[NodeKind, Mapping[str, str]]:
    return {
        NodeKind.SOURCE: builtin.sources,
        NodeKind.TRANSFORM: builtin.transforms,
        NodeKind.SINK: builtin.sinks,
    }


def _load(kind: NodeKind, id: str, builtin: Builtin, target: str) -> OperatorType:
    operator = builtin.load(target)
    return OperatorType(id, kind, operator.Options, operator=operator)


def _plugin_options(kind: NodeKind, id: str, operator: type[Operator[Any]]) -> type[NodeOptions]:
    """Return the fields that the plugin declares, plus those that every plugin of its kind has."""
    own: type[NodeOptions] = getattr(operator, "Options", FreeFormOptions)
    more = _PLUGIN_FIELDS[kind] if operator.emits_rows else (UpstreamOptions,)
    missing = tuple(fields for fields in more if not issubclass(own, fields))
    namespace = {
        "emits_rows": operator.emits_rows,
        "__doc__": own.__doc__,
        "__module__": own.__module__,
        "model_config": own.model_config,
        "reserved_labels": own.reserved_labels | {"type"},
    }
    fields: Any = new_class(own.__name__, (own, *missing), {}, lambda names: names.update(namespace))
    combined: type[NodeOptions] = fields
    return combined
