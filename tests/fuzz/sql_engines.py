"""The same expressions in DataFusion and here; each error is kept with its expression."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import datafusion as oracle
import pyarrow as pa

from streamling.sql.frames import SparkTypes, prepare
from streamling.sql.kernels.registration import register
from streamling.sql.plan import Column
from streamling.sql.problems import InvalidSql
from streamling.sql.statement import Statement
from streamling.types.spark import to_physical, to_spark_schema
from tests.fuzz.sql_grammar import Expr
from tests.sql.differential import Case, equal, values

#: expressions that one query of Spark's evaluates, and how long they may be together: the JVM that runs the tests has
#: been lost to a dozen of the longest
_TOGETHER, _CHARACTERS = 100, 50_000


@dataclass
class Outcome:
    """The results of both engines for an expression."""

    expr: Expr
    #: DataFusion's values; None if it rejects the expression
    wanted: list[Any] | None = None
    #: whether these are FLOATs, whose last digit depends on the library
    single: bool = False
    #: rows for which DataFusion only has an error
    failing: list[int] = field(default_factory=list)
    got: list[Any] | None = None
    #: our values with NULL for the rows that fail
    tried: list[Any] | None = None
    #: why there are no values here, before or during the run
    refused: str = ""
    plan: Any = None
    stopped: str = ""

    @property
    def verdict(self) -> str:
        """``equal``, ``both refuse``, ``only here``, or how it differs: ``refused``, ``stops``, ``differs``."""
        if self.wanted is None:
            return "both refuse" if self.refused or self.stopped else "only here"
        if self.failing and len(self.failing) == len(self.wanted):
            return "both refuse" if self.refused or self.stopped else "only here"
        if self.refused or self.stopped:
            return "refused" if self.refused else "stops"
        return "differs" if self.differences else "equal"

    @property
    def differences(self) -> list[tuple[int, Any, Any]]:
        return self._compared(self.got or [])

    @property
    def differences_before_it_stops(self) -> list[tuple[int, Any, Any]]:
        """Among the rows for which we have a value."""
        return [(row, a, b) for row, a, b in self._compared(self.tried or []) if b is not None]

    def _compared(self, ours: list[Any]) -> list[tuple[int, Any, Any]]:
        return [
            (row, a, b)
            for row, (a, b) in enumerate(zip(self.wanted or [], ours, strict=False))
            if row not in self.failing and not equal(a, b) and not (self.single and _nearly(a, b))
        ]


def _nearly(a: Any, b: Any) -> bool:
    return isinstance(a, float) and isinstance(b, float) and math.isclose(a, b, rel_tol=2.5e-7)


def ask_datafusion(outcomes: Sequence[Outcome], table: pa.Table) -> None:
    context = oracle.SessionContext()
    context.from_arrow(table, "t")
    for outcome in outcomes:
        case = Case("", outcome.expr.sql)
        outcome.single = _values(context, case, table.num_rows) == pa.float32()
        outcome.wanted, outcome.failing = case.expected, case.failing


def _values(context: Any, case: Case, count: int) -> pa.DataType | None:
    from tests.sql.differential import fill

    try:
        query = context.sql(f"SELECT {case.expression} AS v FROM t")
        query.optimized_logical_plan()
    except BaseException as error:  # a panic of Rust is not an Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        return None
    case.expected = [None] * count
    fill(context, case, 0, count)
    return query.schema().field(0).type


class Engines:
    """Both, over the same rows."""

    def __init__(self, session: Any, rows: pa.Table) -> None:
        self.rows = rows
        self.here = Here(session, rows)

    def ask(self, expressions: Iterable[Expr]) -> list[Outcome]:
        asked = [Outcome(expression) for expression in expressions]
        ask_datafusion(asked, self.rows)
        self.here.ask(asked)
        return asked


class Here:
    """Our SQL over the same rows. They are part of the plan: Spark evaluates most expressions without a job."""

    def __init__(self, spark: Any, table: pa.Table) -> None:
        from pyspark.sql import DataFrame

        self.spark = spark
        frame = spark.createDataFrame(to_physical(table), to_spark_schema(table.schema)).sort("id")
        rows = frame._jdf.collectAsList()
        self.frame = DataFrame(spark._jsparkSession.createDataFrame(rows, frame._jdf.schema()), spark)
        self.columns = [Column(field.name, field.type) for field in to_physical(table).schema]
        # each step to a name in the JVM is a round trip: per expression they would take most of the time
        jvm: Any = spark._jvm
        sql, utils = jvm.org.apache.spark.sql, jvm.org.apache.spark.sql.classic.ExpressionUtils
        self._parse, self._try_eval = sql.functions.expr, sql.catalyst.expressions.TryEval
        self._expression, self._column = utils.expression, utils.column
        self._to_seq = jvm.PythonUtils.toSeq

    def ask(self, outcomes: Sequence[Outcome]) -> None:
        answered = [outcome for outcome in outcomes if outcome.wanted is not None]
        ready = [outcome for outcome in answered if self._compiles(outcome)]
        for group in _grouped(ready):
            self._run(group)
        for outcome in ready:
            if outcome.got is not None and any(b is None for _, _, b in outcome.differences):
                self._run_alone(outcome)

    def _compiles(self, outcome: Outcome) -> bool:
        sql = f"SELECT {_masked(outcome)} AS v FROM t"
        try:
            compiled = Statement(sql).compile({"t": self.columns}, analyse=SparkTypes(self.spark, {"t": self.frame}))
            problems, outcome.plan = compiled.problems, compiled.plan
        except InvalidSql as refused:
            problems = refused.problems
        outcome.refused = str(problems[0]) if problems else ""
        return not problems

    def _run(self, outcomes: Sequence[Outcome]) -> None:
        """All in one query, NULL where one fails."""
        try:
            found = self._selected([_spark_sql(outcome) for outcome in outcomes]).toArrow()
        except Exception:
            self._run_in_parts(outcomes)
            return
        for number, outcome in enumerate(outcomes):
            try:
                outcome.got = outcome.tried = values(found[f"v{number}"])
            except UnicodeDecodeError as error:
                outcome.stopped = f"text that is not UTF-8: {error}"

    def runs_without_failing(self, outcome: Outcome) -> bool:
        """Whether the results are equal when the rows that fail in DataFusion are filtered out."""
        again = Outcome(outcome.expr, outcome.wanted, outcome.single, outcome.failing)
        listed = ", ".join(map(str, outcome.failing))
        sql = f"SELECT {outcome.expr.sql} AS v FROM (SELECT * FROM t WHERE id NOT IN ({listed})) AS t"
        compiled = Statement(sql).compile({"t": self.columns}, analyse=SparkTypes(self.spark, {"t": self.frame}))
        try:
            found = iter(values(prepare(self.spark, compiled.plan).run({"t": self.frame}).toArrow()["v"]))
        except Exception:
            return False
        again.got = [None if row in again.failing else next(found) for row in range(len(again.wanted or ()))]
        return not again.differences

    def _selected(self, texts: Sequence[str]) -> Any:
        from pyspark.sql import DataFrame

        register(self.spark, texts)
        columns = []
        for number, text in enumerate(texts):
            failing_is_null = self._try_eval(self._expression(self._parse(text)))
            columns.append(getattr(self._column(failing_is_null), "as")(f"v{number}"))
        return DataFrame(self.frame._jdf.select(self._to_seq(columns)), self.spark)

    def _run_in_parts(self, outcomes: Sequence[Outcome]) -> None:
        """Usually the analysis rejects only one of them: the others can still run together."""
        if len(outcomes) == 1:
            self._run_alone(outcomes[0])
            return
        taken = []
        for outcome in outcomes:
            try:
                self._selected([_spark_sql(outcome)])
                taken.append(outcome)
            except Exception as error:
                outcome.refused = str(error).split("\n")[0]
        if len(taken) < len(outcomes):
            for group in _grouped(taken):
                self._run(group)
            return
        middle = len(outcomes) // 2
        self._run(outcomes[:middle])
        self._run(outcomes[middle:])

    def _run_alone(self, outcome: Outcome) -> None:
        outcome.got = None
        try:
            frame = prepare(self.spark, outcome.plan).run({"t": self.frame})
        except Exception as error:
            outcome.refused = str(error).split("\n")[0]
            return
        try:
            outcome.got = values(frame.toArrow()["v"])
        except Exception as error:
            outcome.stopped = str(error).split("\n")[0]


def _spark_sql(outcome: Outcome) -> str:
    return str(outcome.plan.items[0]).removesuffix(" AS `v`")


def _grouped(outcomes: Sequence[Outcome]) -> Iterator[list[Outcome]]:
    """Groups of expressions for one query."""
    group: list[Outcome] = []
    length = 0
    for outcome in outcomes:
        length += len(_spark_sql(outcome))
        if group and (len(group) == _TOGETHER or length > _CHARACTERS):
            yield group
            group, length = [], len(_spark_sql(outcome))
        group.append(outcome)
    if group:
        yield group


def _masked(outcome: Outcome) -> str:
    if not outcome.failing:
        return outcome.expr.sql
    return f"CASE WHEN id NOT IN ({', '.join(map(str, outcome.failing))}) THEN {outcome.expr.sql} END"
