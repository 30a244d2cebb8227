"""ClickHouse source: reads the rows of a table once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar

import pyarrow as pa
from pydantic import BeforeValidator, Field, WithJsonSchema

from streamling.connectors.clickhouse.config import ClickHouseConfig
from streamling.connectors.clickhouse.probe import clickhouse_connection
from streamling.connectors.clickhouse.server import ClickHouseServer
from streamling.connectors.clickhouse.table_query import ReadLimits, TableQuery
from streamling.connectors.clickhouse.table_reader import TableReader
from streamling.errors import StreamlingError
from streamling.pipeline.document.scalars import Columns, ProgramText
from streamling.pipeline.options import Options, SourceOptions
from streamling.plugins.connections import ConnectionCheck
from streamling.plugins.sources import End, Position, Progress, Source, SourceBatch
from streamling.retry import call_with_startup_retries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamling.plugins.context import NodeContext

_SECTION = "clickhouse_source"


def _start_at(value: object) -> object:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


StartAt = Annotated[str, BeforeValidator(_start_at), WithJsonSchema({"type": ["string", "number"]})]


class TableRead(Options):
    """Fields that say what to read from a table, shared by the ClickHouse and hybrid sources."""

    table_name: str = Field(min_length=1, description="Table to read, as `table` or `database.table`.")
    filter: ProgramText | None = Field(
        default=None, description="Condition in ClickHouse SQL; rows that do not match are dropped."
    )
    start_at: StartAt | None = Field(
        default=None,
        description="First value of the first sorting key to read. A position that was stored with another value is "
        "ignored.",
    )
    columns: Columns | None = Field(default=None, description="Columns to read, comma-separated; all by default.")


class ClickHouseSourceOptions(TableRead, SourceOptions):
    """Reads all rows of a ClickHouse table in the order of its sorting key, then ends."""

    reserved_labels: ClassVar[frozenset[str]] = frozenset({"table"})
    infers_primary_key: ClassVar[bool] = True


class ClickHouseSource(Source[ClickHouseSourceOptions]):
    """Reads a table page by page."""

    Options = ClickHouseSourceOptions
    own_thread: ClassVar[bool] = False
    bounded = True

    def __init__(self, context: NodeContext[ClickHouseSourceOptions]) -> None:
        super().__init__(context)
        config, options = context.config.part(ClickHouseConfig).clickhouse_source, context.options
        self._state_key = f"clickhouse_source:{context.name}:v1"
        self._reader = TableReader(
            TableQuery(
                ClickHouseServer.of(config, _SECTION, context.network),
                options.table_name,
                columns=options.columns,
                filter=options.filter,
                start_at=options.start_at,
            ),
            ReadLimits(config.page_size, config.sort_key_range, config.query_timeout_sec),
            context,
            self._state_key,
        )

    @classmethod
    def connections(
        cls, context: NodeContext[ClickHouseSourceOptions], spark: Callable[[], SparkSession]
    ) -> Sequence[ConnectionCheck]:
        config = context.config.part(ClickHouseConfig).clickhouse_source
        return (clickhouse_connection(ClickHouseServer.of(config, _SECTION, context.network)),)

    def labels(self) -> Mapping[str, str]:
        return {"table": self.options.table_name}

    def schema(self) -> pa.Schema:
        timeout = self.context.config.startup_timeout_sec
        call_with_startup_retries(self._reader.load, timeout=timeout, log=self.context.log)
        return self._reader.schema

    def inferred_primary_key(self) -> tuple[str, ...]:
        return self._reader.primary_key

    def restore(self) -> Position:
        return self._reader.restore()

    def state_keys(self) -> Sequence[str]:
        return (self._state_key,)

    def read(self, position: Position) -> SourceBatch | End:
        return self._reader.read(position)

    def progress(self) -> Progress | None:
        return self._reader.progress()

    def translate_error(self, error: Exception) -> StreamlingError | None:
        return self._reader.translate_error(error)

    def close(self) -> None:
        self._reader.close()
