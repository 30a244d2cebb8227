"""The queries with which a table is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from streamling.connectors.clickhouse.filter import QueryFilter
from streamling.connectors.clickhouse.pages import BUCKETS, ENDS, Page
from streamling.connectors.clickhouse.sort_key import Cut, From, between
from streamling.connectors.clickhouse.table_info import TableInfo

#: A LIMIT that never applies. The server does not move a condition from behind it to the front.
_NO_LIMIT: Final = 2**63 - 1


@dataclass(frozen=True)
class SelectedColumn:
    """A column of the rows and the expression that the server computes for it."""

    field: pa.Field
    sql: str


@dataclass(frozen=True)
class ReadStatements:
    """Queries for one table. Values are found by their place: in ClickHouse, the names of results are visible in all
    parts of a query, so they must not be those of columns."""

    table: TableInfo
    columns: tuple[SelectedColumn, ...]
    filter: QueryFilter | None

    # ── rows ────────────────────────────────────────────────────────────────────────────────────────────────

    def rows(self, page: Page) -> str:
        """Return the rows of a page as FINAL shows them, ordered by the sorting key. A page has all rows of its keys,
        so FINAL decides between the same rows as it would in the whole table."""
        conditions = [between(page.start, page.end, self.table.key)]
        if self._filters_afterwards:
            return self._filtered_rows(conditions)
        if self.filter is not None:
            conditions.append(self.filter.sql)
        return self._select([column.sql for column in self.columns], conditions)

    @property
    def _filters_afterwards(self) -> bool:
        """Whether the filter must not see rows before they are merged: it would drop the last row of a key and keep an
        older one. Some versions of ClickHouse skip parts of a table before they merge."""
        if self.filter is None or not self.table.merges_rows:
            return False
        return not self.filter.uses_only(self.table.plain_key_columns)

    def _filtered_rows(self, conditions: Sequence[str]) -> str:
        assert self.filter is not None
        columns = [*(column.sql for column in self.columns), self.filter.sql]
        merged = f"{self._select(columns, conditions)} LIMIT {_NO_LIMIT}"
        *names, matches = _names(len(columns))
        return f"SELECT {', '.join(names)} FROM ({merged}) WHERE {matches}"

    def _select(self, columns: Sequence[str], conditions: Sequence[str]) -> str:
        order = ", ".join(f"({expression})" for expression in self.table.key.expressions)
        return (
            f"SELECT {_listed(columns)} FROM {self.table.name.sql}{' FINAL' if self.table.merges_rows else ''}"
            f" WHERE {' AND '.join(conditions)} ORDER BY {order}"
        )

    # ── keys ────────────────────────────────────────────────────────────────────────────────────────────────

    def count(self, start: Cut) -> str:
        """Return how many rows come after ``start``, stale ones included."""
        return self._keys("toString(count())", start, None)

    def first_key(self, start: Cut) -> str:
        first = self.table.key.first
        return f"{self._keys(first.read_sql(), start, None)} ORDER BY {first.sql} LIMIT 1"

    def buckets(self, start: int, width: int) -> str:
        """Return the rows of ranges of an integer key: number of the range, rows, largest key."""
        first, integers = self.table.key.first, self.table.key.integers
        assert integers is not None
        # unsigned arithmetic wraps around, so the distance between two keys is right whatever their signs are
        to = "toUInt64" if integers.stop - integers.start <= 2**64 else "toUInt256"
        distance = f"{to}({to}({first.sql}) - {to}({first.type.sql(start)}))"
        number = f"toString(intDiv({distance}, {to}('{width}')))"
        columns = f"{number}, toString(count()), toString(max({first.sql}))"
        return f"{self._keys(columns, From(start), From(start + width * BUCKETS))} GROUP BY {number}"

    def page_ends(self, start: Cut, end: Cut | None, rows: int) -> str:
        """Return the keys of every ``rows``-th row, as text."""
        columns = self.table.key.columns
        keys, names = [column.sql for column in columns], _names(len(columns))
        ordered = f"{self._keys(_listed(keys), start, end)} ORDER BY {', '.join(keys)} LIMIT {rows * ENDS}"
        numbered = f"SELECT {', '.join(names)}, rowNumberInAllBlocks() AS __row FROM ({ordered})"
        texts = [column.type.read_sql.format(name) for column, name in zip(columns, names, strict=True)]
        return (
            f"SELECT {', '.join(texts)} FROM ({numbered}) WHERE (__row + 1) % {rows} = 0"
            f" ORDER BY {', '.join(names)}"  # whatever the numbers are, the keys divide the table
        )

    def last_row(self, start: Cut, end: Cut | None) -> str:
        """Return the key of the last row, and the number of rows."""
        key = self.table.key
        texts = [column.read_sql() for column in key.columns]
        order = ", ".join(f"{column.sql} DESC NULLS FIRST" for column in key.columns)
        counted = f"toString(({self._keys('count()', start, end)}))"
        return f"{self._keys(', '.join([*texts, counted]), start, end)} ORDER BY {order} LIMIT 1"

    def _keys(self, columns: str, start: Cut, end: Cut | None) -> str:
        return f"SELECT {columns} FROM {self.table.name.sql} WHERE {between(start, end, self.table.key)}"


def _names(count: int) -> list[str]:
    return [f"__streamling_{number}" for number in range(count)]


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(f"{sql} AS {name}" for sql, name in zip(columns, _names(len(columns)), strict=True))
