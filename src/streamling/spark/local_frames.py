"""Rows of frames that need no Spark job: Spark's optimizer evaluates projections and filters over rows that come from
this process, so the plan already has the result. A job takes tens of milliseconds, however few rows it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streamling.spark.java import java_class

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def needs_no_job(frame: DataFrame) -> bool:
    """Return whether it takes no Spark job to compute the rows of ``frame``."""
    return bool(_local_rows(frame).isLocal(frame._jdf))


def to_arrow(frame: DataFrame) -> pa.Table:
    """Return the rows of ``frame``, without a job if none is needed."""
    from pyspark.sql.pandas.types import to_arrow_schema

    data = _local_rows(frame).arrow(frame._jdf)
    if data is None:
        return frame.toArrow()
    schema = to_arrow_schema(frame.schema, error_on_duplicated_field_names_in_struct=True, timezone="UTC")
    with pa.ipc.open_stream(data) as stream:
        return stream.read_all().cast(schema)


def _local_rows(frame: DataFrame) -> Any:
    return java_class(frame.sparkSession._jvm, "streamling.plan.LocalRows")
