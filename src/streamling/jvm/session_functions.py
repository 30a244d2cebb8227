"""Which of Spark's SQL functions a session has."""

from __future__ import annotations

from typing import Any

from streamling.sql.catalog import FORBIDDEN, FORBIDDEN_TABLES


def remove_unsafe_functions(jvm: Any) -> None:
    """Take functions that reach out of the query out of the JVM, for this session and all that are made from it. A sql
    transform that names one is refused anyway; this is for text that found another way. Costs 6 ms."""
    analysis = jvm.org.apache.spark.sql.catalyst.analysis
    identifier = jvm.org.apache.spark.sql.catalyst.FunctionIdentifier
    scalars, tables = analysis.FunctionRegistry.builtin(), analysis.TableFunctionRegistry.builtin()
    for name in sorted(FORBIDDEN):
        scalars.dropFunction(identifier(name))
    for name in sorted(FORBIDDEN_TABLES):
        tables.dropFunction(identifier(name))
