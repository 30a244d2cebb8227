"""Creates the store that a dynamic table's options and the configuration require."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from streamling.connectors.postgres.connection import PostgresServer
from streamling.connectors.postgres.probe import postgres_connection
from streamling.plugins.connections import ConnectionCheck
from streamling.transforms.dynamic_table.cache import CachedStore
from streamling.transforms.dynamic_table.config import DynamicTableConfig
from streamling.transforms.dynamic_table.store import MemoryStore, ReadOnlyStore, TableStore

if TYPE_CHECKING:
    from streamling.plugins.context import NodeContext
    from streamling.transforms.dynamic_table.transform import DynamicTableTransformOptions


def create_store(context: NodeContext[DynamicTableTransformOptions]) -> TableStore:
    """Create the store, without connecting it."""
    if context.options.backend_type == "InMemory":
        return MemoryStore()
    return ReadOnlyStore(_postgres(context)) if context.read_only else _postgres(context)


def table_connections(context: NodeContext[DynamicTableTransformOptions]) -> Sequence[ConnectionCheck]:
    """Return what the store connects to."""
    if context.options.backend_type == "InMemory":
        return ()
    return (postgres_connection(_server(context)),)


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
