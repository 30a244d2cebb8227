"""Declares the functions of plugins like all others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streamling.errors import StreamlingError
from streamling.spark.python_errors import from_executor_error, to_executor_error
from streamling.spark.sql_text import type_sql
from streamling.sql.fragments import Args, fill
from streamling.sql.library.declaration import Function, Kernel

if TYPE_CHECKING:
    from streamling.sql.user_functions import SqlFunction


def declared(functions: Mapping[str, type[SqlFunction]]) -> Mapping[str, Function]:
    """Return the functions by name, for the compiler."""
    return {name: _declared(name, function) for name, function in functions.items()}


def translate_error(error: Exception, functions: Mapping[str, type[SqlFunction]]) -> StreamlingError | None:
    """Translate an error that one of them raised."""
    return next((failure for name in functions if (failure := from_executor_error(error, f"{name}()"))), None)


def _declared(name: str, function: type[SqlFunction]) -> Function:
    def build(args: Args) -> Any:
        casts = ", ".join(
            f"CAST({{{place}}} AS {spark_type(type_)})" for place, type_ in enumerate(function.argument_types)
        )
        return fill(f"{kernel(name).spark_name}({casts})", args)

    kinds = " ".join(str(type_).replace(" ", "") for type_ in function.argument_types)
    summary = (function.__doc__ or "").strip().partition("\n")[0]
    return Function(name, kinds, build, summary, "", function.return_type, uses=(kernel(name),))


def kernel(name: str) -> Kernel:
    return Kernel(f"own.{name}", "")


def spark_type(type_: pa.DataType) -> str:
    from streamling.types.spark import to_spark_type

    return type_sql(to_spark_type(type_))


def checked(name: str, function: SqlFunction) -> Any:
    def call(*arguments: pa.Array) -> pa.Array:
        try:
            return check(*arguments)
        except Exception as error:
            raise to_executor_error(error, f"{name}()", f"{name}()") from None

    def check(*arguments: pa.Array) -> pa.Array:
        result = function.call(*arguments)
        if not isinstance(result, pa.Array) or result.type != function.return_type:
            found = result.type if isinstance(result, pa.Array) else type(result).__name__
            raise StreamlingError(f"returned {found}, declared {function.return_type}")
        if arguments and len(result) != len(arguments[0]):
            raise StreamlingError(f"returned {len(result)} values for {len(arguments[0])} rows")
        return result

    return call
