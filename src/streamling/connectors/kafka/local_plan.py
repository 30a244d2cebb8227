"""Evaluates plans over messages in the driver's JVM (`LocalPlan.java`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streamling.plugins.streams import LocalRows, NeedsJob
from streamling.spark.own_classes import find_class
from streamling.sql.kernels.names import sql_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def message_template(spark: SparkSession, *, headers: bool) -> DataFrame:
    """Kafka's columns without rows."""
    from pyspark.sql import DataFrame

    jvm: Any = spark._jvm
    return DataFrame(jvm.streamling.LocalPlan.messages(spark._jsparkSession, headers), spark)


def rows_of(decoded: DataFrame, messages: DataFrame) -> DataFrame:
    """The plan of ``decoded``, which was made from a `message_template`, over ``messages``."""
    from pyspark.sql import DataFrame

    spark = decoded.sparkSession
    plans: Any = find_class(spark, "BatchPlan")
    return DataFrame(plans.over(decoded._jdf, messages._jdf), spark)


def arrow_template(spark: SparkSession, schema: pa.Schema) -> DataFrame:
    """The columns of ``schema`` without rows."""
    from pyspark.sql import DataFrame

    from streamling.types.spark import to_spark_schema

    jvm: Any = spark._jvm
    columns = jvm.org.apache.spark.sql.types.DataType.fromJson(to_spark_schema(schema).json())
    return DataFrame(jvm.streamling.BatchPlan.template(spark._jsparkSession, columns), spark)


def _local_plan(frame: DataFrame, *, headers: bool) -> Any:
    jvm: Any = frame.sparkSession._jvm
    found = jvm.streamling.LocalPlan.of(frame._jdf, headers)
    return _needs_job(*found.split()) if isinstance(found, str) else found


def _needs_job(kind: str, *names: str) -> NeedsJob:
    match kind:
        case "python":
            return NeedsJob(f"it uses {' and '.join(sql_names(names))}, computed in Python", "use other functions")
        case "executors":
            return NeedsJob("it runs in Python on the executors", "run on a local master (spark.master)")
        case "tasks":
            return NeedsJob("its rows are distributed to several tasks", "remove parallelism")
        case "time":
            return NeedsJob("it calls a function of the current time other than now() and current_date", "use now()")
        case "subquery":
            return NeedsJob("it contains a subquery")
    return NeedsJob(f"its plan contains the {kind} {' '.join(names)}")


class ArrowPlan:
    """A plan over Arrow data."""

    def __init__(self, plan: Any) -> None:
        self._plan = plan

    @classmethod
    def of(cls, frame: DataFrame) -> ArrowPlan | NeedsJob:
        """The plan of ``frame``, which was made from an `arrow_template`."""
        plan = _local_plan(frame, headers=False)
        return plan if isinstance(plan, NeedsJob) else cls(plan)

    def to_rows(self, batches: Sequence[pa.RecordBatch]) -> LocalRows:
        """The rows that the plan computes from ``batches``."""
        from streamling.types.spark import to_physical

        table, data = to_physical(pa.Table.from_batches(batches)), pa.BufferOutputStream()
        with pa.ipc.new_stream(data, table.schema) as stream:
            stream.write_table(table)
        rows = self._plan.rowsOfArrow(data.getvalue().to_pybytes())
        return LocalRows(rows, rows.size())


class MessagePlan:
    """A plan over the messages of a topic: a `LocalPlan`."""

    def __init__(self, plan: Any, schema: pa.Schema) -> None:
        self._plan = plan
        self._schema = schema

    @classmethod
    def of(cls, frame: DataFrame, *, headers: bool) -> MessagePlan | NeedsJob:
        """The plan of ``frame``, which was made from a `message_template`."""
        from pyspark.sql.pandas.types import to_arrow_schema

        plan = _local_plan(frame, headers=headers)
        return plan if isinstance(plan, NeedsJob) else cls(plan, to_arrow_schema(frame.schema, timezone="UTC"))

    def to_arrow(self, messages: Any) -> pa.RecordBatch:
        with pa.ipc.open_stream(self._plan.arrow(messages)) as stream:
            return stream.read_next_batch().cast(self._schema)

    def to_rows(self, messages: Any) -> LocalRows:
        rows = self._plan.rows(messages)
        return LocalRows(rows, rows.size())

    def observed(self) -> Mapping[str, Sequence[float | None]]:
        pairs = (text.split("=") for text in self._plan.observed().split())
        return {name: [float(value) if value else None for value in values.split(",")] for name, values in pairs}
