"""Reads pages on a cluster: each executor asks the server for some of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from streamling.connectors.clickhouse.page_reader import PageReader, TableAccess
from streamling.connectors.clickhouse.page_size import PageSize
from streamling.connectors.clickhouse.pages import Page, PagePlan, QueryTooLarge
from streamling.retry import NeverStopping, call_with_retries
from streamling.spark.arrow_map import map_in_arrow
from streamling.spark.python_errors import to_executor_error
from streamling.types.spark import to_physical, to_spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")

log = logging.getLogger(__name__)

_BATCH_ROWS = 10_000


@dataclass(frozen=True)
class ExecutorPageReader:
    """How executors read the pages of a table."""

    access: TableAccess
    page_size: int
    node: str

    def frame(self, spark: SparkSession, pages: Sequence[Page]) -> DataFrame:
        """Return the rows of ``pages`` in order: one task and one partition per page."""
        numbers = spark.range(0, len(pages), 1, len(pages))
        return map_in_arrow(numbers, self._read_function(pages), to_spark_schema(self.access.schema))

    def _read_function(self, pages: Sequence[Page]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in numbers:
                for number in batch.column(0).to_pylist():
                    yield from self._rows(pages[number])

        return read

    # ── on the executor ─────────────────────────────────────────────────────────────────────────────────────

    def _rows(self, page: Page) -> Iterator[pa.RecordBatch]:
        size = PageSize(self.page_size)
        reader = PageReader(self.access, size, _retry)
        try:
            for table in self._tables(reader, size, page):
                yield from to_physical(table).combine_chunks().to_batches(_BATCH_ROWS)
        except Exception as error:
            raise to_executor_error(error, self.node) from None
        finally:
            reader.close()

    def _tables(self, reader: PageReader, size: PageSize, page: Page) -> Iterator[pa.Table]:
        """Yield the rows of a page. A page is complete before any of its rows are passed on: a request that fails is
        repeated."""
        try:
            table = reader.fetch(page)
        except QueryTooLarge:
            size.shrink(page.rows)
        else:
            yield table
            return
        plan = PagePlan(self.access.statements.table.key, reader, size.rows, 1)
        for part in plan.parts(page):
            yield from self._tables(reader, size, part)


def _retry(work: Callable[[], T]) -> T:
    return call_with_retries(work, stopping=NeverStopping(), log=log)
