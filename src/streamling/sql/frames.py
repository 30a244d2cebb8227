"""Runs a compiled plan on Spark DataFrames."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from streamling.spark.own_classes import find_class
from streamling.sql.kernels.registration import register
from streamling.sql.plan import Filter, LookupColumns, Plan, Project, Read, UnionAll, sql_expressions
from streamling.types.spark import LOGICAL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: adds the results of lookups to the rows
RunLookups = Callable[["DataFrame", LookupColumns], "DataFrame"]

#: from input frames to the output frame, as JVM objects; the callback runs the lookups in between
_Step = Callable[[Mapping[str, Any], RunLookups | None], Any]


@dataclass(frozen=True)
class Prepared:
    """A plan as a function of its input frames."""

    spark: SparkSession
    plan: Plan
    step: _Step

    def run(self, inputs: Mapping[str, DataFrame], run_lookups: RunLookups | None = None) -> DataFrame:
        from pyspark.sql import DataFrame

        return DataFrame(self.step({name: frame._jdf for name, frame in inputs.items()}, run_lookups), self.spark)


def prepare(spark: SparkSession, plan: Plan) -> Prepared:
    """Sends the lists of expressions to the JVM once: a run then costs one round trip per filter, projection and union,
    however many columns there are."""
    register(spark, sql_expressions(plan))
    return Prepared(spark, plan, _step(spark, plan))


def analyse_once(prepared: Prepared, inputs: Mapping[str, DataFrame]) -> Prepared:
    """The plan as Spark analyses it now for inputs with these columns, instead of for every batch, which takes 7 ms.
    ``prepared`` itself if it has several inputs, lookups or random numbers."""
    plans, node = find_class(prepared.spark, "BatchPlan"), _only_input(prepared.plan)
    if plans is None or node is None:
        return prepared
    template = plans.template(prepared.spark._jsparkSession, inputs[node]._jdf.schema())
    analysed = prepared.step({node: template}, None)
    if not plans.isReusable(analysed):
        return prepared
    return replace(prepared, step=lambda inputs, _: plans.over(analysed, inputs[node]))


def _only_input(plan: Plan) -> str | None:
    """The node whose rows ``plan`` filters, or of which it computes columns; None if it does more."""
    while isinstance(plan, Filter | Project):
        plan = plan.child
    return plan.node if isinstance(plan, Read) else None


def _step(spark: SparkSession, plan: Plan) -> _Step:
    if isinstance(plan, Read):
        node = plan.node
        return lambda inputs, _: inputs[node]
    if isinstance(plan, UnionAll):
        return _union([_step(spark, child) for child in plan.children])
    below = _step(spark, plan.child)
    if isinstance(plan, LookupColumns):
        return _checked(spark, below, plan)
    if isinstance(plan, Filter):
        condition = plan.condition
        return lambda inputs, run_lookups: below(inputs, run_lookups).filter(condition)
    jvm: Any = spark._jvm
    made = [_column(jvm.org.apache.spark.sql.functions, item) for item in plan.items]
    for number, name, type_ in plan.logical_types:
        metadata = jvm.org.apache.spark.sql.types.Metadata.fromJson(json.dumps({LOGICAL: type_}))
        made[number] = getattr(made[number], "as")(name, metadata)
    columns = jvm.PythonUtils.toSeq(made)
    return lambda inputs, run_lookups: below(inputs, run_lookups).select(columns)


def _checked(spark: SparkSession, below: _Step, check: LookupColumns) -> _Step:
    from pyspark.sql import DataFrame

    def run(inputs: Mapping[str, Any], run_lookups: RunLookups | None) -> Any:
        assert run_lookups is not None, "this plan has lookups, but run_lookups is missing"
        return run_lookups(DataFrame(below(inputs, run_lookups), spark), check)._jdf

    return run


def _column(functions: Any, item: str) -> Any:
    """Spark parses an expression again for every batch; a bare name costs almost nothing."""
    bare = item.startswith("`") and item.endswith("`") and "`" not in item[1:-1].replace("``", "")
    return functions.col(item) if bare else functions.expr(item)


def _union(steps: list[_Step]) -> _Step:
    def run(inputs: Mapping[str, Any], run_lookups: RunLookups | None) -> Any:
        frame = steps[0](inputs, run_lookups)
        for step in steps[1:]:
            frame = frame.union(step(inputs, run_lookups))
        return frame

    return run
