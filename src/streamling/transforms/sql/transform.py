"""The sql transform: one stateless SELECT over other nodes, compiled to a Spark plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from pydantic import Field

from streamling.errors import StreamlingError
from streamling.pipeline.document.scalars import PrimaryKey, ProgramText
from streamling.pipeline.options import ParallelOptions, SqlOptions, TransformOptions
from streamling.plugins.transforms import FrameTransform
from streamling.sql.errors import translate_sql_error
from streamling.sql.frames import SparkStatement
from streamling.sql.library import plugin_functions
from streamling.sql.plan import Column
from streamling.sql.problems import InvalidSql, SqlProblem
from streamling.sql.statement import Lookup, Statement
from streamling.types.names import field_of_unknown_type, is_known
from streamling.types.spark import sql_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SqlTransformOptions(ParallelOptions, SqlOptions, TransformOptions):
    """Runs one stateless SELECT over other nodes in Spark."""

    primary_key: PrimaryKey = Field(description="Key columns of the output, comma-separated.")
    sql: ProgramText = Field(description="One SELECT over sources and transforms of this pipeline.")

    @cached_property
    def statement(self) -> Statement:
        return Statement(self.sql)

    def lookups(self) -> Sequence[Lookup]:
        return self.statement.lookups


class SqlTransform(FrameTransform[SqlTransformOptions]):
    """Runs a statement; look-ups in dynamic tables are resolved while it is applied."""

    Options: ClassVar[type[SqlTransformOptions]] = SqlTransformOptions

    @cached_property
    def _statement(self) -> SparkStatement:
        return SparkStatement(self.context.name, self.options.statement, functions=self.context.functions)

    @cached_property
    def _lookup_tables(self) -> frozenset[str]:
        """The names of the dynamic tables that it queries, as written."""
        return frozenset(lookup.table for lookup in self.options.lookups())

    @property
    def per_batch(self) -> bool:
        return bool(self._lookup_tables)

    @property
    def is_deterministic(self) -> bool:
        return self.options.statement.is_repeatable

    def apply(self, spark: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
        from streamling.transforms.sql.lookup_results import with_empty_lookups

        try:
            return self._statement.apply(spark, inputs, with_empty_lookups)
        except Exception as error:
            raise translate_sql_error(error, self.context.name, self.options.statement) from error

    def apply_batch(
        self,
        spark: SparkSession,
        inputs: Mapping[str, DataFrame],
        numbered: Callable[[], Mapping[str, DataFrame]],
    ) -> DataFrame:
        if not self.per_batch:
            return self.apply(spark, inputs)
        from streamling.transforms.sql.lookup_results import LookupResults

        results = LookupResults.of(spark, self._lookup_tables, self.context.tables)
        return self._statement.apply(spark, inputs if results.is_known_to_spark else numbered(), results)

    def translate_error(self, error: Exception) -> StreamlingError | None:
        return self._statement.translate_error(error)

    def static_check(self, inputs: Mapping[str, pa.Schema | None]) -> tuple[list[SqlProblem], pa.Schema | None]:
        """Return all problems that can be found without Spark, and the output columns as far as they are known.
        ``inputs`` are the columns of the upstreams by declared name; None if not known."""
        functions = plugin_functions.declared(self.context.functions)
        try:
            compiled = self.options.statement.compile(known_columns(inputs), functions=functions)
        except InvalidSql as error:
            return list(error.problems), None
        if compiled.problems or compiled.columns is None:
            return list(compiled.problems), None
        return [], pa.schema(
            field_of_unknown_type(column.name) if column.type is None else pa.field(column.name, column.type)
            for column in compiled.columns
        )


def known_columns(inputs: Mapping[str, pa.Schema | None]) -> dict[str, list[Column] | None]:
    """Return the columns of checked schemas for the compiler. A type is None if only Spark knows it."""
    return {name: None if schema is None else list(map(_column, schema)) for name, schema in inputs.items()}


def _column(field: pa.Field) -> Column:
    return Column(field.name, sql_type(field) if is_known(field) else None)
