"""Hostile text at random places of valid SQL: rejected as a problem of the SQL, or taken literally."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import sqlglot

from streamling.connectors.kafka.filter import SourceFilter
from streamling.errors import StreamlingError
from streamling.sql.frames import prepare
from streamling.sql.plan import Project, Read, sql_expressions
from streamling.sql.problems import InvalidSql
from streamling.sql.statement import Statement
from tests.fuzz.budget import rounds
from tests.sql.hostile import COLUMNS, SCHEMA, arm, hostile_row, is_canary_dead

_CORPUS = Path(__file__).parents[1] / "corpus/sql"
VALID = (_CORPUS / "valid.sql").read_text().splitlines()
SNIPPETS = (_CORPUS / "snippets.txt").read_text().splitlines()
#: statements in one round, of which those that compile run together
_STATEMENTS = 60


def spliced(chance: random.Random) -> str:
    """A valid statement with one to three fragments inserted, or in place of a word."""
    sql = chance.choice(VALID)
    for _ in range(chance.choice((1, 1, 2, 3))):
        piece = chance.choice(SNIPPETS)
        try:
            tokens = sqlglot.tokenize(sql, read="spark")
        except Exception:  # the previous fragment opened a quote
            tokens = []
        if tokens and chance.random() < 0.7:
            token = chance.choice(tokens)
            start, end = token.start, token.end + 1
            if chance.random() < 0.4 and end - start > 2:  # inside of it, behind an opening quote
                start = end = chance.randrange(start + 1, end)
            elif chance.random() < 0.3:
                end = start
        else:
            start = end = chance.randrange(len(sql) + 1)
        sql = sql[:start] + piece + sql[end:]
    return sql


def compiled(sql: str) -> Any:
    """The plan, or None if the text is rejected. Nothing else may be raised."""
    try:
        outcome = Statement(sql).compile({"t": COLUMNS})
    except InvalidSql:
        return None
    return None if outcome.problems else outcome.plan


def as_filter(sql: str) -> None:
    try:
        SourceFilter(sql.partition("WHERE")[2] or sql).compile(SCHEMA)
    except StreamlingError:
        return


@pytest.mark.spark
def test_hostile_text_never_becomes_sql(spark: Any) -> None:
    session = spark.newSession()
    arm(session)
    rows = hostile_row(session)
    parser = session._jsparkSession.sessionState().sqlParser()
    ran = 0
    for chance in rounds():
        items: list[str] = []
        for _ in range(_STATEMENTS):
            sql = spliced(chance)
            as_filter(sql)
            plan = compiled(sql)
            if plan is None:
                continue
            for text in sql_expressions(plan):
                parser.parseExpression(text)  # what is emitted is always an expression
            items += [item for item in getattr(plan, "items", ()) if isinstance(plan, Project) and not plan.explodes]
        ran += _run(session, rows, items)
    assert ran
    assert is_canary_dead(session)


def _run(session: Any, rows: Any, items: list[str]) -> int:
    """Run items that Spark accepts; a value that cannot be computed stops a query, so they are halved until it is
    alone."""
    if not items:
        return 0
    try:
        prepare(session, Project(Read("t"), tuple(items))).run({"t": rows}).toArrow()
        return len(items)
    except Exception:
        if len(items) == 1:
            return 0
        middle = len(items) // 2
        return _run(session, rows, items[:middle]) + _run(session, rows, items[middle:])
