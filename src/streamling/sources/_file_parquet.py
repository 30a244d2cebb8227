"""Parquet files: columns as their footers declare them, in the types Spark gives them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import IO, Any, Final

import pyarrow as pa

from streamling.errors import StreamlingError
from streamling.sources._file_sample import Sample
from streamling.types.names import readable
from streamling.types.spark import carrier
from streamling.types.wide import ARROW_DIGITS, contains_wide, decimal_type

#: what pyarrow says of a file that it does not open for that; it does not say which column it is
_TOO_MANY_DIGITS: Final = re.compile(r"Decimal precision out of range .*: (\d+)")


def take_sample(stream: IO[bytes], path: str, limit: int) -> Sample:
    """Columns of the footer; ``limit`` does not matter."""
    from pyarrow import parquet

    try:
        footer = parquet.ParquetFile(stream)
    except pa.ArrowInvalid as error:
        if match := _TOO_MANY_DIGITS.search(str(error)):
            raise StreamlingError.user(
                f"'{path}' has a decimal of {match[1]} digits, and of Parquet files at most {ARROW_DIGITS} can be read",
                remedy="write the column as text, or with fewer digits",
            ) from None
        raise StreamlingError.user(
            f"'{path}' is no Parquet file",
            cause=error,
            remedy="write the file again, or take it out of the folder",
        ) from error
    schema = footer.schema_arrow
    # Impala's 96-bit timestamps look like nanoseconds to Arrow, but Spark reads them as they are.
    wide = {column.path.split(".")[0] for column in _columns(footer) if column.physical_type == "INT96"}
    nanoseconds = frozenset(
        field.name
        for field in schema
        if pa.types.is_timestamp(field.type) and field.type.unit == "ns" and field.name not in wide
    )
    fields = [_spark_field(field, path, wide) for field in schema]
    untyped = frozenset(field.name for field in schema if pa.types.is_null(field.type))
    return Sample(fields, with_nulls=_with_nulls(footer), untyped=untyped, nanoseconds=nanoseconds)


def find_misfit(stream: IO[bytes], path: str, types: Mapping[str, pa.DataType], lines_before: int = 0) -> str | None:
    """Which column has another type than the source's schema says; None when all fit. There are no lines."""
    return find_type_misfit(take_sample(stream, path, 0).fields, types)


def find_type_misfit(fields: Iterable[pa.Field], types: Mapping[str, pa.DataType]) -> str | None:
    """`find_misfit` for formats that declare their columns."""
    for field in fields:
        expected = types.get(field.name, field.type)
        if common_type(expected, field.type) != expected:
            return f"column '{field.name}' is {readable(field.type)} where {readable(expected)} is expected"
    return None


def common_type(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type Spark can read both as, None when there is none."""
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if pa.types.is_signed_integer(one) and pa.types.is_signed_integer(other):
        return one if one.bit_width > other.bit_width else other
    if pa.types.is_floating(one) and pa.types.is_floating(other):
        return pa.float64()
    if pa.types.is_decimal256(one) and pa.types.is_decimal256(other) and one.scale == other.scale:
        return one if one.precision > other.precision else other
    return None


def _columns(footer: Any) -> list[Any]:
    return [footer.schema.column(i) for i in range(len(footer.schema))]


def _with_nulls(footer: Any) -> frozenset[str]:
    """Columns whose statistics count nulls; files without statistics tell nothing."""
    groups = [footer.metadata.row_group(i) for i in range(footer.metadata.num_row_groups)]
    chunks = [group.column(i) for group in groups for i in range(group.num_columns)]
    return frozenset(
        chunk.path_in_schema
        for chunk in chunks
        if chunk.statistics is not None and chunk.statistics.has_null_count and chunk.statistics.null_count
    )


def _spark_field(field: pa.Field, path: str, wide: set[str]) -> pa.Field:
    if field.name in wide and pa.types.is_timestamp(field.type):
        return pa.field(field.name, pa.timestamp("us", "UTC"))
    check_readable(field, path)
    return pa.field(field.name, _plain(field.type))


def check_readable(field: pa.Field, path: str) -> None:
    """Refuse a type that Spark has no room for."""
    try:
        carrier(field.type)
    except StreamlingError as error:
        raise error.context(f"column '{field.name}' of '{path}'") from None


def _plain(kind: pa.DataType) -> pa.DataType:
    """``kind`` without what only concerns Arrow's memory, with timestamps as Spark counts them."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_decimal(kind):
        return decimal_type(kind.precision, kind.scale)
    if contains_wide(kind):
        return _plain_parts(kind)
    if pa.types.is_integer(kind) or pa.types.is_null(kind):
        return kind
    return carrier(kind)


def _plain_parts(kind: pa.DataType) -> pa.DataType:
    """Of a type with wide decimals inside, which are no carriers yet."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _part(field.type), field.nullable) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_part(kind.key_type), _part(kind.item_type))
    return pa.list_(_part(kind.value_type))


def _part(kind: pa.DataType) -> pa.DataType:
    return _plain(kind) if contains_wide(kind) else carrier(kind)
