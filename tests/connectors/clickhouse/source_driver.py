"""Drives a ClickHouse source like the engine: reads, stores positions, stops and restarts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from streamling.connectors.clickhouse.source import ClickHouseSource, ClickHouseSourceOptions
from streamling.pipeline.config import AppConfig
from streamling.plugins.context import NodeContext
from streamling.plugins.placeholders import NoopMetrics
from streamling.plugins.sources import End, SourceBatch
from streamling.types.wide.layout import contains_wide, layout_of
from tests.connectors.clickhouse.driver import Database
from tests.connectors.file.driver import StoredState

NAME = "orders"
STATE_KEY = f"clickhouse_source:{NAME}:v1"
Rows = list[dict[str, Any]]


class Run:
    """A source from ``open`` until it is closed."""

    def __init__(self, source: ClickHouseSource) -> None:
        self.source = source
        source.schema()
        source.open()
        self.position = source.restore()

    def step(self) -> pa.Table | None:
        """The next rows; None at the end."""
        while True:
            batch = self.source.read(self.position)
            if isinstance(batch, End):
                return None
            assert isinstance(batch, SourceBatch)
            assert isinstance(batch.rows, pa.Table)
            self.position = batch.position
            if batch.rows.num_rows:
                return batch.rows

    def tables(self) -> Iterator[pa.Table]:
        while (table := self.step()) is not None:
            yield table

    def rows(self) -> Rows:
        return [row for table in self.tables() for row in table.to_pylist()]


class SourceDriver:
    """Reads tables of a database; positions are kept from one source to the next."""

    def __init__(self, database: Database, state: StoredState | None = None) -> None:
        self.database = database
        self.state = state or StoredState()

    def source(
        self, table: str = "t", *, config: dict[str, Any] | None = None, context: Any = None, **options: Any
    ) -> ClickHouseSource:
        fields = {"type": "clickhouse", "table_name": table, **options}
        settings = {**self.database.settings, **(config or {})}
        application = {"clickhouse_source": {k: v for k, v in settings.items() if k not in AppConfig.model_fields}}
        application |= {k: v for k, v in settings.items() if k in AppConfig.model_fields}
        return ClickHouseSource(
            NodeContext(
                **{
                    "name": NAME,
                    "options": ClickHouseSourceOptions.model_validate(fields),
                    "config": AppConfig(**application),
                    "state": self.state,
                    "metrics": NoopMetrics(),
                    **(context or {}),
                }
            )
        )

    @contextmanager
    def running(self, table: str = "t", **fields: Any) -> Iterator[Run]:
        source = self.source(table, **fields)
        try:
            yield Run(source)
        finally:
            source.close()

    def read(self, table: str = "t", **fields: Any) -> Rows:
        """Everything that is there; the position is stored."""
        with self.running(table, **fields) as run:
            rows = run.rows()
            self.state.store(run.position)
        return rows

    def pages(self, table: str = "t", **fields: Any) -> list[int]:
        """The number of rows of each batch."""
        with self.running(table, **fields) as run:
            return [page.num_rows for page in run.tables()]


def as_python(value: Any, type_: pa.DataType) -> Any:
    """A value with its wide numbers as Python holds them."""
    layout = layout_of(type_)
    if value is None or not contains_wide(type_) or pa.types.is_decimal(type_):
        return value
    if layout is not None:
        return layout.decode(value)
    if pa.types.is_map(type_):
        return [(key, as_python(item, type_.item_type)) for key, item in value]
    if pa.types.is_struct(type_):
        return {field.name: as_python(value[field.name], field.type) for field in type_}
    return [as_python(item, type_.value_type) for item in value]
