"""Runs statements on Spark DataFrames."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streamling.errors import StreamlingError
from streamling.spark.java import java_class
from streamling.spark.sql_text import literal
from streamling.sql.errors import excerpts, find_location, is_sql_error, translate_sql_error
from streamling.sql.kernels.registration import register
from streamling.sql.library import plugin_functions
from streamling.sql.plan import Column, Filter, LookupColumns, Plan, Project, Read, UnionAll, sql_expressions
from streamling.sql.problems import InvalidSql
from streamling.types.names import TYPE_KEY
from streamling.types.spark import column_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamling.sql.statement import Statement
    from streamling.sql.user_functions import SqlFunction

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


def prepare(spark: SparkSession, plan: Plan, functions: Mapping[str, type[SqlFunction]] | None = None) -> Prepared:
    """Send the lists of expressions to the JVM once: a run then costs one round trip per filter, projection and union,
    however many columns there are."""
    register(spark, sql_expressions(plan), functions)
    return Prepared(spark, plan, _step(spark, plan))


def analyse_once(prepared: Prepared, inputs: Mapping[str, DataFrame]) -> Prepared:
    """Return the plan as Spark analyses it now for inputs with these columns, instead of for every batch, which takes 7
    ms. ``prepared`` itself if it has several inputs, lookups or random numbers."""
    node = _only_input(prepared.plan)
    if node is None:
        return prepared
    plans = java_class(prepared.spark._jvm, "streamling.plan.BatchPlan")
    template = plans.template(prepared.spark._jsparkSession, inputs[node]._jdf.schema())
    analysed = prepared.step({node: template}, None)
    if not plans.isReusable(analysed):
        return prepared
    return replace(prepared, step=lambda inputs, _: plans.over(analysed, inputs[node]))


def _only_input(plan: Plan) -> str | None:
    """Return the node whose rows ``plan`` filters, or of which it computes columns; None if it does more."""
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
        metadata = jvm.org.apache.spark.sql.types.Metadata.fromJson(json.dumps({TYPE_KEY: type_}))
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
    """Return a column. Spark parses an expression again for every batch; a bare name costs almost nothing."""
    bare = item.startswith("`") and item.endswith("`") and "`" not in item[1:-1].replace("``", "")
    return functions.col(item) if bare else functions.expr(item)


def _union(steps: list[_Step]) -> _Step:
    def run(inputs: Mapping[str, Any], run_lookups: RunLookups | None) -> Any:
        frame = steps[0](inputs, run_lookups)
        for step in steps[1:]:
            frame = frame.union(step(inputs, run_lookups))
        return frame

    return run


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
        """Return the type of the last of ``items`` (Spark SQL) in a projection of ``plan``; None if Spark rejects it:
        the analysis of the whole statement reports why."""
        from pyspark.errors import PySparkException

        texts = list(items)
        register(self._spark, texts, self._functions)
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


class SparkStatement:
    """A statement of a node. Compiles it once for each set of input schemas; a batch then costs a few calls into the
    JVM."""

    def __init__(
        self,
        node: str,
        statement: Statement,
        *,
        keep_row: bool = False,
        functions: Mapping[str, type[SqlFunction]] | None = None,
    ) -> None:
        self._node = node
        self._statement = statement
        self._keep_row = keep_row
        self._functions = functions or {}
        self._prepared: dict[tuple[tuple[str, str], ...], Prepared] = {}

    def apply(
        self, spark: SparkSession, inputs: Mapping[str, DataFrame], run_lookups: RunLookups | None = None
    ) -> DataFrame:
        return self._prepare(spark, inputs).run(inputs, run_lookups)

    def translate_error(self, error: Exception) -> StreamlingError | None:
        """Translate the error if it is about an expression of this statement."""
        if failure := plugin_functions.translate_error(error, self._functions):
            return failure
        ours = {text for prepared in self._prepared.values() for text in sql_expressions(prepared.plan)}
        about = excerpts(error)
        if not is_sql_error(error) or (about and not any(part in text for part in about for text in ours)):
            return None
        location = find_location(error)
        if location is not None and not any(literal(location) in text for text in ours):
            return None
        return translate_sql_error(error, self._node, self._statement)

    def _prepare(self, spark: SparkSession, inputs: Mapping[str, DataFrame]) -> Prepared:
        key = tuple((name, frame._jdf.schema().json()) for name, frame in inputs.items())
        prepared = self._prepared.get(key)
        if prepared is None:  # two threads may both get here and store equal results
            columns = {
                name: [Column(field.name, column_type(field)) for field in frame.schema.fields]
                for name, frame in inputs.items()
            }
            compiled = self._statement.compile(
                columns,
                keep_row=self._keep_row,
                functions=plugin_functions.declared(self._functions),
                analyse=SparkTypes(spark, inputs, self._functions),
            )
            if compiled.problems:
                raise InvalidSql(compiled.problems)
            prepared = self._prepared[key] = analyse_once(prepare(spark, compiled.plan, self._functions), inputs)
        return prepared
