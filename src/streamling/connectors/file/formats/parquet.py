"""Parquet files: columns as their footers declare them, in Spark's types."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import partial
from typing import IO, Any, Final

import pyarrow as pa

from streamling.connectors.file.formats.sample import FileSample
from streamling.errors import StreamlingError
from streamling.types.names import readable
from streamling.types.spark import physical_type
from streamling.types.wide.layout import ARROW_DIGITS, contains_wide, decimal_type, is_wide

_INSTANT: Final = pa.timestamp("us", "UTC")
#: Arrow's type for a Parquet UUID, which Spark does not read
_UUID: Final = "arrow.uuid"
#: pyarrow's error for a decimal that it cannot read; it does not name the column
_TOO_MANY_DIGITS: Final = re.compile(r"Decimal precision out of range .*: (\d+)")


def take_sample(stream: IO[bytes], path: str, limit: int) -> FileSample:
    """Return the columns of the footer; ``limit`` is ignored."""
    from pyarrow import parquet

    try:
        footer = parquet.ParquetFile(stream)
    except (pa.ArrowException, OSError) as error:
        if match := _TOO_MANY_DIGITS.search(str(error)):
            raise StreamlingError.user(
                f"'{path}' has a decimal of {match[1]} digits, but Parquet files can have at most {ARROW_DIGITS}",
                remedy="write the column as text, or with fewer digits",
            ) from None
        raise StreamlingError.user(
            f"'{path}' is not a valid Parquet file",
            cause=error,
            remedy="write the file again, or remove it from the folder",
        ) from error
    schema = footer.schema_arrow
    int96 = frozenset(column.path.split(".")[0] for column in _columns(footer) if column.physical_type == "INT96")
    stored = {field.name: field.type for field in schema}
    if len(stored) < len(schema):
        raise StreamlingError.user(f"'{path}' has two columns with the same name", remedy="rename one of them")
    fields = [pa.field(field.name, _source_type(field, path, field.name in int96)) for field in schema]
    return FileSample(fields, _with_nulls(footer), stored, int96)


def find_schema_mismatch(
    stream: IO[bytes], path: str, types: Mapping[str, pa.DataType], lines_before: int = 0
) -> str | None:
    """Describe the column whose type differs from the source's schema; None if all match. Lines do not apply."""
    return find_type_mismatch(take_sample(stream, path, 0).fields, types)


def find_type_mismatch(fields: Iterable[pa.Field], types: Mapping[str, pa.DataType]) -> str | None:
    """Implement `find_schema_mismatch` for formats that declare their columns."""
    for field in fields:
        expected = types.get(field.name, field.type)
        if common_type(expected, field.type) != expected:
            return f"column '{field.name}' has type {readable(field.type)}, expected {readable(expected)}"
    return None


