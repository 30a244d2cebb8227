"""Transforms: functions over Arrow data, and those that compile to Spark."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import pyarrow as pa

from streamling.pipeline.model import NodeKind
from streamling.plugins.execution import ExecutionMode
from streamling.plugins.operators import EmptyInputs, Operator, OptionsT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamling.sql.problems import SqlProblem

ResponseT = TypeVar("ResponseT")


@dataclass(frozen=True)
class AsyncCalls(Generic[ResponseT]):
    """A result that depends on calls to another system. The engine starts the calls, those of several batches
    concurrently, and passes the results on in the order of the batches; a marker waits for all calls before it."""

    #: each item starts one call; used once fewer than ``max_in_flight`` calls of this instance are in flight
    starts: Iterator[Callable[[], Future[ResponseT]]]
    #: makes the rows from all responses, in the order of the calls
    result: Callable[[Sequence[ResponseT]], pa.RecordBatch]
    max_in_flight: int


class Transform(Operator[OptionsT]):
    """Rows in, rows out, as Arrow."""

    node_kind: ClassVar[NodeKind | None] = NodeKind.TRANSFORM
    execution: ClassVar[ExecutionMode] = ExecutionMode.LANE
    distributable: ClassVar[bool] = True

    def check(self) -> None:
        """Raise for errors in the options that can be found without the input columns. Called once, before Spark has
        started; if the input schema is not known yet, it is empty."""

    @classmethod
    def needs_input_schema(cls) -> bool:
        return cls.check is Transform.check

    def static_check(self, inputs: Mapping[str, pa.Schema | None]) -> tuple[Sequence[SqlProblem], pa.Schema | None]:
        self.check()
        return (), self.output_schema() if self.context.input_schema.names else None

    def analyse(self, inputs: EmptyInputs) -> pa.Schema | None:
        return self.output_schema()

    @abstractmethod
    def output_schema(self) -> pa.Schema:
        """Return the columns of what `process` returns; depends only on the options and ``context.input_schema``."""

    @abstractmethod
    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch | AsyncCalls[Any]:
        """Transform a batch. Called once per batch, never with an empty one; may return any number of rows, or the
        calls that they depend on. Must be a stateless function of its argument: after a crash, the same rows are
        replayed in different batches."""

    def with_input_schema(self, schema: pa.Schema) -> Transform[OptionsT]:
        """Return an instance for rows with other columns, since a source may get new ones while the pipeline runs. The
        engine opens it and closes this one; meanwhile no call is in flight."""
        return type(self)(replace(self.context, input_schema=schema))

    def marker(self, epoch: int) -> None:
        """React when all rows of ``epoch`` have been processed by this instance."""


class FrameTransform(Operator[OptionsT]):
    """A transform that compiles to Spark. SQL is the only one."""

    node_kind: ClassVar[NodeKind | None] = NodeKind.TRANSFORM
    execution: ClassVar[ExecutionMode] = ExecutionMode.SPARK
    sub_plan_metrics: ClassVar[str | None] = "df_"

    @abstractmethod
    def apply(self, spark: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
        """Return the transform over its upstreams' DataFrames, by node name. Called for each batch that Spark computes,
        once per stream for those that the driver evaluates, and once with empty inputs to learn the schema."""

    def apply_batch(
        self,
        spark: SparkSession,
        inputs: Mapping[str, DataFrame],
        numbered: Callable[[], Mapping[str, DataFrame]],
    ) -> DataFrame:
        """Return the transform over one batch; called once for each. ``numbered`` returns the inputs with a column that
        numbers the rows of the batch (`streamling.sql.plan.ROW`). A row keeps its number however often Spark runs the
        plan, so the transform may run its own Spark jobs over them; this can be expensive."""
        return self.apply(spark, inputs)

    @classmethod
    def needs_input_schema(cls) -> bool:
        return False

    def static_check(self, inputs: Mapping[str, pa.Schema | None]) -> tuple[Sequence[SqlProblem], pa.Schema | None]:
        return (), None

    def analyse(self, inputs: EmptyInputs) -> pa.Schema | None:
        from streamling.types.spark import to_arrow_schema

        return to_arrow_schema(inputs.apply(self.apply).schema)
