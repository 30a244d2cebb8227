"""Spark SQL that calls the kernels of wide numbers."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from streamling.sql.library.declaration import Kernel
from streamling.types.names import arrow_type_name
from streamling.types.wide.layout import FAILED, Layout


def call(kernel: Kernel, *arguments: str, types: Iterable[pa.DataType]) -> str:
    """A kernel over SQL arguments."""
    names = (text_literal(arrow_type_name(type_)) for type_ in types)
    return f"{kernel.spark_name}({', '.join([*arguments, *names])})"


def checked(value: str, layout: Layout, instead: str) -> str:
    """The result of a kernel; ``instead`` if it failed."""
    return f"IF(length({value}) <> {layout.width}, {instead}, {value})"


def failure(value: str) -> str:
    """Why a kernel failed."""
    return f"trim(substring(CAST({value} AS STRING), {len(FAILED) + 1}))"


def failed(why: str, layout: Layout) -> str:
    """The result of a kernel that fails because of ``why`` (SQL)."""
    text = f"concat('{FAILED.decode()}', {why})"
    return f"CAST(rpad({text}, {2 * layout.width + 64}, ' ') AS BINARY)"  # never as long as a number


def text_literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
