"""Registers kernels with a Spark session."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streamling.sql.catalog import KERNEL_PREFIX
from streamling.sql.library.declaration import Kernel
from streamling.sql.library.registry import kernels

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession, texts: Iterable[str]) -> None:
    """Register the kernels that ``texts`` (Spark SQL) call. If there are none, Python workers never start."""
    joined = "\n".join(texts)
    if KERNEL_PREFIX not in joined:
        return
    for kernel in kernels():
        if f"{kernel.spark_name}(" in joined:
            _register(spark, kernel)


def register_function(spark: SparkSession, name: str, function: Callable[..., pa.Array], returns: str) -> None:
    """Register a function of Arrow arrays with the session as ``name``."""
    from pyspark.sql.pandas.functions import arrow_udf

    make: Any = arrow_udf  # every overload requires the kind of function, which then logs a warning
    spark.udf.register(name, make(function, returns))


def _register(spark: SparkSession, kernel: Kernel) -> None:
    module, _, name = kernel.path.rpartition(".")
    function = getattr(import_module(kernel.module or f"streamling.sql.kernels.{module}"), name)
    register_function(spark, kernel.spark_name, function, kernel.returns)
