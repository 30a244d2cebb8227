"""Rows of frames that need no Spark job: Spark's optimizer evaluates projections and filters over rows that come from
this process, so the plan already has the result. A job takes tens of milliseconds, however few rows it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: more rows are faster as a job: Py4j encodes bytes as text
_MAX_ROWS = 10_000
#: larger than all rows: they are one batch
_ONE_BATCH = 1 << 40


def is_local(frame: DataFrame) -> bool:
    """Whether it takes no Spark job to compute the rows of ``frame``."""
    return _local_plan(frame) is not None


def to_arrow(frame: DataFrame) -> pa.Table:
    """The rows of ``frame``, without a job if none is needed."""
    from pyspark.sql.pandas.types import to_arrow_schema

    plan = _local_plan(frame)
    if plan is None:
        return frame.toArrow()
    schema = to_arrow_schema(frame.schema, error_on_duplicated_field_names_in_struct=True, timezone="UTC")
    rows = plan.rows()
    if rows.isEmpty():
        return schema.empty_table()
    batches = _converters(frame).toBatchWithSchemaIterator(
        rows.iterator(), plan.schema(), _MAX_ROWS, _ONE_BATCH, "UTC", True, False
    )
    try:
        with pa.ipc.open_stream(batches.next()) as stream:
            return stream.read_all().cast(schema)
    finally:
        batches.close()  # in a task, Spark does it; here, nothing would ever free the buffers outside the heap


def _local_plan(frame: DataFrame) -> Any:
    plan = frame._jdf.queryExecution().executedPlan()
    return plan if plan.nodeName() == "LocalTableScan" and plan.rows().size() <= _MAX_ROWS else None


def _converters(frame: DataFrame) -> Any:
    from py4j.java_gateway import JavaClass

    jvm: Any = frame.sparkSession._jvm
    # without a call into the JVM for each part of the name
    object_ = JavaClass("org.apache.spark.sql.execution.arrow.ArrowConverters$", jvm._gateway_client)
    return getattr(object_, "MODULE$")
