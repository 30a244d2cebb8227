"""DataFrames without rows, over which Spark analyses the plans of nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from streamling.engine.dataflow.rows import Rows
from streamling.pipeline.model import Node
from streamling.plugins.operators import Operator

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


#: makes a DataFrame from the session and the DataFrames of the upstreams, by node name
Plan = Callable[["SparkSession", Mapping[str, "DataFrame"]], "DataFrame"]


class Frames(Protocol):
    """DataFrames that represent the output of nodes."""

    def apply(self, node: Node, operator: Operator[Any], plan: Plan) -> DataFrame:
        """``plan`` of ``operator`` over the upstreams of ``node``."""


class EmptyFrames:
    """An empty DataFrame for each node that a Spark plan reads, created when the first plan needs it."""

    def __init__(self, session: SparkSession, schemas: Mapping[str, pa.Schema | None]) -> None:
        self._session = session
        self._schemas = schemas
        self.frames: dict[str, DataFrame] = {}

    def apply(self, node: Node, operator: Operator[Any], plan: Plan) -> DataFrame:
        """``plan`` over the upstreams of ``node``; errors of Spark are translated by ``operator``."""
        inputs = {upstream: self._frame(upstream) for upstream in node.upstreams}
        return Rows(self._session, lineage=((node, operator),)).run(lambda: plan(self._session, inputs))

    def _frame(self, name: str) -> DataFrame:
        if name not in self.frames:
            self.frames[name] = empty_frame(self._session, self._schemas[name])
        return self.frames[name]


class NodeInputs:
    """The inputs of one node."""

    def __init__(self, frames: Frames, node: Node, operator: Operator[Any]) -> None:
        self._frames = frames
        self._node = node
        self._operator = operator

    @property
    def names(self) -> Sequence[str]:
        return self._node.upstreams

    def apply(self, plan: Plan) -> DataFrame:
        return self._frames.apply(self._node, self._operator, plan)


def empty_frame(session: SparkSession, schema: pa.Schema) -> DataFrame:
    """No rows of ``schema``, as a local relation: two calls into the JVM, no job."""
    from pyspark.sql import DataFrame

    from streamling.types.spark import to_spark_schema

    jvm: Any = session._jvm
    structure = jvm.org.apache.spark.sql.types.DataType.fromJson(to_spark_schema(schema).json())
    return DataFrame(session._jsparkSession.createDataFrame(jvm.java.util.ArrayList(), structure), session)