def common_type(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return the type that both can be read as without loss, or None."""
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    for is_kind in (pa.types.is_signed_integer, pa.types.is_unsigned_integer):
        if is_kind(one) and is_kind(other):
            return one if one.bit_width > other.bit_width else other
    if pa.types.is_floating(one) and pa.types.is_floating(other):
        return pa.float64()
    if pa.types.is_decimal256(one) and pa.types.is_decimal256(other) and one.scale == other.scale:
        return one if one.precision > other.precision else other
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        return _common_struct(one, other)
    if pa.types.is_list(one) and pa.types.is_list(other):
        return _nested(pa.list_, common_type(one.value_type, other.value_type))
    if pa.types.is_map(one) and pa.types.is_map(other) and one.key_type == other.key_type:
        return _nested(partial(pa.map_, one.key_type), common_type(one.item_type, other.item_type))
    return None


def _common_struct(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return the fields of both; a file that lacks one has nulls there."""
    types: dict[str, pa.DataType | None] = {}
    for field in (*one, *other):
        before = types.setdefault(field.name, field.type)
        types[field.name] = None if before is None else common_type(before, field.type)
    if None in types.values():
        return None
    return pa.struct(list(types.items()))


def _nested(make: Callable[[pa.DataType], pa.DataType], part: pa.DataType | None) -> pa.DataType | None:
    return None if part is None else make(part)


# ── reading columns with Spark ───────────────────────────────────────────────────────────────────────────────


class Conversion(Enum):
    """How a column of one file is converted to the column of the source."""

    #: Spark reads it unchanged
    PLAIN = "plain"
    #: Spark reads nanoseconds as a number, and the plan converts it to a timestamp
    NANOSECONDS = "nanoseconds"
    #: only nulls without a type: it is not read
    UNTYPED = "untyped"
    #: Arrow reads the file
    ARROW = "arrow"


def conversion_of(name: str, sample: FileSample, type_: pa.DataType) -> Conversion:
    """Return how column ``name`` of the file behind ``sample`` is converted to its type in the source."""
    stored = sample.stored[name]
    if pa.types.is_null(stored):
        return Conversion.UNTYPED
    if name in sample.int96:
        return Conversion.PLAIN if type_ == _INSTANT else Conversion.ARROW
    if pa.types.is_timestamp(stored) and stored.unit == "ns":
        return Conversion.NANOSECONDS
    return Conversion.PLAIN if _spark_reads(stored, type_) else Conversion.ARROW


def _spark_reads(stored: pa.DataType, type_: pa.DataType) -> bool:
    if pa.types.is_dictionary(stored):
        return _spark_reads(stored.value_type, type_)
    if isinstance(stored, pa.BaseExtensionType):
        return stored.extension_name != _UUID and _spark_reads(stored.storage_type, type_)
    if pa.types.is_struct(stored):
        # Spark reads a struct as null if the file has none of its fields
        parts = [_spark_reads(part.type, type_.field(part.name).type) for part in stored]
        return bool(parts) and all(parts)
    if pa.types.is_map(stored):
        return _spark_reads(stored.key_type, type_.key_type) and _spark_reads(stored.item_type, type_.item_type)
    if pa.types.is_nested(stored):
        return pa.types.is_list(type_) and _spark_reads(stored.value_type, type_.value_type)
    if pa.types.is_null(stored) or pa.types.is_time32(stored) or pa.types.is_float16(stored):
        return False
    if pa.types.is_timestamp(stored) or pa.types.is_time64(stored):
        return bool(stored.unit != "ns")
    if pa.types.is_duration(stored):  # in Parquet a plain number; only Arrow's own schema knows the unit
        return bool(stored.unit == "us")
    if pa.types.is_unsigned_integer(stored):
        return bool(stored == type_)
    return True


def _columns(footer: Any) -> list[Any]:
    return [footer.schema.column(i) for i in range(len(footer.schema))]


def _with_nulls(footer: Any) -> frozenset[str]:
    """Return the columns whose statistics count nulls; files without statistics yield none."""
    groups = [footer.metadata.row_group(i) for i in range(footer.metadata.num_row_groups)]
    chunks = [group.column(i) for group in groups for i in range(group.num_columns)]
    return frozenset(
        chunk.path_in_schema
        for chunk in chunks
        if chunk.statistics is not None and chunk.statistics.has_null_count and chunk.statistics.null_count
    )


def _source_type(field: pa.Field, path: str, is_int96: bool) -> pa.DataType:
    if is_int96 and pa.types.is_timestamp(field.type):
        return _INSTANT
    plain = _without_extensions(field.type)
    check_readable(field.with_type(plain), path)
    return _plain(plain)


def _without_extensions(kind: pa.DataType) -> pa.DataType:
    """Replace Arrow's types for UUIDs and JSON with their storage types, at any depth."""
    if isinstance(kind, pa.BaseExtensionType) and not is_wide(kind):
        return _without_extensions(kind.storage_type)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_without_extensions(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_without_extensions(kind.key_type), _without_extensions(kind.item_type))
    if pa.types.is_nested(kind):
        return pa.list_(_without_extensions(kind.value_type))
    return kind


def check_readable(field: pa.Field, path: str) -> None:
    """Reject a type that Spark cannot represent."""
    try:
        physical_type(field.type)
    except StreamlingError as error:
        raise error.context(f"column '{field.name}' of '{path}'") from None


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return ``kind`` without properties of Arrow's memory layout, with times and timestamps in Spark's units."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_decimal(kind):
        return decimal_type(kind.precision, kind.scale)
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _part(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_part(kind.key_type), _part(kind.item_type))
    if pa.types.is_nested(kind):
        return pa.list_(_part(kind.value_type))
    if pa.types.is_integer(kind) or pa.types.is_null(kind):
        return kind
    if pa.types.is_duration(kind):
        return pa.duration("us")
    return pa.time64("us") if pa.types.is_time(kind) else physical_type(kind)


def _part(kind: pa.DataType) -> pa.DataType:
    """Return the type of a member of a nested type. Nested types have no metadata that could hold the logical type."""
    plain = _plain(kind)
    return plain if contains_wide(plain) or pa.types.is_null(plain) else physical_type(plain)
