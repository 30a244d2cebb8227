"""Random SQL expressions have DataFusion's meaning, or differ as tests/corpus/sql/differences.yaml says."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import datafusion as oracle
import pytest

from streamling.sql.frames import SparkStatement
from streamling.sql.statement import Statement
from tests.fuzz.budget import SECONDS, rounds
from tests.fuzz.sql_columns import table
from tests.fuzz.sql_differences import RULES, declared
from tests.fuzz.sql_engines import Engines, Here, Outcome
from tests.fuzz.sql_grammar import Expr, Grammar
from tests.sql.differential import values

COUNT = int(os.environ.get("STREAMLING_TEST_SQL_EXPRESSIONS", "180"))
#: in `make test` one round already takes a while
SOAKED = SECONDS if SECONDS > 10 else 0
PAGE = Path(__file__).parents[2] / "docs" / "transforms" / "sql.md"
DIFFERENT = ("differs", "stops", "refused")


@pytest.fixture(scope="module")
def interpreted(spark: Any) -> Any:
    """Few rows and many expressions: compiling them would take longer than interpreting them."""
    session = spark.newSession()
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    # the parser's caches for 12 000 expressions take 1.4 GB
    session.conf.set("spark.sql.parser.manageParserCaches", "true")
    session.conf.set("spark.sql.parser.parserDfaCacheFlushThreshold", "60000")
    return session


def described(outcome: Outcome) -> str:
    return f"{outcome.verdict}: {outcome.expr.sql}: {outcome.refused or outcome.stopped or outcome.differences[:3]}"


@pytest.mark.spark
def test_random_expressions_mean_what_they_mean_in_datafusion(interpreted: Any) -> None:
    for chance in rounds(SOAKED):
        engines = Engines(interpreted, table(chance, 16))
        found = engines.ask(Grammar(chance).expressions(COUNT))
        equal = sum(outcome.verdict == "equal" for outcome in found)
        rules = [(declared(outcome, engines), outcome) for outcome in found if outcome.verdict in DIFFERENT]
        print(f"{len(found)} expressions, {equal} equal, declared: {dict(Counter(rule for rule, _ in rules if rule))}")
        undeclared = [outcome for rule, outcome in rules if rule is None]
        assert not undeclared, "\n".join(map(described, undeclared))
        assert equal > len(found) / 2


PAIRS = (
    ("int", "int"),
    ("dec", "dec"),
    ("int", "dec"),
    ("int", "f64"),
    ("text", "int"),
    ("text", "text"),
    ("ts", "ts"),
)


def statements(chance: random.Random) -> Iterator[tuple[str, Expr]]:
    """Filters and unions; for an error it is enough to name the expression it may come from."""
    grammar = Grammar(chance)
    for _ in range(8):
        condition = grammar.make("bool", 2)
        yield f"SELECT id, id AS v FROM t WHERE {condition.sql}", condition
        a, b = (grammar.make(kind, 1) for kind in chance.choice(PAIRS))
        union = Expr("UNION ALL", a.kind, "", (a, b))
        yield f"SELECT id, {a.sql} AS v FROM t UNION ALL SELECT id + 100 AS id, {b.sql} AS v FROM t", union


@pytest.mark.spark
def test_random_filters_and_unions_give_the_rows_of_datafusion(interpreted: Any) -> None:
    for chance in rounds(SOAKED / 4):
        rows = table(chance, 16)
        context, here = oracle.SessionContext(), Here(interpreted, rows)
        context.from_arrow(rows, "t")
        for sql, expr in statements(chance):
            try:
                wanted = context.sql(sql).to_arrow_table().sort_by("id")
            except BaseException as error:  # a row that fails in DataFusion, also in a panic, or nothing that it takes
                if isinstance(error, KeyboardInterrupt):
                    raise
                continue
            outcome = Outcome(expr, wanted=values(wanted["v"]))
            try:
                frame = SparkStatement("node", Statement(sql)).apply(interpreted, {"t": here.frame})
                found = frame.toArrow().sort_by("id")
                outcome.got = values(found["v"])
                same = found["id"].to_pylist() == wanted["id"].to_pylist() and not outcome.differences
            except Exception as error:
                outcome.stopped, same = str(error).split("\n")[0], False
            assert same or declared(outcome), (sql, outcome.wanted, outcome.got, outcome.stopped)


@pytest.fixture(scope="module")
def engines(interpreted: Any) -> Engines:
    return Engines(interpreted, table(random.Random(3), 16))


@pytest.mark.spark
def test_a_difference_is_noticed(engines: Engines) -> None:
    outcomes = engines.ask(Expr("literal", "i64", sql) for sql in ("i32 + 1", "d20_4 * d20_4", "text || '!'"))
    for outcome in outcomes:
        assert outcome.verdict == "equal"
        assert outcome.got is not None
        outcome.got[0] = "something else"
        assert outcome.verdict == "differs"
        assert declared(outcome, engines) is None


NEGATIVE_ZERO = Expr(
    "nullif", "f64", "nullif({0}, {1})", (Expr("column", "f64", "f64"), Expr("column", "f64", "f64_2"))
)
UNSIGNED = Expr("-", "u8", "({0} - {1})", (Expr("column", "u8", "u8"), Expr("column", "u8", "u8_2")))
OVERFLOW = Expr("*", "i64", "({0} * {1})", (Expr("column", "i64", "i64"), Expr("column", "i64", "i64_2")))
ZERO = Expr("literal", "i64", "0")

#: the condition fails in some rows, and DataFusion does not compute it if both branches are false
SMALL = Expr("CAST AS i16", "i16", "CAST({0} AS SMALLINT)", (Expr("column", "i32", "i32"),))
CONDITION = Expr(
    "CASE",
    "bool",
    "CASE WHEN {2} THEN {0} ELSE {1} END",
    (
        Expr("column", "bool", "bool_2"),
        Expr("column", "bool", "bool_2"),
        Expr("<", "bool", "({0} < {1})", (SMALL, Expr("column", "i64", "i64"))),
    ),
)
#: DataFusion compares the column, with all of its digits
CAST = Expr(
    ">",
    "bool",
    "({0} > {1})",
    (Expr("CAST AS d38_0", "d38_0", "CAST({0} AS DECIMAL(38, 0))", (Expr("column", "d20_4", "d20_4"),)), ZERO),
)
LETTER = Expr("~*", "bool", "({0} ~* 'i')", (Expr("literal", "text", "'İ'"),))


class Wrong(Engines):
    """Differs in all rows."""

    def __init__(self, engines: Engines) -> None:
        self.rows, self.here = engines.rows, engines.here

    def ask(self, expressions: Iterable[Expr]) -> list[Outcome]:
        outcomes = super().ask(expressions)
        for outcome in outcomes:
            outcome.got = ["something else" for _ in outcome.got or ()]
        return outcomes


@pytest.mark.spark
def test_a_rule_excuses_nothing_else(engines: Engines) -> None:
    rules = {
        "negative zero": NEGATIVE_ZERO,
        "unsigned integers": UNSIGNED,
        "order of conditions": CONDITION,
        "casts in comparisons": CAST,
        "letters of regular expressions": LETTER,
    }
    covered = list(rules.values())
    assert [declared(outcome, engines) for outcome in engines.ask(covered)] == list(rules)
    wrong = Wrong(engines)
    assert [declared(outcome, wrong) for outcome in wrong.ask(covered)] == [None] * len(covered)


@pytest.mark.spark
def test_rows_are_compared_also_when_another_one_stops(engines: Engines) -> None:
    [outcome] = engines.ask([OVERFLOW])
    assert outcome.verdict == "stops"
    assert declared(outcome, engines) == "integer overflow"
    assert outcome.tried is not None
    row = next(row for row, value in enumerate(outcome.tried) if value is not None)
    outcome.tried[row] += 1
    assert declared(outcome, engines) is None


def test_an_error_where_datafusion_has_no_rows_is_a_difference() -> None:
    outcome = Outcome(OVERFLOW, wanted=[], stopped="[ARITHMETIC_OVERFLOW] overflow")
    assert outcome.verdict == "stops"
    assert declared(outcome) == "integer overflow"
    outcome.stopped = "[SOMETHING_ELSE]"
    assert declared(outcome) is None


def test_a_rule_about_values_can_be_checked() -> None:
    assert [rule.rule for rule in RULES if "differs" in rule.outcome and not (rule.operands or rule.instead)] == []


def test_the_page_lists_every_rule() -> None:
    page = PAGE.read_text()
    assert [rule.rule for rule in RULES if f"| {rule.rule} |" not in page] == []
