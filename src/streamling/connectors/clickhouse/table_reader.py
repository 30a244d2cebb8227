"""Reads a table once, in the order of its sorting key, in batches with exact positions."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from streamling.connectors.clickhouse.executors import ExecutorPageReader
from streamling.connectors.clickhouse.key_types import InvalidKeyValue
from streamling.connectors.clickhouse.page_size import PageSize
from streamling.connectors.clickhouse.pages import Page, QueryTooLarge
from streamling.connectors.clickhouse.read_ahead import ReadAhead
from streamling.connectors.clickhouse.sort_key import Cut
from streamling.connectors.clickhouse.table_info import TableInfo
from streamling.connectors.clickhouse.table_query import CheckedQuery, ReadLimits, TableQuery, check_query
from streamling.errors import StreamlingError
from streamling.plugins.sources import END, End, Position, Progress, SourceBatch, SparkRead
from streamling.spark.master import is_local
from streamling.spark.python_errors import from_executor_error

if TYPE_CHECKING:
    from streamling.plugins.context import NodeContext

#: seconds after which `read` returns without rows
_PATIENCE: Final = 0.5
#: pages of one batch on a cluster: if the driver collects the rows, and if they stay on the executors
_COLLECTED_PAGES: Final = 4
_EXECUTOR_PAGES: Final = 16


class TableReader:
    """Reads the rows of a table in the order of its sorting key, for any source.

    **Order of calls.** `load` contacts the server and checks everything that can be checked before data flows; call it
    within `call_with_startup_retries`, on any thread. `schema` and `primary_key` are known afterwards. Then, on one
    thread: `restore`, `read` until it returns `END`, `close`. `close` may be called in any state, also twice.

    **Positions** have one entry, under ``state_key``: ``{"sorting_keys": […], "args": […]}``. Pass the last one to
    `read`; entries under other keys are ignored and not returned. A position without the entry means the start of the
    table, or `TableQuery.start_at`. The value is JSON and never None.

    **Batches.** `read` returns within about a second: an empty batch with the same position (the same object) if
    nothing has arrived yet. Rows are Arrow tables with the columns of `schema`, in which numbers wider than Spark's are
    arrays of `streamling.types.wide.layout`; on a cluster they are a `SparkRead`. Transient errors are retried with
    back-off until the pipeline stops.
    """

    def __init__(self, query: TableQuery, limits: ReadLimits, context: NodeContext[Any], state_key: str) -> None:
        """Of ``context``, everything but the options is used."""
        self._query = query
        self._limits = limits
        self._context = context
        self._state_key = state_key
        self._on_cluster = not is_local(context.config.spark.master)
        self._checked: CheckedQuery | None = None
        self._size = PageSize(limits.page_size)
        self._ahead: ReadAhead | None = None
        #: the stored value after which `_ahead` continues
        self._at: Mapping[str, Any] | None = None
        #: rows of the pages since `_ahead` was created
        self._read_rows = 0

    # ── before data flows ───────────────────────────────────────────────────────────────────────────────────

    def load(self) -> None:
        """Get the columns and the sorting key of the table and check the query. Does nothing the second time."""
        if self._checked is None:
            self._checked = check_query(self._query, self._limits, self._context.config.application_id)
            self._size = PageSize(self._limits.page_size, self._table.row_bytes)

    @property
    def schema(self) -> pa.Schema:
        """Columns of the rows, without ``_gs_op`` unless the table has it or `TableQuery.target` contains it."""
        return self._loaded.access.schema

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The columns of the sorting key; empty if not all of them are read."""
        key = self._table.key_columns
        return key if set(key) <= set(self.schema.names) else ()

    @property
    def _loaded(self) -> CheckedQuery:
        assert self._checked is not None, "load comes first"
        return self._checked

    @property
    def _table(self) -> TableInfo:
        return self._loaded.access.statements.table

    # ── positions ───────────────────────────────────────────────────────────────────────────────────────────

    def restore(self) -> Position:
        """Return the stored position, checked against the table; empty if there is none or it was stored with another
        `TableQuery.start_at`."""
        stored = self._context.state.get(self._state_key)
        if stored is None:
            return {}
        start_at = self._query.start_at
        if start_at is not None and not (isinstance(stored, dict) and stored.get("start_at") == start_at):
            self._context.log.info("the stored position is ignored: it was not stored with start_at %s", start_at)
            return {}
        self._cut(stored)
        return {self._state_key: stored}

    def _cut(self, stored: Mapping[str, Any] | None) -> Cut:
        if stored is None:
            return self._loaded.start
        try:
            return self._table.key.cut(stored)
        except (InvalidKeyValue, AttributeError) as error:
            keys = ", ".join(self._table.key.expressions)
            raise StreamlingError.user(
                f"the stored position does not fit the sorting key ({keys}) of the table {self._table.name}: {error}",
                remedy="remove it to read the table from the start: streamling state reset",
            ) from None

    def _position(self, cut: Cut) -> Position:
        start_at = self._query.start_at
        value = {**self._table.key.position(cut), **({} if start_at is None else {"start_at": start_at})}
        self._at = value
        return {self._state_key: value}

    # ── batches ─────────────────────────────────────────────────────────────────────────────────────────────

    def read(self, position: Position) -> SourceBatch | End:
        """Return the next batch after ``position``, or `END`."""
        at = position.get(self._state_key)
        if self._ahead is None or at != self._at:
            self._ahead = self._start_after(at)
        try:
            batch = self._next_frame(self._ahead) if self._on_cluster else self._next_page(self._ahead)
        except QueryTooLarge as error:
            self._size.shrink(error.rows or self._size.rows())
            self._context.log.info("%s; reading %d rows at a time", error, self._size.rows())
            self._ahead, batch = self._start_after(at), None
        if batch is not None:
            return batch
        return END if self._ahead.has_ended else SourceBatch(self.schema.empty_table(), position)

    def _start_after(self, at: Mapping[str, Any] | None) -> ReadAhead:
        self.close()
        self._at, self._read_rows = at, 0
        return ReadAhead(
            self._loaded.access,
            self._size,
            self._limits.sort_key_range,
            self._context,
            self._cut(at),
            plans_only=self._on_cluster,
        )

    def _next_page(self, ahead: ReadAhead) -> SourceBatch | None:
        fetched = ahead.next(_PATIENCE)
        if fetched is None:
            return None
        self._read_rows += fetched.page.rows
        self._size.grow(fetched.page.rows, fetched.result.nbytes)
        return SourceBatch(fetched.result, self._position(fetched.page.end))

    def _next_frame(self, ahead: ReadAhead) -> SourceBatch | None:
        """Return the pages that the executors read, each with one task; as many as are planned by now."""
        most = _COLLECTED_PAGES if self._context.collected else _EXECUTOR_PAGES
        end = time.monotonic() + _PATIENCE
        pages: list[Page] = []
        while len(pages) < most and (fetched := ahead.next(max(0.0, end - time.monotonic()))) is not None:
            pages.append(fetched.page)
        if not pages:
            return None
        self._read_rows += sum(page.rows for page in pages)
        reader = ExecutorPageReader(self._loaded.access, self._limits.page_size, self._context.name)
        return SourceBatch(SparkRead(lambda spark: reader.frame(spark, pages)), self._position(pages[-1].end))

    def progress(self) -> Progress | None:
        """Return the rows that have been read, of those in the table; None before the first `read`. From any thread."""
        ahead = self._ahead
        if ahead is None or ahead.total_rows is None:
            return None
        done = ahead.skipped_rows + self._read_rows
        return Progress(done, max(done, ahead.total_rows))

    def translate_error(self, error: Exception) -> StreamlingError | None:
        """Return an error that an executor raised while it read; None for any other error."""
        return from_executor_error(error, self._context.name)

    def close(self) -> None:
        """End requests and threads."""
        if self._ahead is not None:
            self._ahead.close()
