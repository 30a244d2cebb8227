"""Evaluates plans over messages and Arrow data in the driver's JVM (`LocalPlan.java`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streamling.plugins.streams import LocalRows, NeedsJob
from streamling.spark.java import java_class
from streamling.sql.kernels.registration import sql_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def message_template(spark: SparkSession, *, headers: bool) -> DataFrame:
    """Kafka's columns without rows."""
    from pyspark.sql import DataFrame

    return DataFrame(_message_plans(spark).template(spark._jsparkSession, headers), spark)


def rows_of(decoded: DataFrame, messages: DataFrame) -> DataFrame:
    """Return the plan of ``decoded``, which was made from a `message_template`, over ``messages``."""
    from pyspark.sql import DataFrame

    spark = decoded.sparkSession
    return DataFrame(_batch_plans(spark).over(decoded._jdf, messages._jdf), spark)


def arrow_template(spark: SparkSession, schema: pa.Schema) -> DataFrame:
    """Return the columns of ``schema`` without rows."""
    from pyspark.sql import DataFrame

    from streamling.types.spark import to_spark_schema

    jvm: Any = spark._jvm
    columns = jvm.org.apache.spark.sql.types.DataType.fromJson(to_spark_schema(schema).json())
    return DataFrame(_batch_plans(spark).template(spark._jsparkSession, columns), spark)


def _message_plans(spark: SparkSession) -> Any:
    return java_class(spark._jvm, "streamling.kafka.MessagePlan")


def _batch_plans(spark: SparkSession) -> Any:
    return java_class(spark._jvm, "streamling.plan.BatchPlan")


def _local_plan(frame: DataFrame) -> Any:
    from py4j.protocol import Py4JJavaError

    try:
        return java_class(frame.sparkSession._jvm, "streamling.plan.LocalPlan").of(frame._jdf)
    except Py4JJavaError as error:
        if error.java_exception.getClass().getSimpleName() != "NeedsJob":
            raise
        return _needs_job(*error.java_exception.getMessage().split())


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
        """Return the plan of ``frame``, which was made from an `arrow_template`."""
        plan = _local_plan(frame)
        return plan if isinstance(plan, NeedsJob) else cls(plan)

    def to_rows(self, batches: Sequence[pa.RecordBatch]) -> LocalRows:
        """Return the rows that the plan computes from ``batches``."""
        from streamling.types.spark import to_physical

        table, data = to_physical(pa.Table.from_batches(batches)), pa.BufferOutputStream()
        with pa.ipc.new_stream(data, table.schema) as stream:
            stream.write_table(table)
        rows = self._plan.rowsOfArrow(data.getvalue().to_pybytes())
        return LocalRows(rows, rows.size())


class MessagePlan:
    """A plan over the messages of a topic (`MessagePlan.java`)."""

    def __init__(self, plan: Any, frame: DataFrame, *, headers: bool) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        self._frame = frame
        self.java: Any = _message_plans(frame.sparkSession)(plan, headers)
        self._schema = to_arrow_schema(frame.schema, timezone="UTC")

    @classmethod
    def of(cls, frame: DataFrame, *, headers: bool) -> MessagePlan | NeedsJob:
        """Return the plan of ``frame``, which was made from a `message_template`."""
        plan = _local_plan(frame)
        return plan if isinstance(plan, NeedsJob) else cls(plan, frame, headers=headers)

    def share(self, how: str, decoded: DataFrame) -> None:
        """Decode messages once for all streams that read them together and decode them like this: ``how`` is equal.
        The frame was made from ``decoded``, which has one row for each message."""
        self.java.share(how, decoded._jdf, self._frame._jdf)

    def to_arrow(self, messages: Any) -> pa.RecordBatch:
        data = self.java.arrow(messages)
        return pa.RecordBatch.from_pylist([], self._schema) if data is None else self.read(data)

    def read(self, data: bytes | memoryview) -> pa.RecordBatch:
        """Return the rows of an Arrow stream that the plan has written."""
        with pa.ipc.open_stream(data) as stream:
            return stream.read_next_batch().cast(self._schema)
