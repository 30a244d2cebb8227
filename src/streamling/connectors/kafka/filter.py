"""The ``filter`` of a source: one SQL condition over its columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from streamling.errors import StreamlingError
from streamling.sql.compiler import compile_sql
from streamling.sql.kernels.registration import register
from streamling.sql.plan import Column, Filter, Project, Read
from streamling.sql.problems import InvalidSql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from streamling.sql.source_text import Analyse

_NAME = "source"


def compile_filter(condition: str | None, schema: pa.Schema, analyse: Analyse | None = None) -> str | None:
    """Compile the condition to Spark SQL; raise a user error if it is invalid. The result is only final with
    ``analyse``, because its meaning may depend on types that only Spark knows."""
    if condition is None or not condition.strip():
        return None
    columns = [Column(field.name, field.type) for field in schema]
    try:
        # the line break ends a comment at the end of the condition
        compiled = compile_sql(f"SELECT * FROM {_NAME} WHERE ({condition}\n)", {_NAME: columns}, analyse=analyse)
    except InvalidSql as error:
        raise _filter_error(error.problems[0].message, error.problems[0].remedy) from None
    if compiled.problems:
        raise _filter_error(compiled.problems[0].message, compiled.problems[0].remedy)
    plan = compiled.plan
    below = plan.child if isinstance(plan, Project) else plan
    if isinstance(below, Filter) and isinstance(below.child, Read):
        return below.condition
    raise _filter_error("is not a single condition")


def apply_filter(rows: DataFrame, condition: str | None, schema: pa.Schema, *, unless: str) -> DataFrame:
    """Keep the rows for which the condition over the columns of ``schema`` is true, and those for which ``unless``
    (Spark SQL) is true."""
    from streamling.sql.spark_types import SparkTypes

    compiled = compile_filter(condition, schema, SparkTypes(rows.sparkSession, {_NAME: rows}))
    if compiled is None:
        return rows
    register(rows.sparkSession, [compiled])
    return rows.filter(f"{unless} OR ({compiled})")


def _filter_error(message: str, remedy: str | None = None) -> StreamlingError:
    return StreamlingError.user(f"filter: {message}", remedy=remedy)
