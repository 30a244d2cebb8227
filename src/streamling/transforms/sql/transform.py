"""The sql transform: one stateless SELECT over other nodes, compiled to a Spark plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from pydantic import Field

from streamling.errors import StreamlingError
from streamling.pipeline.document.scalars import PrimaryKey, ProgramText
from streamling.pipeline.options import ParallelOptions, TransformOptions
from streamling.plugins.transforms import FrameTransform
from streamling.sql.compiler import compile_sql
from streamling.sql.dialect import parse
from streamling.sql.library import plugin_functions as own
from streamling.sql.lookups import Lookup, is_repeatable, lookups
from streamling.sql.plan import Column
from streamling.sql.problems import InvalidSql, SqlProblem
from streamling.sql.references import mention_of, node_names
from streamling.transforms.sql.statement import Statement
from streamling.types.spark import sql_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamling.plugins.context import NodeContext
    from streamling.sql.user_functions import SqlFunction


class SqlTransformOptions(ParallelOptions, TransformOptions):
    """Runs one stateless SELECT over other nodes in Spark."""

    primary_key: PrimaryKey = Field(description="Key columns of the output, comma-separated.")
    sql: ProgramText = Field(description="One SELECT over sources and transforms of this pipeline.")

    def upstreams(self) -> Sequence[str]:
        """Return the node names in FROM, as written. Raises `InvalidSql` if the text cannot be parsed: the parser of
        the pipeline file reports it with its location."""
        return node_names(parse(self.sql))

    def mention_of(self, upstream: str) -> tuple[str, int]:
        return "sql", mention_of(upstream, self.sql)

    def lookups(self) -> Sequence[Lookup]:
        return lookups(self.sql)


class SqlTransform(FrameTransform[SqlTransformOptions]):
    """Runs a `Statement`; look-ups in dynamic tables are resolved while it is applied."""

    Options: ClassVar[type[SqlTransformOptions]] = SqlTransformOptions

    def __init__(self, context: NodeContext[SqlTransformOptions]) -> None:
        super().__init__(context)
        self._statement = Statement(context.name, self.options.sql, functions=context.functions)

    @cached_property
    def _lookup_tables(self) -> frozenset[str]:
        """The names of the dynamic tables that it queries, as written."""
        return frozenset(lookup.table for lookup in self.options.lookups())

    @property
    def per_batch(self) -> bool:
        return bool(self._lookup_tables)

    @cached_property
    def is_deterministic(self) -> bool:
        return is_repeatable(self.options.sql)

    def apply(self, spark: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
        from streamling.sql.errors import translate_sql_error
        from streamling.transforms.sql.lookup_results import with_empty_lookups

        try:
            return self._statement.apply(spark, inputs, with_empty_lookups)
        except Exception as error:
            raise translate_sql_error(error, self.context.name, self.options.sql) from error

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
        return check_sql(self.options.sql, inputs, self.context.functions)


def check_sql(
    sql: str, inputs: Mapping[str, pa.Schema | None], functions: Mapping[str, type[SqlFunction]] | None = None
) -> tuple[list[SqlProblem], pa.Schema | None]:
    """Return all problems of ``sql`` that can be found without Spark, and its output columns (None: not known)."""
    columns = {
        name: None if schema is None else [Column(field.name, known_type(field)) for field in schema]
        for name, schema in inputs.items()
    }
    try:
        compiled = compile_sql(sql, columns, functions=own.declared(functions or {}))
    except InvalidSql as error:
        return list(error.problems), None
    if compiled.problems or compiled.columns is None:
        return list(compiled.problems), None
    return [], pa.schema([_field(column) for column in compiled.columns])


def is_known(field: pa.Field) -> bool:
    """Return False for a column of a checked schema whose type only Spark knows; its type is null until then."""
    return (field.metadata or {}).get(_TYPE) != _UNKNOWN


def known_type(field: pa.Field) -> pa.DataType | None:
    """Return the type of a column of a checked schema, or None if only Spark knows it."""
    return sql_type(field) if is_known(field) else None


_TYPE, _UNKNOWN = b"streamling.type", b"unknown"


def _field(column: Column) -> pa.Field:
    if column.type is None:
        return pa.field(column.name, pa.null(), metadata={_TYPE: _UNKNOWN})
    return pa.field(column.name, column.type)
