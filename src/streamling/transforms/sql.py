"""The sql transform: one stateless SELECT over other nodes, compiled to a Spark plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from pydantic import Field

from streamling.errors import StreamlingError
from streamling.pipeline.options import Parallel, TransformOptions
from streamling.pipeline.scalars import PrimaryKey
from streamling.plugins.operators import FrameTransform
from streamling.sql.compiler import compile_sql
from streamling.sql.dialect import parse
from streamling.sql.plan import Column
from streamling.sql.problems import SqlProblem, SqlRefused
from streamling.sql.references import node_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamling.plugins.context import NodeContext
    from streamling.sql.frames import Prepared


class SqlTransformOptions(Parallel, TransformOptions):
    """One stateless SELECT over other nodes, run by Spark."""

    primary_key: PrimaryKey = Field(description="Key columns of the output, comma-separated.")
    sql: str = Field(description="One SELECT over sources and transforms of this pipeline.")

    def upstreams(self) -> Sequence[str]:
        """Node names in FROM, as written. Raises `SqlRefused` when the text cannot be read: the parser of the file
        turns it into problems with their place there."""
        return node_names(parse(self.sql))


class SqlTransform(FrameTransform[SqlTransformOptions]):
    """Compiles once for each set of input schemas; a batch then costs a few calls into the JVM."""

    Options: ClassVar[type[SqlTransformOptions]] = SqlTransformOptions

    def __init__(self, context: NodeContext[SqlTransformOptions]) -> None:
        super().__init__(context)
        self._prepared: dict[tuple[tuple[str, str], ...], Prepared] = {}

    def apply(self, spark: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
        from streamling.sql.errors import explain

        try:
            return self._prepare(spark, inputs).run(inputs)
        except Exception as error:
            raise explain(error, self.context.name, self.options.sql) from error

    def explain(self, error: Exception) -> StreamlingError | None:
        """The error in the user's terms when it is about an expression of this node."""
        from streamling.sql.errors import explain, is_sql_error, statements

        ours = {text for prepared in self._prepared.values() for text in prepared.texts}
        about = statements(error)
        if not is_sql_error(error) or (about and ours.isdisjoint(about)):
            return None
        return explain(error, self.context.name, self.options.sql)

    def static_check(self, inputs: Mapping[str, pa.Schema | None]) -> tuple[list[SqlProblem], pa.Schema | None]:
        """All problems that can be seen without Spark, and the output columns as far as they are known. ``inputs``
        are the columns of the upstreams by declared name; None when not known."""
        return check_sql(self.options.sql, inputs)

    def _prepare(self, spark: SparkSession, inputs: Mapping[str, DataFrame]) -> Prepared:
        from streamling.sql.frames import prepare
        from streamling.types.spark import to_arrow_type

        key = tuple((name, frame._jdf.schema().json()) for name, frame in inputs.items())
        prepared = self._prepared.get(key)
        if prepared is None:  # two threads may both get here: what they store is equal
            columns = {
                name: [Column(field.name, to_arrow_type(field.dataType)) for field in frame.schema.fields]
                for name, frame in inputs.items()
            }
            compiled = compile_sql(self.options.sql, columns)
            if compiled.problems:
                raise SqlRefused(compiled.problems)
            prepared = self._prepared[key] = prepare(spark, compiled.plan)
        return prepared


def check_sql(sql: str, inputs: Mapping[str, pa.Schema | None]) -> tuple[list[SqlProblem], pa.Schema | None]:
    """Everything wrong with ``sql`` that needs no Spark to see, and the columns it gives (None: not known)."""
    columns = {
        name: None if schema is None else [Column(field.name, field.type) for field in schema]
        for name, schema in inputs.items()
    }
    try:
        compiled = compile_sql(sql, columns)
    except SqlRefused as refused:
        return list(refused.problems), None
    if compiled.problems or compiled.columns is None:
        return list(compiled.problems), None
    return [], pa.schema([_field(column) for column in compiled.columns])


def is_known(field: pa.Field) -> bool:
    """False for a column of a checked schema whose type only Spark knows; its type is null until then."""
    return (field.metadata or {}).get(_TYPE) != _UNKNOWN


_TYPE, _UNKNOWN = b"streamling.type", b"unknown"


def _field(column: Column) -> pa.Field:
    if column.type is None:
        return pa.field(column.name, pa.null(), metadata={_TYPE: _UNKNOWN})
    return pa.field(column.name, column.type)
