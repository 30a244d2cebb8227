"""Compiles a SQL text to a function of Spark DataFrames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from streamling.errors import StreamlingError
from streamling.sql.compiler import compile_sql
from streamling.sql.library import plugin_functions as own
from streamling.sql.plan import Column, sql_expressions
from streamling.sql.problems import InvalidSql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamling.sql.frames import Prepared, RunLookups
    from streamling.sql.user_functions import SqlFunction


class Statement:
    """Compiles once for each set of input schemas; a batch then costs a few calls into the JVM."""

    def __init__(
        self,
        node: str,
        sql: str,
        *,
        keep_row: bool = False,
        functions: Mapping[str, type[SqlFunction]] | None = None,
    ) -> None:
        self._node = node
        self._sql = sql
        self._keep_row = keep_row
        self._functions = functions or {}
        self._prepared: dict[tuple[tuple[str, str], ...], Prepared] = {}

    def apply(
        self, spark: SparkSession, inputs: Mapping[str, DataFrame], run_lookups: RunLookups | None = None
    ) -> DataFrame:
        return self._prepare(spark, inputs).run(inputs, run_lookups)

    def translate_error(self, error: Exception) -> StreamlingError | None:
        """Translate the error if it is about an expression of this statement."""
        from streamling.sql.errors import excerpts, find_location, is_sql_error, translate_sql_error
        from streamling.sql.wide.calls import text_literal

        if failure := own.translate_error(error, self._functions):
            return failure
        ours = {text for prepared in self._prepared.values() for text in sql_expressions(prepared.plan)}
        about = excerpts(error)
        if not is_sql_error(error) or (about and not any(part in text for part in about for text in ours)):
            return None
        location = find_location(error)
        if location is not None and not any(text_literal(location) in text for text in ours):
            return None
        return translate_sql_error(error, self._node, self._sql)

    def _prepare(self, spark: SparkSession, inputs: Mapping[str, DataFrame]) -> Prepared:
        from streamling.sql.frames import analyse_once, prepare
        from streamling.sql.spark_types import SparkTypes
        from streamling.types.spark import column_type

        key = tuple((name, frame._jdf.schema().json()) for name, frame in inputs.items())
        prepared = self._prepared.get(key)
        if prepared is None:  # two threads may both get here and store equal results
            columns = {
                name: [Column(field.name, column_type(field)) for field in frame.schema.fields]
                for name, frame in inputs.items()
            }
            compiled = compile_sql(
                self._sql,
                columns,
                keep_row=self._keep_row,
                functions=own.declared(self._functions),
                analyse=SparkTypes(spark, inputs, self._functions),
            )
            if compiled.problems:
                raise InvalidSql(compiled.problems)
            own.register(spark, sql_expressions(compiled.plan), self._functions)
            prepared = self._prepared[key] = analyse_once(prepare(spark, compiled.plan), inputs)
        return prepared
