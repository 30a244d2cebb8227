"""The tables of the bounded phases."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from streamling.connectors.clickhouse.config import ClickHouseConfig
from streamling.connectors.clickhouse.server import ClickHouseServer
from streamling.connectors.clickhouse.table_query import ReadLimits, TableQuery
from streamling.connectors.clickhouse.table_reader import TableReader
from streamling.connectors.hybrid.options import locate_error
from streamling.connectors.hybrid.phases import cursor_key
from streamling.errors import StreamlingError
from streamling.plugins.sources import End, Position, Progress, SourceBatch
from streamling.retry import call_with_startup_retries

if TYPE_CHECKING:
    from streamling.connectors.hybrid.options import HybridSourceOptions
    from streamling.plugins.context import NodeContext


class BoundedTables:
    """Reads one table after the other, each with the columns of the topic."""

    def __init__(self, context: NodeContext[HybridSourceOptions]) -> None:
        self._context = context
        self._phases = context.options.bounded_sources
        self._config = context.config.part(ClickHouseConfig).clickhouse_source
        self._server = ClickHouseServer.of(self._config, "clickhouse_source", context.network)
        #: state keys of the positions in the tables
        self.cursor_keys = tuple(cursor_key(context.name, phase) for phase in range(len(self._phases)))
        #: those of phases that are not complete
        self._readers: dict[int, TableReader] = {}
        self._current: int | None = None

    def title(self, phase: int) -> str:
        """Return what a message calls a bounded phase."""
        return f"the table '{self._phases[phase].table_name}' (bounded_sources[{phase}])"

    def load(self, columns: pa.Schema, first: int) -> None:
        """Check that the tables of the phases from ``first`` on have the columns of the topic."""
        for phase in range(first, len(self._phases)):
            reader = self._reader(phase, columns)
            self._readers[phase] = reader
            try:
                call_with_startup_retries(
                    reader.load, timeout=self._context.config.startup_timeout_sec, log=self._context.log
                )
            except StreamlingError as error:
                raise locate_error(error, f"bounded_sources[{phase}]", "table_name") from None

    def _reader(self, phase: int, columns: pa.Schema) -> TableReader:
        options, config = self._phases[phase], self._config
        query = TableQuery(
            self._server, options.table_name, target=columns, filter=options.filter, start_at=options.start_at
        )
        limits = ReadLimits(config.page_size, config.sort_key_range, config.query_timeout_sec)
        return TableReader(query, limits, self._context, self.cursor_keys[phase])

    # ── positions ───────────────────────────────────────────────────────────────────────────────────────────

    def phases_with_cursor(self) -> list[int]:
        """Return the phases of which a position is stored."""
        return [phase for phase, key in enumerate(self.cursor_keys) if self._context.state.get(key) is not None]

    def restore(self, phase: int) -> Position:
        """Return the stored position in the table of ``phase``."""
        if phase not in self._readers:  # all of them are complete
            return {}
        if phase:
            self._adopt_shared_cursor(self.cursor_keys[phase])
        return self._readers[phase].restore()

    def _adopt_shared_cursor(self, key: str) -> None:
        """Take the position of an implementation in which all phases share one key as that of the current phase: ours
        is removed when the first phase is complete."""
        state, shared = self._context.state, self.cursor_keys[0]
        value = state.get(shared)
        if value is not None and state.get(key) is None:
            state.put(key, value)
            state.remove(shared)

    # ── running ─────────────────────────────────────────────────────────────────────────────────────────────

    def read(self, phase: int, position: Position) -> SourceBatch | End:
        """Return the next batch of the table of ``phase``."""
        if self._current != phase:
            self._current = phase
            self._context.log.info("reading %s", self.title(phase))
        try:
            step = self._readers[phase].read(position)
        except StreamlingError as error:
            raise error.context(self.title(phase)) from None
        if isinstance(step, End):
            self._readers[phase].close()
        return step

    def progress(self) -> Progress | None:
        """Return the progress in the current table."""
        phase = self._current
        found = None if phase is None else self._readers[phase].progress()
        if found is None or phase is None or len(self._phases) == 1:
            return found
        return replace(found, part=f"{self._phases[phase].table_name} ({phase + 1} of {len(self._phases)})")

    def translate_error(self, error: Exception) -> StreamlingError | None:
        return None if self._current is None else self._readers[self._current].translate_error(error)

    def close(self) -> None:
        """End requests and threads."""
        for reader in self._readers.values():
            reader.close()
