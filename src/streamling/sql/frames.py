"""Carries out a compiled plan on Spark DataFrames."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from streamling.sql.plan import Filter, Plan, Read, UnionAll

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: from input frames to the output frame, as the JVM's objects
_Step = Callable[[Mapping[str, Any]], Any]


def prepare(spark: SparkSession, plan: Plan) -> Callable[[Mapping[str, DataFrame]], DataFrame]:
    """The plan as a function of its input frames. The lists of expressions cross over to the JVM here, once: a call
    then costs one round trip for each filter, projection and union, however many columns there are."""
    from pyspark.sql import DataFrame

    step = _step(spark, plan)

    def run(inputs: Mapping[str, DataFrame]) -> DataFrame:
        return DataFrame(step({name: frame._jdf for name, frame in inputs.items()}), spark)

    return run


def _step(spark: SparkSession, plan: Plan) -> _Step:
    if isinstance(plan, Read):
        node = plan.node
        return lambda inputs: inputs[node]
    if isinstance(plan, UnionAll):
        return _union([_step(spark, child) for child in plan.children])
    below = _step(spark, plan.child)
    if isinstance(plan, Filter):
        condition = plan.condition
        return lambda inputs: below(inputs).filter(condition)
    jvm: Any = spark._jvm
    items = jvm.PythonUtils.toSeq(list(plan.items))
    return lambda inputs: below(inputs).selectExpr(items)


def _union(steps: list[_Step]) -> _Step:
    def run(inputs: Mapping[str, Any]) -> Any:
        frame = steps[0](inputs)
        for step in steps[1:]:
            frame = frame.union(step(inputs))
        return frame

    return run
