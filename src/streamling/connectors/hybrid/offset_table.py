"""Reads the table that records how much of a topic has been loaded into ClickHouse."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from streamling.connectors.clickhouse.client import ClickHouseClient
from streamling.connectors.clickhouse.server import ClickHouseServer, TableName, identifier
from streamling.connectors.hybrid.options import HybridSourceOptions, OffsetTable
from streamling.errors import StreamlingError

_TIMEOUT_SECONDS: Final = 60.0


class LoadedOffsets:
    """The offset table of a hybrid source."""

    def __init__(self, options: HybridSourceOptions, server: ClickHouseServer, application_id: str) -> None:
        self._options = options.offset_table or OffsetTable(topic_name=options.unbounded_source.topic)
        #: without the block in the pipeline file, the default table is used if it exists
        self._is_required = options.offset_table is not None
        self._server = server
        self._application_id = application_id
        self.table = TableName.parse(self._options.table_name, server)
        self.topic = self._options.topic_name

    def check(self) -> None:
        """Raise if the pipeline file names a table that does not exist or lacks a column."""
        if self._is_required:
            self.read()

    def read(self) -> dict[int, int] | None:
        """Return the offset at which each partition of the topic continues what has been loaded; empty if the table
        has none of the topic, None if there is no table. A table that the pipeline file names must exist."""
        with self._client() as client:
            return self._offsets(client) if self._has_columns(client) else None

    @contextmanager
    def _client(self) -> Iterator[ClickHouseClient]:
        with ClickHouseClient(self._server, application_id=self._application_id, timeout=_TIMEOUT_SECONDS) as client:
            yield client

    def _has_columns(self, client: ClickHouseClient) -> bool:
        rows = client.rows(
            "SELECT name FROM system.columns WHERE database = {database:String} AND table = {table:String}",
            {"database": self.table.database, "table": self.table.name},
        )
        found, options = {row["name"] for row in rows}, self._options
        wanted = {
            "topic_column": options.topic_column,
            "partition_column": options.partition_column,
            "offset_column": options.offset_column,
        }
        missing = {field: name for field, name in wanted.items() if name not in found}
        if missing and self._is_required:
            raise self._missing_error(bool(found), missing)
        return not missing

    def _missing_error(self, exists: bool, missing: dict[str, str]) -> StreamlingError:
        if not exists:
            return StreamlingError.user(
                f"the offset table {self.table} does not exist at {self._server}",
                remedy="create it, or correct offset_table.table_name",
            ).about("offset_table.table_name")
        names, fields = (", ".join(f"'{name}'" for name in missing.values()), ", ".join(missing))
        return StreamlingError.user(
            f"the offset table {self.table} has no column {names}", remedy=f"correct {fields} of offset_table"
        ).about("offset_table")

    def _offsets(self, client: ClickHouseClient) -> dict[int, int]:
        options = self._options
        partition, offset = identifier(options.partition_column), identifier(options.offset_column)
        # a table that is appended to has several rows per partition: the last one counts
        rows = client.rows(
            f"SELECT toInt64({partition}) AS p, max(toInt64({offset})) AS o FROM {self.table.sql} "
            f"WHERE toString({identifier(options.topic_column)}) = {{topic:String}} GROUP BY p ORDER BY p",
            {"topic": self.topic},
        )
        offsets = {int(row["p"]): int(row["o"]) for row in rows if row["p"] is not None and row["o"] is not None}
        for number, value in offsets.items():
            if number < 0 or value < 0:
                raise StreamlingError.user(
                    f"the offset table {self.table} has the offset {value} for partition {number} of the topic "
                    f"'{self.topic}', expected numbers of at least 0",
                    remedy="correct the row",
                )
        return offsets
