"""Parquet files: columns as their footers declare them, in the types Spark gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

import pyarrow as pa

from streamling.errors import StreamlingError
from streamling.sources._file_sample import Sample

#: types without a counterpart in Spark, which reads the next wider one
_WIDENED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
}


def take_sample(stream: IO[bytes], path: str, limit: int) -> Sample | None:
    """Columns of the footer; ``limit`` does not matter."""
    from pyarrow import parquet

    try:
        footer = parquet.ParquetFile(pa.PythonFile(stream, mode="r"))
    except pa.ArrowInvalid as error:
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
    return Sample(fields, with_nulls=_with_nulls(footer), nanoseconds=nanoseconds)


def find_misfit(stream: IO[bytes], path: str, types: Mapping[str, pa.DataType]) -> str | None:
    """Which column has another type than the source's schema says; None when all fit."""
    sample = take_sample(stream, path, 0)
    for field in sample.fields if sample else []:
        expected = types.get(field.name, field.type)
        if common_type(expected, field.type) != expected:
            return f"column '{field.name}' is {field.type} where {expected} is expected"
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
    try:
        return pa.field(field.name, spark_type(field.type))
    except TypeError:
        raise StreamlingError.user(
            f"column '{field.name}' of '{path}' has the type {field.type}, which Spark cannot read",
            remedy="write the column in another type",
        ) from None


def spark_type(kind: pa.DataType) -> pa.DataType:
    """The type of a Parquet column once Spark has read it; TypeError when Spark cannot."""
    if kind in _WIDENED:
        return _WIDENED[kind]
    if pa.types.is_dictionary(kind):
        return spark_type(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if pa.types.is_date(kind):
        return pa.date32()
    if pa.types.is_decimal(kind) and kind.precision <= 38:
        return pa.decimal128(kind.precision, kind.scale)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(spark_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, spark_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(spark_type(kind.key_type), spark_type(kind.item_type))
    if (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_null(kind)
    ):
        return kind
    raise TypeError(str(kind))
