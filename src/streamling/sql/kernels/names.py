"""What kernels are called in the user's SQL."""

from __future__ import annotations

from collections.abc import Iterable

from streamling.sql.catalog import KERNEL_PREFIX
from streamling.sql.library.registry import functions

_PLUGIN, _WIDE = f"{KERNEL_PREFIX}own_", f"{KERNEL_PREFIX}wide_"


def sql_names(kernels: Iterable[str]) -> list[str]:
    """What the SQL of a user contains if Spark's plan calls ``kernels``, by Spark's names: functions, or wide
    numbers."""
    return list(dict.fromkeys(_sql_name(kernel) for kernel in kernels))


def _sql_name(kernel: str) -> str:
    if kernel.startswith(_WIDE):
        return "wide numbers"
    if kernel.startswith(_PLUGIN):
        return f"{kernel.removeprefix(_PLUGIN)}()"
    using = [function for function in functions() if any(each.spark_name == kernel for each in function.kernels)]
    return " or ".join(f"{function.name}()" for function in using) or kernel
