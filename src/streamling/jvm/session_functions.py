"""The SQL functions of a session."""

from __future__ import annotations

from typing import Any

from streamling.sql.catalog import FORBIDDEN, FORBIDDEN_TABLES


def remove_unsafe_functions(jvm: Any) -> None:
    """Remove functions that reach outside the query from the JVM, for this session and all sessions created from it.
    The compiler already rejects SQL transforms that call one; this is a second barrier. Costs 6 ms."""
    analysis = jvm.org.apache.spark.sql.catalyst.analysis
    identifier = jvm.org.apache.spark.sql.catalyst.FunctionIdentifier
    scalars, tables = analysis.FunctionRegistry.builtin(), analysis.TableFunctionRegistry.builtin()
    for name in sorted(FORBIDDEN):
        scalars.dropFunction(identifier(name))
    for name in sorted(FORBIDDEN_TABLES):
        tables.dropFunction(identifier(name))
