"""No text of a user becomes Spark SQL: as a literal or a name it may say anything."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from sqlglot import exp

from streamling.connectors.kafka.filter import SourceFilter
from streamling.sql.expressions import Expressions
from streamling.sql.frames import prepare
from streamling.sql.names import Relation
from streamling.sql.plan import Column, Read, table_lookups
from streamling.sql.printing import check_emitted
from streamling.sql.problems import InvalidSql, SqlProblem
from streamling.sql.source_text import Compilation
from streamling.sql.statement import Statement
from tests.sql.hostile import CANARY, COLUMNS, arm, hostile_row, is_canary_dead

CASES = yaml.safe_load((Path(__file__).parents[1] / "corpus/sql/hostile.yaml").read_text())


@pytest.fixture(scope="module")
def armed(spark: Any) -> Any:
    """A session in which Java can be called, so that only the compiler prevents it."""
    session = spark.newSession()
    arm(session)
    session.range(1).selectExpr(CANARY).collect()
    assert not is_canary_dead(session)  # the canary works
    return session


@pytest.mark.spark
def test_hostile_sql_is_rejected_or_taken_literally(armed: Any) -> None:
    rows = hostile_row(armed)
    for case in CASES:
        sql = case["sql"]
        try:
            compiled = Statement(sql).compile({"t": COLUMNS})
            problems = compiled.problems
        except InvalidSql as refused:
            problems = refused.problems
        assert all(isinstance(problem, SqlProblem) for problem in problems)
        if "refused" in case:
            assert any(case["refused"] in problem.message for problem in problems), (sql, problems)
            continue
        assert not problems, (sql, problems)
        if "checks" in case:
            assert [lookup.table for lookup in table_lookups(compiled.plan)] == [case["checks"]]
            continue
        [row] = prepare(armed, compiled.plan).run({"t": rows}).collect()
        if "columns" in case:
            assert list(row.asDict()) == case["columns"]
        else:
            assert row.asDict(recursive=True)["v"] == case["value"], sql
    assert is_canary_dead(armed)


HOSTILE = "x') FROM y), reflect('a`b\"c', \\'d\\"


def _nodes() -> Iterator[exp.Expr]:
    """Every class of the parser with hostile text in every part, as each kind of leaf."""
    classes = {each for each in vars(exp).values() if isinstance(each, type) and issubclass(each, exp.Expression)}
    for class_ in sorted(classes, key=lambda each: each.__name__):
        for part in class_.arg_types:
            for text in (HOSTILE, "SELECT"):
                leaves: list[Any] = [text, exp.Literal.string(text), exp.Literal.number(text), exp.Var(this=text)]
                leaves += [exp.to_identifier(text, quoted=quoted) for quoted in (True, False)]
                leaves += [exp.Anonymous(this=text), exp.column(exp.to_identifier(text, quoted=False))]
                leaves += [exp.DataType(this=exp.DType.USERDEFINED, kind=text), exp.Interval(this=exp.Var(this=text))]
                for leaf in [*leaves, *([each] for each in leaves)]:
                    others = {other: exp.column("a") for other, needed in class_.arg_types.items() if needed}
                    yield class_(**{**others, part: leaf})


def _outside_of_quotes(text: str) -> str:
    return re.sub(r"'(?:[^'\\]|\\.)*'|`(?:[^`]|``)*`", "''", text, flags=re.S)


@pytest.mark.slow
def test_every_node_of_the_parser_is_rejected_or_has_its_text_quoted() -> None:
    emitted = 0
    for node in _nodes():
        compilation = Compilation(Statement("SELECT a FROM t").text, {})
        expressions = Expressions(compilation, Relation(Read("t"), None))
        try:
            sql, _ = expressions.spark(node)
        except (AttributeError, AssertionError, KeyError, NotImplementedError, TypeError, ValueError):
            continue  # a tree that the parser never produces
        if not compilation.problems:
            emitted += 1
            assert re.search(r"reflect|SELECT|\\d|y\)", _outside_of_quotes(sql)) is None, (repr(node), sql)
    assert emitted > 100


@pytest.mark.parametrize(
    "text",
    [
        "reflect('a', 'b')",
        "1 + java_method ('a')",
        "(SELECT 1)",
        "EXTRACT(year FROM a)",
        "a -- b",
        "a /* b */",
        "a; b",
        '"a"',
        "${env:HOME}",
        "unknown(a)",
        "IDENTIFIER('a')",
        "'open",
        "`open",
        "@a",
        "x'",
    ],
)
def test_emitted_sql_is_checked_again(text: str) -> None:
    assert check_emitted(text) is not None


@pytest.mark.parametrize(
    "text", ["`a``b` + 1.5D", "'it\\'s \\\\' || upper(`x`)", "a IS NOT DISTINCT FROM 3L", "`a`.`b`[1]"]
)
def test_plain_expressions_pass(text: str) -> None:
    assert check_emitted(text) is None


def test_names_from_data_are_quoted_everywhere() -> None:
    columns = [Column("x') , reflect('`", pa.string()), Column("a.b", pa.struct([("f`, reflect('", pa.int64())]))]
    [project] = [Statement('SELECT *, "a.b"."f`, reflect(\'" AS v FROM t').compile({"t": columns}).plan]
    assert [_outside_of_quotes(item) for item in project.items] == ["''", "''", "''.'' AS ''"]  # type: ignore[union-attr]


@pytest.mark.spark
def test_sessions_cannot_reach_outside(spark: Any) -> None:
    """Text that gets past the compiler finds nothing to call."""
    for session in (spark, spark.newSession()):
        for text in (
            "reflect('java.lang.System', 'getProperty', 'user.dir')",
            "java_method('java.lang.System', 'getProperty', 'user.dir')",
            "try_reflect('java.lang.System', 'getProperty', 'user.dir')",
            "builtin.reflect('java.lang.System', 'getProperty', 'user.dir')",
            "input_file_name()",
            "(SELECT * FROM csv.`/etc/hostname`)",
            "(SELECT * FROM text.`/etc/hostname`)",
            "(SELECT count(*) FROM python_worker_logs())",
        ):
            with pytest.raises(Exception, match=r"UNRESOLVED_ROUTINE|TABLE_OR_VIEW_NOT_FOUND|UNRESOLVABLE_TABLE"):
                session.range(1).selectExpr(text).collect()
        [row] = session.range(1).selectExpr("'${env:HOME} ${system:user.dir} ${x}' AS v").collect()
        assert row.v == "${env:HOME} ${system:user.dir} ${x}"


@pytest.mark.spark
def test_nothing_is_substituted_in_the_filter_of_a_source(spark: Any) -> None:
    rows = spark.createDataFrame([("${env:HOME}",), ("literal ${foo}",), ("literal ",)], "a string")
    schema = pa.schema({"a": pa.string()})
    kept = SourceFilter("a IN ('${env:HOME}', 'literal ${foo}')").apply(rows, schema, unless="false")
    assert [row.a for row in kept.collect()] == ["${env:HOME}", "literal ${foo}"]
