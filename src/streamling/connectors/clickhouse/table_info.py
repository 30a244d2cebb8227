"""What a server knows about a table: its engine, its sorting key and its columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from streamling.connectors.clickhouse.client import ClickHouseClient
from streamling.connectors.clickhouse.errors import ServerError
from streamling.connectors.clickhouse.key_types import KeyType
from streamling.connectors.clickhouse.server import TableName
from streamling.connectors.clickhouse.sort_key import KeyColumn, SortKey
from streamling.connectors.clickhouse.type_text import ClickHouseType, InvalidTypeError, parse_type
from streamling.errors import StreamlingError
from streamling.pipeline.document.suggest import did_you_mean, listing

#: engines that combine rows with the same sorting key, some time after they were inserted
_MERGING: Final = re.compile(r"(Replacing|Collapsing|VersionedCollapsing|Summing|Aggregating|Coalescing|Graphite)")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|`(?:[^`\\]|\\.)*`")
#: parts of an argument list: quoted text, brackets, commas, and everything else
_PARTS: Final = re.compile(r"""'(?:[^'\\]|\\.|'')*'|`(?:[^`\\]|\\.)*`|"(?:[^"\\]|\\.)*"|[()\[\],]|[^'`"()\[\],]+""")


@dataclass(frozen=True)
class TableInfo:
    """A table of the MergeTree family."""

    name: TableName
    engine: str
    key: SortKey
    #: columns by name, in the order of the table
    columns: Mapping[str, ClickHouseType]
    #: the columns that ``*`` stands for: without those that are computed
    own_columns: tuple[str, ...]
    #: columns that the sorting key consists of or is computed from
    key_columns: tuple[str, ...]
    #: average size of a row in bytes; None if it is not known
    row_bytes: float | None

    @property
    def merges_rows(self) -> bool:
        """Whether the engine combines rows with the same key, which a query has to ask for with FINAL."""
        return _MERGING.search(self.engine) is not None

    @property
    def plain_key_columns(self) -> set[str]:
        """The columns that are parts of the sorting key themselves, not inside an expression."""
        return {_unquoted(part) for part in self.key.expressions if _IDENTIFIER.fullmatch(part)}

    def column(self, name: str, option: str) -> ClickHouseType:
        """Return the type of a column that the node's ``option`` names."""
        if name not in self.columns:
            raise StreamlingError.user(
                f"the table {self.name} has no column '{name}'",
                remedy=did_you_mean(name, self.columns, f"it has: {listing(self.columns)}"),
            ).about(option)
        return self.columns[name]


def load_table(client: ClickHouseClient, name: TableName) -> TableInfo:
    """Ask the server about a table. Raises an error that names it if it does not exist or cannot be read in order."""
    parameters = {"database": name.database, "table": name.name}
    condition = "database = {database:String} AND"
    tables = client.rows(
        f"SELECT engine, sorting_key FROM system.tables WHERE {condition} name = {{table:String}}",
        parameters,
    )
    if not tables:
        raise StreamlingError.user(
            f"the table {name} does not exist, or the user '{client.server.user}' has no access to it",
            remedy=f"create it, or correct table_name or {client.server.section}.database",
        ).about("table_name")
    rows = client.rows(
        "SELECT name, type, default_kind, is_in_sorting_key FROM system.columns"
        f" WHERE {condition} table = {{table:String}} ORDER BY position",
        parameters,
    )
    engine, sorting_key = tables[0]["engine"], tables[0]["sorting_key"]
    stored = [row for row in rows if row["default_kind"] != "EPHEMERAL"]
    return TableInfo(
        name=name,
        engine=engine,
        key=_sort_key(client, name, engine, split_list(sorting_key)),
        columns={row["name"]: _type(row["type"]) for row in stored},
        own_columns=tuple(row["name"] for row in stored if row["default_kind"] not in ("ALIAS", "MATERIALIZED")),
        key_columns=tuple(row["name"] for row in stored if row["is_in_sorting_key"]),
        row_bytes=_row_bytes(client, parameters),
    )


def _row_bytes(client: ClickHouseClient, parameters: Mapping[str, str]) -> float | None:
    try:
        (found,) = client.rows(
            "SELECT sum(data_uncompressed_bytes) / sum(rows) AS size FROM system.parts"
            " WHERE active AND database = {database:String} AND table = {table:String}",
            parameters,
        )
    except ServerError as error:
        if error.retriable:
            raise
        return None  # the user may not see the parts
    return found["size"] or None


def split_list(text: str) -> list[str]:
    """Split ``a, f(b, c)`` at the commas that are in no brackets."""
    items, depth = [""], 0
    for match in _PARTS.finditer(text):
        part = match[0]
        depth += part in ("(", "[")
        depth -= part in (")", "]")
        if part == "," and depth == 0:
            items.append("")
        else:
            items[-1] += part
    return [item.strip() for item in items if item.strip()]


def _type(text: str) -> ClickHouseType:
    try:
        return parse_type(text)
    except InvalidTypeError:
        return ClickHouseType(text)  # a type of a newer server, which is rejected when the column is read


def _sort_key(client: ClickHouseClient, name: TableName, engine: str, expressions: Sequence[str]) -> SortKey:
    if not expressions:
        raise StreamlingError.user(
            f"the table {name} (engine {engine}) has no sorting key, so it has no order to read it in",
            remedy="read a table of the MergeTree family that was created with ORDER BY",
        ).about("table_name")
    columns: list[KeyColumn] = []
    for expression, type_ in zip(expressions, _types_of(client, name, expressions), strict=True):
        key_type = KeyType.of(type_)
        if key_type is None:
            break
        columns.append(KeyColumn(expression if _IDENTIFIER.fullmatch(expression) else f"({expression})", key_type))
    if not columns:
        raise StreamlingError.user(
            f"the first sorting key of the table {name}, {expressions[0]}, has type {type_}, which "
            "cannot be split into ranges",
            remedy="sort the table by a number, text, date, UUID, IP address or Enum first",
        ).about("table_name")
    return SortKey(tuple(expressions), tuple(columns))


def _types_of(client: ClickHouseClient, name: TableName, expressions: Sequence[str]) -> list[ClickHouseType]:
    rows = client.rows(f"DESCRIBE (SELECT {', '.join(f'({each})' for each in expressions)} FROM {name.sql})")
    return [_type(row["type"]) for row in rows]


def _unquoted(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name[1:-1]) if name.startswith("`") else name
