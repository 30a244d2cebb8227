"""Types of expressions from Spark's own analysis, where the compiler does not know them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streamling.sql.frames import prepare
from streamling.sql.kernels.registration import register
from streamling.sql.library import plugin_functions as own
from streamling.sql.plan import LookupColumns, Plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamling.sql.user_functions import SqlFunction


class SparkTypes:
    """Analyses expressions over the input frames of a statement without running them. A result costs one analysis, and
    only expressions of unknown type are analysed."""

    def __init__(
        self,
        spark: SparkSession,
        inputs: Mapping[str, DataFrame],
        functions: Mapping[str, type[SqlFunction]] | None = None,
    ) -> None:
        self._spark = spark
        self._inputs = inputs
        self._functions = functions or {}
        self._frames: dict[Plan, DataFrame] = {}

    def __call__(self, plan: Plan, items: Iterable[str]) -> pa.DataType | None:
        """The type of the last of ``items`` (Spark SQL) in a projection of ``plan``; None if Spark rejects it: the
        analysis of the whole statement reports why."""
        from pyspark.errors import PySparkException

        from streamling.types.spark import column_type

        texts = list(items)
        register(self._spark, texts)
        own.register(self._spark, texts, self._functions)
        try:
            return column_type(self._frame(plan).selectExpr(*texts).schema.fields[-1])
        except PySparkException:
            return None

    def _frame(self, plan: Plan) -> DataFrame:
        if plan not in self._frames:
            self._frames[plan] = prepare(self._spark, plan).run(self._inputs, _with_empty_lookups)
        return self._frames[plan]


def _with_empty_lookups(frame: DataFrame, check: LookupColumns) -> Any:
    return frame.selectExpr(
        "*", *(f"CAST(NULL AS BOOLEAN) AS `{lookup.result_column}`" for lookup in check.table_lookups)
    )
