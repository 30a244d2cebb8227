"""The table of a sink node: what its options say about it, and whether an existing one fits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from streamling.connectors.clickhouse.column_overrides import parse_override
from streamling.connectors.clickhouse.column_types import clickhouse_type
from streamling.connectors.clickhouse.encode.columns import column_encoder
from streamling.connectors.clickhouse.encode.times import WIDE_CALENDAR
from streamling.connectors.clickhouse.table import (
    DELETED_COLUMN,
    INSERT_TIME_COLUMN,
    NewColumn,
    Table,
    create_statement,
    create_table,
    find_table,
)
from streamling.errors import StreamlingError
from streamling.pipeline.document.suggest import listing
from streamling.types.spark import logical_type

if TYPE_CHECKING:
    from streamling.connectors.clickhouse.client import ClickHouseClient
    from streamling.connectors.clickhouse.server import TableName
    from streamling.connectors.clickhouse.sink import ClickHouseSinkOptions
    from streamling.connectors.clickhouse.type_text import ClickHouseType
    from streamling.plugins.context import NodeContext

#: types of a version column
_VERSIONS: Final = ("Int", "UInt", "Date", "Float")


class TableTarget:
    """The table that a node names."""

    def __init__(self, name: TableName, context: NodeContext[ClickHouseSinkOptions]) -> None:
        self._name = name
        self._context = context
        self._key = context.primary_key
        self._append_only = context.options.append_only_mode
        self._version = context.options.version_column_name if self._append_only else None
        self._overrides = {column: parse_override(text) for column, text in context.options.schema_override.items()}

    # ── before anything is written ──────────────────────────────────────────────────────────────────────────

    def check(self, fields: Sequence[pa.Field]) -> None:
        """Raise an error if the options do not fit the columns of the input."""
        by_name = {field.name: field for field in fields}
        used = {
            **dict.fromkeys(self._overrides, "schema_override"),
            **({} if self._version is None else {self._version: "version_column_name"}),
            **dict.fromkeys(self._key, "primary_key"),
        }
        for column, option in used.items():
            if column not in by_name:
                raise StreamlingError.user(
                    f"`{option}` names the column '{column}', which is not one of ({', '.join(by_name)})"
                ).about(option)
        for column, override in self._overrides.items():
            self._check_override(by_name[column], override.type)
        if self._version is not None:
            self._check_version(by_name[self._version])
        if self._append_only and self._version is None and INSERT_TIME_COLUMN in by_name:
            raise StreamlingError.user(
                f"the input has a column '{INSERT_TIME_COLUMN}', and the sink adds a column with this name",
                remedy=f"rename it in a sql transform, or set `version_column_name: {INSERT_TIME_COLUMN}`",
            )

    def _check_override(self, field: pa.Field, type_: ClickHouseType) -> None:
        if column_encoder(logical_type(field), type_, WIDE_CALENDAR) is None:
            raise StreamlingError.user(
                f"`schema_override` has the type {type_} for the column '{field.name}', which cannot hold values of "
                f"type {logical_type(field)}",
                remedy="choose another type, or cast the values in a sql transform",
            ).about("schema_override")

    def _check_version(self, field: pa.Field) -> None:
        type_ = self._new_column(field).type
        if not type_.name.startswith(_VERSIONS):
            raise StreamlingError.user(
                f"`version_column_name` names the column '{field.name}' of type {type_}, which ClickHouse cannot use "
                "as a version",
                remedy="use a column with an integer, a date or a time",
            ).about("version_column_name")

    # ── the table ───────────────────────────────────────────────────────────────────────────────────────────

    def find_or_create(self, client: ClickHouseClient, fields: Sequence[pa.Field]) -> Table:
        """Return what the server knows about the table, which is created if it does not exist."""
        table = find_table(client, self._name)
        if table is None:
            create_table(client, self._name, self._create_statement(fields))
            table = find_table(client, self._name)
        if table is None:
            raise StreamlingError.user(
                f"the table {self._name} exists, but the user '{client.server.user}' cannot see its columns",
                remedy=f"GRANT SHOW COLUMNS, INSERT ON {self._name} to the user",
            )
        return table

    def _create_statement(self, fields: Sequence[pa.Field]) -> str:
        columns = [self._new_column(field) for field in self._own(fields)]
        return create_statement(self._name, columns, self._key, append_only=self._append_only, version=self._version)

    def _new_column(self, field: pa.Field) -> NewColumn:
        override = self._overrides.get(field.name)
        if override is not None:
            return NewColumn(field.name, override.type, override.codec)
        is_key = field.name in self._key or field.name == self._version
        return NewColumn(field.name, clickhouse_type(field, is_key=is_key))

    def written_fields(self, table: Table, fields: Sequence[pa.Field]) -> list[pa.Field]:
        """Return the fields that the table takes. Others are logged; a column that lacks its values is an error."""
        own = self._own(fields)
        self._report(f"table {table.name} has no column for", [f.name for f in own if f.name not in table.columns])
        known = [field for field in own if field.name in table.columns]
        computed = [field.name for field in known if table.columns[field.name].is_computed]
        self._report(f"table {table.name} computes its own values for", computed)
        written = [field for field in known if field.name not in computed]
        self._check_complete(table, {field.name for field in written})
        self._report_overrides(table)
        return written

    def _own(self, fields: Sequence[pa.Field]) -> list[pa.Field]:
        """Return the fields without the one that the operation determines."""
        if not self._append_only:
            return list(fields)
        self._report("the operation determines", [f.name for f in fields if f.name == DELETED_COLUMN])
        return [field for field in fields if field.name != DELETED_COLUMN]

    def _check_complete(self, table: Table, written: set[str]) -> None:
        for name, option in [(self._version, "version_column_name"), *((name, "primary_key") for name in self._key)]:
            if name is not None and name not in written:
                raise StreamlingError.user(
                    f"table {table.name} has no column '{name}', which `{option}` names",
                    remedy=f"add the column, or correct `{option}`",
                )
        given = written | {DELETED_COLUMN} if self._append_only else written
        missing = [name for name, column in table.columns.items() if column.is_required and name not in given]
        if missing:
            raise StreamlingError.user(
                f"the input has no column for {listing(missing)} of table {table.name}, which are neither Nullable nor "
                "have a DEFAULT",
                remedy="add the columns in a sql transform, or give them a DEFAULT",
            )

    def _report(self, what: str, names: Sequence[str]) -> None:
        self._context.report_dropped_columns(f"columns are not written, because {what} them", names)

    def _report_overrides(self, table: Table) -> None:
        for name, override in self._overrides.items():
            column = table.columns.get(name)
            if column is not None and str(column.type) != str(override.type):
                self._context.log.warning(
                    "column '%s' of table %s has type %s; `schema_override` only applies when the sink creates the "
                    "table",
                    name,
                    table.name,
                    column.type,
                )
