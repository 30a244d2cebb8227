"""Checks of the ClickHouse server that a hybrid source reads, for `validate --connect` and `doctor`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from streamling.connectors.clickhouse.config import ClickHouseConfig
from streamling.connectors.clickhouse.probe import clickhouse_connection
from streamling.connectors.clickhouse.server import ClickHouseServer
from streamling.connectors.hybrid.offset_table import LoadedOffsets
from streamling.plugins.connections import ConnectionCheck

if TYPE_CHECKING:
    from streamling.connectors.hybrid.options import HybridSourceOptions
    from streamling.plugins.context import NodeContext


def table_connections(context: NodeContext[HybridSourceOptions]) -> list[ConnectionCheck]:
    """Return the checks of the server and of the offset table."""
    config = context.config.part(ClickHouseConfig).clickhouse_source
    server = ClickHouseServer.of(config, "clickhouse_source", context.network)
    loaded = LoadedOffsets(context.options, server, context.config.application_id)
    offsets = ConnectionCheck("ClickHouse", f"{server}, offset table {loaded.table}", partial(_check_offsets, loaded))
    return [clickhouse_connection(server), offsets]


def _check_offsets(loaded: LoadedOffsets) -> str:
    found = loaded.read()
    if not found:
        missing = "does not exist" if found is None else f"has no row for the topic '{loaded.topic}'"
        return f"{missing}: start_at decides where the topic is read from"
    count = "1 partition" if len(found) == 1 else f"{len(found)} partitions"
    return f"{count} of the topic '{loaded.topic}'"
