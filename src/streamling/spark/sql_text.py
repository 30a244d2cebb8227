"""Names, texts and types as Spark SQL: the only way that data or user input becomes part of a SQL text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


def quoted(name: str) -> str:
    """A name that Spark reads back unchanged."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A text that Spark reads back unchanged."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def type_sql(type_: DataType) -> str:
    """A type with the names of its fields in quotes; Spark's ``simpleString`` leaves them bare, and cuts long ones."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(type_, ArrayType):
        return f"array<{type_sql(type_.elementType)}>"
    if isinstance(type_, MapType):
        return f"map<{type_sql(type_.keyType)}, {type_sql(type_.valueType)}>"
    if isinstance(type_, StructType):
        return f"struct<{', '.join(f'{quoted(field.name)}: {type_sql(field.dataType)}' for field in type_)}>"
    return type_.simpleString()
