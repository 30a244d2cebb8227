"""Which node types there are: built-ins, imported when a pipeline uses them, and plugins by their id."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType, new_class
from typing import TYPE_CHECKING, Any

from streamling.errors import StreamlingError
from streamling.pipeline.model import NodeKind
from streamling.pipeline.options import Downstream, FreeForm, NodeOptions, Parallel, Rebatched, SinkOptions

if TYPE_CHECKING:
    from streamling.plugins.functions import SqlFunction
    from streamling.plugins.operators import Operator
    from streamling.plugins.preprocessor import Preprocessor

#: id → ``module:class``; an operator class, or the options class of a type whose run-time is still to come
_SOURCES = {
    "clickhouse": "streamling.sources.clickhouse:ClickHouseSourceOptions",
    "file": "streamling.sources.file:FileSource",
    "hybrid": "streamling.sources.hybrid:HybridSourceOptions",
    "kafka": "streamling.sources.kafka:KafkaSource",
}
_TRANSFORMS = {
    "dynamic_table": "streamling.transforms.dynamic_table:DynamicTableTransform",
    "handler": "streamling.transforms.handler:HandlerTransform",
    "script": "streamling.transforms.script:ScriptTransform",
    "sql": "streamling.transforms.sql:SqlTransform",
}
_SINKS = {
    "blackhole": "streamling.sinks.blackhole:BlackholeSink",
    "clickhouse": "streamling.sinks.clickhouse:ClickHouseSinkOptions",
    "kafka": "streamling.sinks.kafka:KafkaSink",
    "memory": "streamling.sinks.memory:MemorySink",
    "postgres": "streamling.sinks.postgres:PostgresSink",
    "postgres_aggregate": "streamling.sinks.postgres_aggregate:PostgresAggregateSink",
    "print": "streamling.sinks.print:PrintSink",
    "webhook": "streamling.sinks.webhook:WebhookSink",
}
_BUILTINS: Mapping[NodeKind, Mapping[str, str]] = MappingProxyType(
    {NodeKind.SOURCE: _SOURCES, NodeKind.TRANSFORM: _TRANSFORMS, NodeKind.SINK: _SINKS}
)

#: fields that every plugin of a kind has besides its own
_PLUGIN_FIELDS: Mapping[NodeKind, tuple[type[NodeOptions], ...]] = MappingProxyType(
    {
        NodeKind.SOURCE: (Parallel,),
        NodeKind.TRANSFORM: (Downstream, Rebatched, Parallel),
        NodeKind.SINK: (SinkOptions, Rebatched, Parallel),
    }
)


@dataclass(frozen=True)
class NodeType:
    """What a `type` of the pipeline file stands for."""

    id: str
    kind: NodeKind
    options: type[NodeOptions]
    #: None when this version cannot run the type yet
    operator: type[Operator[Any]] | None
    plugin: bool = False

    @property
    def has_free_fields(self) -> bool:
        """True when any further field is an option of the plugin."""
        return self.options.model_config.get("extra") == "allow"


class Registry:
    """Node types by kind and id; preprocessors and functions of plugins by id."""

    def __init__(self, builtins: Mapping[NodeKind, Mapping[str, str]]) -> None:
        self._builtins = builtins
        self._types: dict[tuple[NodeKind, str], NodeType] = {}
        self._preprocessors: dict[str, type[Preprocessor]] = {}
        self._functions: dict[str, type[SqlFunction]] = {}
        #: ids of plugins that have not been imported; of which kind they are is not known
        self.declared: frozenset[str] = frozenset()

    @classmethod
    def builtin(cls) -> Registry:
        """A registry of the built-in types; each call gives one of its own."""
        return cls(_BUILTINS)

    def get(self, kind: NodeKind, id: str) -> NodeType | None:
        """The type under ``id``; imports its module when it is a built-in used for the first time."""
        key = (kind, id)
        if key not in self._types and id in self._builtins.get(kind, {}):
            self._types[key] = _load(kind, id, self._builtins[kind][id])
        return self._types.get(key)

    def ids(self, kind: NodeKind) -> tuple[str, ...]:
        """All ids of a kind, sorted."""
        plugins = (id for of_kind, id in self._types if of_kind is kind)
        return tuple(sorted({*self._builtins.get(kind, {}), *plugins}))

    def register(self, kind: NodeKind, id: str, operator: type[Operator[Any]]) -> None:
        """Make a plugin's class available as ``type: id``."""
        if id in self.ids(kind):
            raise StreamlingError.user(f"there is already a {kind} '{id}'", remedy="give the plugin another id")
        self._types[kind, id] = NodeType(id, kind, _plugin_options(kind, id, operator), operator, plugin=True)

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


def _load(kind: NodeKind, id: str, path: str) -> NodeType:
    module, name = path.split(":")
    found = getattr(import_module(module), name)
    if issubclass(found, NodeOptions):
        return NodeType(id, kind, found, operator=None)
    return NodeType(id, kind, found.Options, operator=found)


def _plugin_options(kind: NodeKind, id: str, operator: type[Operator[Any]]) -> type[NodeOptions]:
    """The plugin's own fields plus those that every plugin of its kind has."""
    own: type[NodeOptions] = getattr(operator, "Options", FreeForm)
    more = _PLUGIN_FIELDS[kind] if operator.emits_rows else (Downstream,)
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
