"""Spark's errors are translated for the user: their SQL and names, nothing of Spark's."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from streamling.errors import StreamlingError
from streamling.sql.errors import translate_sql_error
from streamling.sql.frames import prepare
from streamling.sql.plan import Column
from streamling.sql.statement import Statement
from streamling.types.spark import to_spark_schema

SCHEMA = pa.schema({"id": pa.int64(), "zero": pa.int32(), "word": pa.string(), "tags": pa.list_(pa.int64())})

# the SQL with ‸ around what the carets mark; the message; words of the remedy
CASES = [
    ("SELECT ‸id / zero‸ AS x FROM t", "division by zero", "nullif"),
    ("SELECT ‸id % zero‸ AS x FROM t", "division by zero in %", "nullif"),
    ("SELECT id / 2.5 AS x FROM t WHERE ‸id / zero‸ > 1", "division by zero", "nullif"),
    ("SELECT id,\n  ‸9223372036854775807 + id‸ AS x FROM t", "too large for its type", "wider"),
    ("SELECT ‸CAST(word AS INT)‸ AS x FROM t", "'w' cannot be converted to INT", "TRY_CAST"),
    ("SELECT ‸word::int‸ AS x FROM t", "'w' cannot be converted to INT", "TRY_CAST"),
    ("SELECT CAST(id + 1000 AS TINYINT) AS x FROM t", "does not fit into TINYINT", "TRY_CAST"),
    ("SELECT id FROM t WHERE ‸tags > 3‸", "ARRAY<BIGINT> and INT cannot be combined", "cast"),
    ("SELECT ‸upper(word, 1)‸ AS x FROM t", "upper() takes 1 argument(s), not 2", None),
    ("SELECT ‸CAST(tags AS INT)‸ AS x FROM t", "no cast from ARRAY<BIGINT> to INT", None),
    ("SELECT abs(‸CASE WHEN id THEN 1 ELSE 2 END‸) AS x FROM t", "id is BIGINT, expected BOOLEAN", None),
    (
        "SELECT CASE id WHEN 1 THEN ‸CASE WHEN zero THEN 1 END‸ ELSE 2 END AS x FROM t",
        "zero is INT, expected BOOLEAN",
        None,
    ),
    ("SELECT id FROM t UNION ALL SELECT tags FROM t", "branches of the UNION ALL have different types", "cast"),
    ("SELECT ‸coalesce(id, tags)‸ AS x FROM t", "different types", "cast"),
    ("SELECT ‸element_at(tags, 5)‸ AS x FROM t", "there is no element 5 in a list of 1", "try_element_at"),
    ("SELECT ‸1e999‸ AS x FROM t", "the number 1e999 does not fit into double", None),
    (
        "SELECT ‸xpath_string('<a/>', word)‸ AS x FROM t",
        "(DATATYPE_MISMATCH.NON_FOLDABLE_INPUT)",
        "documentation of error conditions",
    ),
    (
        "SELECT array_remove_all(tags, length(encode(digest(word, 'blake2b'), 'hex'))) AS x FROM t",
        "a list function cannot use a value that is computed in Python",
        "in a sql transform before this one",
    ),
    ("SELECT raise_error('stop here') AS x FROM t", "stop here", None),
]


@pytest.mark.spark
@pytest.mark.parametrize(("marked", "message", "remedy"), CASES, ids=[case[0] for case in CASES])
def test_is_translated_for_the_user(spark: Any, marked: str, message: str, remedy: str | None) -> None:
    sql = marked.replace("‸", "")
    error = failure(spark, sql)
    text = str(error)
    assert not error.internal
    assert message in text
    assert remedy is None or remedy in (error.remedy or "")
    for word in ("SQLSTATE", "spark.sql", "org.apache", "ansi", "try_add", "`"):
        assert word not in text
    if "‸" in marked:
        line, carets = text.split("\n")[1:3]
        assert line[carets.index("^") : carets.rindex("^") + 1] == marked.split("‸")[1]


def failure(spark: Any, sql: str) -> StreamlingError:
    compiled = Statement(sql).compile({"t": [Column(field.name, field.type) for field in SCHEMA]})
    assert not compiled.problems, compiled.problems
    frame = spark.createDataFrame([(1, 0, "w", [1])], to_spark_schema(SCHEMA))
    with pytest.raises(Exception) as failed:  # whatever Spark raises
        prepare(spark, compiled.plan).run({"t": frame}).collect()
    return translate_sql_error(failed.value, "node", Statement(sql))


def test_other_errors_stay_internal_and_keep_their_cause() -> None:
    cause = OSError("disk full")
    error = translate_sql_error(cause, "orders", Statement("SELECT 1"))
    assert error.internal
    assert error.__cause__ is cause
    assert "'orders'" in str(error)


def test_our_own_errors_pass_through() -> None:
    ours = StreamlingError.user("no")
    assert translate_sql_error(ours, "orders", Statement("SELECT 1")) is ours
