"""Random SQL expressions mean what they mean in DataFusion, or differ as tests/corpus/sql/differences.yaml says.

``STREAMLING_TEST_SQL_EXPRESSIONS`` says how many a round has (2 000 for a release).
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.fuzz.budget import SECONDS, rounds
from tests.fuzz.sql_differences import RULES, declared
from tests.fuzz.sql_engines import Here, Outcome, ask_datafusion
from tests.fuzz.sql_grammar import Grammar, table

COUNT = int(os.environ.get("STREAMLING_TEST_SQL_EXPRESSIONS", "200"))
PAGE = Path(__file__).parents[2] / "docs" / "transforms" / "sql.md"
DIFFERENT = ("differs", "stops", "refused")


@pytest.fixture(scope="module")
def interpreted(spark: Any) -> Any:
    """Few rows and many expressions: compiling them would take longer than running them."""
    session = spark.newSession()
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    return session


def outcomes(session: Any, chance: random.Random, rows: pa.Table) -> list[Outcome]:
    grammar = Grammar(chance)
    expressions = {expression.sql: expression for expression in (grammar.expression() for _ in range(COUNT))}
    asked = [Outcome(expression) for expression in expressions.values()]
    ask_datafusion(asked, rows)
    Here(session, rows).ask(asked)
    return asked


@pytest.mark.spark
def test_random_expressions_mean_what_they_mean_in_datafusion(interpreted: Any) -> None:
    for chance in rounds(min(SECONDS, 1) if SECONDS <= 10 else SECONDS):
        found = outcomes(interpreted, chance, table(chance, 16))
        equal = sum(outcome.verdict == "equal" for outcome in found)
        undeclared = [outcome for outcome in found if outcome.verdict in DIFFERENT and declared(outcome) is None]
        assert not undeclared, "\n".join(map(str, undeclared))
        assert equal > len(found) / 2


@pytest.mark.spark
@pytest.mark.parametrize("sql", ["i32 + 1", "d20_4 * d20_4", "text || '!'"])
def test_a_difference_is_noticed(interpreted: Any, sql: str) -> None:
    from tests.fuzz.sql_grammar import Expr

    rows = table(random.Random(1), 16)
    [outcome] = asked = [Outcome(Expr("literal", "i64", sql))]
    ask_datafusion(asked, rows)
    Here(interpreted, rows).ask(asked)
    assert outcome.verdict == "equal"
    assert outcome.got is not None
    outcome.got[0] = "something else"
    assert outcome.verdict == "differs"
    assert declared(outcome) is None


def test_the_page_lists_every_rule() -> None:
    page = PAGE.read_text()
    assert [rule.rule for rule in RULES if f"| {rule.rule} |" not in page] == []
