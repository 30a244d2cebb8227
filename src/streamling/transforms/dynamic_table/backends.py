"""The backends of dynamic tables: what makes the store that the options and the configuration require."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from streamling.connectors.postgres.connection import PostgresServer
from streamling.connectors.postgres.probe import postgres_connection
from streamling.plugins.connections import ConnectionCheck
from streamling.transforms.dynamic_table.cache import CachedStore
from streamling.transforms.dynamic_table.config import DynamicTableConfig
from streamling.transforms.dynamic_table.store import MemoryStore, ReadOnlyStore, TableStore

if TYPE_CHECKING:
    from streamling.plugins.context import NodeContext
    from streamling.transforms.dynamic_table.transform import DynamicTableTransformOptions


class TableBackend(Protocol):
    """Where the values of a table are."""

    #: whether only the pipeline can see them
    is_private: bool

    def create(self, context: NodeContext[DynamicTableTransformOptions]) -> TableStore:
        """Return the store, without connecting it."""

    def connections(self, context: NodeContext[DynamicTableTransformOptions]) -> Sequence[ConnectionCheck]:
        """Return what the store connects to."""


class _InMemory:
    is_private = True

    def create(self, context: NodeContext[DynamicTableTransformOptions]) -> TableStore:
        return MemoryStore()

    def connections(self, context: NodeContext[DynamicTableTransformOptions]) -> Sequence[ConnectionCheck]:
        return ()


class _Postgres:
    is_private = False

    def create(self, context: NodeContext[DynamicTableTransformOptions]) -> TableStore:
        return ReadOnlyStore(_postgres(context)) if context.read_only else _postgres(context)

    def connections(self, context: NodeContext[DynamicTableTransformOptions]) -> Sequence[ConnectionCheck]:
        return (postgres_connection(_server(context)),)


#: by `backend_type`
BACKENDS: Mapping[str, TableBackend] = {"InMemory": _InMemory(), "Postgres": _Postgres()}


def create_store(context: NodeContext[DynamicTableTransformOptions]) -> TableStore:
    """Return the store of the table, without connecting it."""
    return BACKENDS[context.options.backend_type].create(context)


def _server(context: NodeContext[DynamicTableTransformOptions]) -> PostgresServer:
    settings = context.config.part(DynamicTableConfig).dynamic_table_backend
    return PostgresServer.of(settings.postgres, "dynamic_table_backend.postgres", context.network)


def _postgres(context: NodeContext[DynamicTableTransformOptions]) -> TableStore:
    from streamling.connectors.postgres.dynamic_table import PostgresStore
    from streamling.connectors.postgres.dynamic_table_layout import DynamicTableLayout

    options, config = context.options, context.config.part(DynamicTableConfig).dynamic_table_backend
    settings = config.postgres
    enabled = settings.cache_enabled if options.cache is None else options.cache
    cached = enabled and options.time_column is not None and not context.read_only
    store = PostgresStore(
        _server(context),
        DynamicTableLayout(
            options.schema_ or settings.dt_schema_name,
            options.backend_entity_name,
            options.column,
            options.time_column,
        ),
        name=context.name,
        cached=cached,
        chunk=config.max_batch_size,
        retries=context,
        connections=settings.explicit_value("max_connections") or 1,
        creates_table=not context.read_only,
    )
    if not cached:
        return store
    milliseconds = options.cache_refresh_debounce_ms
    debounce = settings.cache_refresh_debounce_ms if milliseconds is None else milliseconds
    return CachedStore(store, debounce=debounce / 1000, log=context.log)
