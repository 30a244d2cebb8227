"""A fixed time for SQL.

Spark replaces `current_timestamp()` when it optimizes a plan, with the time of that moment; nothing can set it. But
each case has a session with its own function registry, in which other functions can take these names.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def parse_instant(text: str) -> datetime:
    """Return a time in UTC; without a zone it is UTC. Raises ValueError."""
    found = datetime.fromisoformat(text)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def fix_time(spark: SparkSession, now: datetime) -> None:
    """Let the functions for the current time return ``now`` in this session."""
    local = f"{now:%Y-%m-%d %H:%M:%S.%f}"
    values = {
        "current_timestamp": ("TIMESTAMP", f"TIMESTAMP '{local}+00:00'"),
        "localtimestamp": ("TIMESTAMP_NTZ", f"TIMESTAMP_NTZ '{local}'"),
        "current_date": ("DATE", f"DATE '{local[:10]}'"),
    }
    session: Any = spark._jsparkSession
    jvm: Any = spark._jvm
    registry, identifier = session.sessionState().functionRegistry(), jvm.org.apache.spark.sql.catalyst
    option = jvm.scala.Option.apply
    for name, (type_, value) in values.items():
        # a temporary function cannot replace a built-in one
        registry.dropFunction(identifier.FunctionIdentifier(name, option("builtin"), option("system")))
        session.sql(f"CREATE TEMPORARY FUNCTION {name}() RETURNS {type_} RETURN {value}")
