"""SQL functions that reach outside the query: into the JVM, the file system or the log of other queries."""

from __future__ import annotations

from typing import Any, Final

UNSAFE_FUNCTIONS: Final = frozenset(
    (
        "from_protobuf",
        "input_file_block_length",
        "input_file_block_start",
        "input_file_name",
        "java_method",
        "reflect",
        "to_protobuf",
        "try_reflect",
    )
)
#: other table functions create rows from their arguments
UNSAFE_TABLE_FUNCTIONS: Final = frozenset(("python_worker_logs",))


def remove_unsafe_functions(jvm: Any) -> None:
    """Remove them from the JVM, for this session and all sessions created from it. The compiler already rejects SQL
    transforms that call one; this is a second barrier. Costs 6 ms."""
    analysis = jvm.org.apache.spark.sql.catalyst.analysis
    identifier = jvm.org.apache.spark.sql.catalyst.FunctionIdentifier
    scalars, tables = analysis.FunctionRegistry.builtin(), analysis.TableFunctionRegistry.builtin()
    for name in sorted(UNSAFE_FUNCTIONS):
        scalars.dropFunction(identifier(name))
    for name in sorted(UNSAFE_TABLE_FUNCTIONS):
        tables.dropFunction(identifier(name))
