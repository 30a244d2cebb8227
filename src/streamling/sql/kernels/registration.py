"""Registers kernels and functions of plugins with a Spark session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streamling.spark.pickling import send_by_value
from streamling.sql.catalog import KERNEL_PREFIX
from streamling.sql.library import plugin_functions
from streamling.sql.library.registry import functions, kernels

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamling.sql.user_functions import SqlFunction


def register(spark: SparkSession, texts: Iterable[str], plugins: Mapping[str, type[SqlFunction]] | None = None) -> None:
    """Register the kernels and the functions of ``plugins`` that ``texts`` (Spark SQL) call. If there are
    none, Python workers never start."""
    joined = "\n".join(texts)
    if KERNEL_PREFIX not in joined:
        return
    for kernel in kernels():
        if f"{kernel.spark_name}(" in joined:
            module, _, name = kernel.path.rpartition(".")
            function = getattr(import_module(kernel.module or f"streamling.sql.kernels.{module}"), name)
            _register(spark, kernel.spark_name, function, kernel.returns)
    for name, plugin in (plugins or {}).items():
        if f"{plugin_functions.kernel(name).spark_name}(" in joined:
            send_by_value(plugin)
            function = plugin_functions.checked(name, plugin())
            returns = plugin_functions.spark_type(plugin.return_type)
            _register(spark, plugin_functions.kernel(name).spark_name, function, returns)


def _register(spark: SparkSession, name: str, function: Callable[..., pa.Array], returns: str) -> None:
    """Register a function of Arrow arrays with the session as ``name``."""
    from pyspark.sql.pandas.functions import arrow_udf

    make: Any = arrow_udf  # every overload requires the kind of function, which then logs a warning
    spark.udf.register(name, make(function, returns))


_PLUGIN, _WIDE = f"{KERNEL_PREFIX}own_", f"{KERNEL_PREFIX}wide_"


def sql_names(kernels: Iterable[str]) -> list[str]:
    """Return what the SQL of a user contains if Spark's plan calls ``kernels``, by Spark's names: functions, or wide
    numbers."""
    return list(dict.fromkeys(_sql_name(kernel) for kernel in kernels))


def _sql_name(kernel: str) -> str:
    if kernel.startswith(_WIDE):
        return "wide numbers"
    if kernel.startswith(_PLUGIN):
        return f"{kernel.removeprefix(_PLUGIN)}()"
    using = [function for function in functions() if any(each.spark_name == kernel for each in function.kernels)]
    return " or ".join(f"{function.name}()" for function in using) or kernel
