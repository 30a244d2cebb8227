"""Names, texts and types as Spark SQL: the only way for data or user input to become part of a SQL text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


def quoted(name: str) -> str:
    """Quote a name for Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """Quote a text for Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def type_sql(type_: DataType) -> str:
    """Return a type with quoted field names; Spark's ``simpleString`` does not quote them, and truncates long ones."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(type_, ArrayType):
        return f"array<{type_sql(type_.elementType)}>"
    if isinstance(type_, MapType):
        return f"map<{type_sql(type_.keyType)}, {type_sql(type_.valueType)}>"
    if isinstance(type_, StructType):
        return f"struct<{', '.join(f'{quoted(field.name)}: {type_sql(field.dataType)}' for field in type_)}>"
    return type_.simpleString()
