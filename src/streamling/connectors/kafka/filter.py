"""The ``filter`` of a source: one SQL condition over its columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from streamling.errors import StreamlingError
from streamling.sql.frames import SparkTypes
from streamling.sql.kernels.registration import register
from streamling.sql.plan import Column, Filter, Project, Read
from streamling.sql.problems import InvalidSql, SqlProblem
from streamling.sql.statement import Statement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from streamling.sql.source_text import Analyse

_NAME = "source"


class SourceFilter:
    """A condition, parsed once. Raises a user error if it is invalid."""

    def __init__(self, condition: str) -> None:
        try:
            # the line break ends a comment at the end of the condition
            self._statement = Statement(f"SELECT * FROM {_NAME} WHERE ({condition}\n)")
        except InvalidSql as error:
            raise _filter_error(error.problems[0]) from None

    def compile(self, schema: pa.Schema, analyse: Analyse | None = None) -> str:
        """Return the condition as Spark SQL; raise a user error if it is invalid. The result is only final with
        ``analyse``, because its meaning may depend on types that only Spark knows."""
        columns = [Column(field.name, field.type) for field in schema]
        try:
            compiled = self._statement.compile({_NAME: columns}, analyse=analyse)
        except InvalidSql as error:
            raise _filter_error(error.problems[0]) from None
        if compiled.problems:
            raise _filter_error(compiled.problems[0])
        plan = compiled.plan
        below = plan.child if isinstance(plan, Project) else plan
        if isinstance(below, Filter) and isinstance(below.child, Read):
            return below.condition
        raise _filter_error(SqlProblem("is not a single condition"))

    def apply(self, rows: DataFrame, schema: pa.Schema, *, unless: str) -> DataFrame:
        """Keep the rows for which the condition over the columns of ``schema`` is true, and those for which ``unless``
        (Spark SQL) is true."""
        condition = self.compile(schema, SparkTypes(rows.sparkSession, {_NAME: rows}))
        register(rows.sparkSession, [condition])
        return rows.filter(f"{unless} OR ({condition})")


def _filter_error(problem: SqlProblem) -> StreamlingError:
    return StreamlingError.user(f"filter: {problem.message}", remedy=problem.remedy)
