"""Runs a function over Arrow batches on Spark's Python workers, without pandas.

``DataFrame.mapInArrow`` fails if pandas is not installed, although neither it nor the worker uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from streamling.spark.sql_text import quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    ArrowMap = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def map_in_arrow(frame: DataFrame, function: ArrowMap, schema: StructType | str) -> DataFrame:
    """Do ``frame.mapInArrow(function, schema)``: ``function`` is called once per partition with its batches in
    order."""
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
    from pyspark.sql.udf import UserDefinedFunction
    from pyspark.util import PythonEvalType

    udf = UserDefinedFunction(function, schema, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    column = udf(*(frame[quoted(name)] for name in frame.columns))
    return ClassicDataFrame(frame._jdf.mapInArrow(column._jc, False, None), frame.sparkSession)
