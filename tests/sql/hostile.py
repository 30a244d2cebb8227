"""A call of Java that leaves a trace, and a row for hostile SQL."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pyarrow as pa

from streamling.sql.plan import Column
from streamling.types.spark import to_spark_schema

_PROPERTY = "streamling.canary"
CANARY = "canary()"
SCHEMA = pa.schema(
    {
        "a": pa.string(),
        "n": pa.int64(),
        "ts": pa.timestamp("us"),
        "li": pa.list_(pa.int64()),
        "st": pa.struct([("f", pa.int64())]),
        "m": pa.map_(pa.string(), pa.int64()),
        CANARY: pa.string(),
        "o`dd": pa.string(),
    }
)
COLUMNS = [Column(field.name, field.type) for field in SCHEMA]
_ROW = ("x", 7, datetime(2024, 5, 6, 7, 8, 9), [1, 2, 3], (1,), {"k": 1}, "from the column", "odd")


def hostile_row(session: Any) -> Any:
    return session.createDataFrame([_ROW], to_spark_schema(SCHEMA))


def arm(session: Any) -> None:
    """Give one session `reflect` back, and `CANARY`, which calls it."""
    registry = session._jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry
    entry = registry.expressions().apply("reflect")
    option = session._jvm.scala.Option.apply
    place = option("builtin"), option("system")
    name = session._jvm.org.apache.spark.sql.catalyst.FunctionIdentifier("reflect", *place)
    session._jsparkSession.sessionState().functionRegistry().registerFunction(name, entry._1(), entry._2())
    call = f"reflect('java.lang.System', 'setProperty', '{_PROPERTY}', 'alive')"
    session.sql(f"CREATE TEMPORARY FUNCTION {CANARY} RETURNS STRING RETURN {call}")


def is_canary_dead(session: Any) -> bool:
    """Whether it has not been called since the last check."""
    system = session._jvm.java.lang.System
    found = system.getProperty(_PROPERTY)
    system.clearProperty(_PROPERTY)
    return found is None
