"""Infers the columns of all files from a sample of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType

import pyarrow as pa

from streamling.connectors.file.formats import avro as _file_avro
from streamling.connectors.file.formats import csv as _file_csv
from streamling.connectors.file.formats import json as _file_json
from streamling.connectors.file.formats import parquet as _file_parquet
from streamling.connectors.file.formats import text_types as text
from streamling.connectors.file.formats.sample import FileSample
from streamling.connectors.file.storage import READ_ERRORS, File, Storage, unreadable_file_error
from streamling.errors import StreamlingError
from streamling.types.names import readable
from streamling.types.row_kind import OP_COLUMN
from streamling.types.wide.layout import contains_wide

#: sample size: all of a small data set, the beginnings of evenly spaced files of a large one
SAMPLE_FILES = 64
SAMPLE_BYTES = {"csv": 16 << 20, "json": 4 << 20}

#: folder name that represents null
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
# 01 is text: as a number it would become 1
_WHOLE_NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})", re.ASCII)

FORMATS: dict[str, ModuleType] = {
    "csv": _file_csv,
    "json": _file_json,
    "parquet": _file_parquet,
    "avro": _file_avro,
}


@dataclass(frozen=True)
class FileSchema:
    """Columns of the source: those in the files, then those in folder names."""

    data: pa.Schema
    partitions: pa.Schema

    @property
    def columns(self) -> pa.Schema:
        return pa.schema([*self.data, *self.partitions])

    @property
    def types(self) -> dict[str, pa.DataType]:
        return {field.name: field.type for field in self.data}

    @cached_property
    def wide(self) -> dict[str, pa.DataType]:
        """Columns with numbers that Spark reads as bytes."""
        return {name: kind for name, kind in self.types.items() if contains_wide(kind)}


def infer(storage: Storage, files: Sequence[File], format: str) -> FileSchema:
    """Sample up to `SAMPLE_FILES` of ``files``, which are not empty, and merge their columns."""
    sampled = sample_files(files, SAMPLE_FILES)
    share = _share(sampled, SAMPLE_BYTES.get(format, 0))
    samples = [(file, sample) for file in sampled if (sample := _sample(storage, file, format, share))]
    if not samples:
        raise StreamlingError.user("none of the files has columns", remedy="add a header or a row to one of them")
    fields = _merge_fields(samples, format)
    if any(field.name == OP_COLUMN for field in fields):
        _check_operation(fields, samples)
    data = pa.schema([_non_null(field) if field.name == OP_COLUMN else field for field in fields])
    partitions = partition_schema(files)
    _check_names([*data.names, *partitions.names])
    return FileSchema(data, partitions)


def evolve_schema(schema: FileSchema, samples: Sequence[tuple[File, FileSample]], format: str) -> FileSchema:
    """Return ``schema`` with the additional columns and struct fields of later files."""
    known = schema.types
    found = pa.schema(_merge_fields([(file, _without_known(sample, known)) for file, sample in samples], format))
    fields = {name: _evolve_type(kind, [sample for _, sample in samples], name) for name, kind in known.items()}
    fields |= {field.name: field.type for field in found}
    if OP_COLUMN in found.names:
        raise StreamlingError.user(
            f"column '{OP_COLUMN}' is in '{samples[0][0].path}', but not in the first files",
            remedy="write the operation to all files, then restart the pipeline",
        )
    _check_names([*fields, *schema.partitions.names])
    data = [
        schema.data.field(name).with_type(kind) if name in known else pa.field(name, kind)
        for name, kind in fields.items()
    ]
    return FileSchema(pa.schema(data), schema.partitions)


def _without_known(sample: FileSample, known: Mapping[str, pa.DataType]) -> FileSample:
    return FileSample([field for field in sample.fields if field.name not in known and not text.is_void(field.type)])


def _evolve_type(kind: pa.DataType, samples: Sequence[FileSample], name: str) -> pa.DataType:
    for sample in samples:
        for field in sample.fields:
            if field.name == name:
                kind = with_new_fields(kind, field.type)
    return kind


def with_new_fields(known: pa.DataType, found: pa.DataType) -> pa.DataType:
    """Return ``known`` with the additional struct fields of ``found``, at any depth."""
    if pa.types.is_struct(known) and pa.types.is_struct(found):
        parts = {field.name: field.type for field in known}
        for field in found:
            if field.name in parts:
                parts[field.name] = with_new_fields(parts[field.name], field.type)
            elif not text.is_void(field.type):
                parts[field.name] = text.replace_null_types(field.type)
        return pa.struct(list(parts.items()))
    if pa.types.is_list(known) and pa.types.is_list(found):
        return pa.list_(with_new_fields(known.value_type, found.value_type))
    if pa.types.is_map(known) and pa.types.is_map(found):
        return pa.map_(known.key_type, with_new_fields(known.item_type, found.item_type))
    return known


def partition_schema(files: Sequence[File]) -> pa.Schema:
    """Return the columns in folder names: int64 if all values are whole numbers, else string."""
    names = tuple(name for name, _ in files[0].partitions)
    values: dict[str, set[str]] = {name: set() for name in names}
    for file in files:
        if tuple(name for name, _ in file.partitions) != names:
            raise StreamlingError.user(
                f"'{files[0].path}' and '{file.path}' have different key=value folders",
                remedy="use the same keys in the same order for all files",
            )
        for name, value in file.partitions:
            values[name].add(value)
    return pa.schema([_partition_field(name, found) for name, found in values.items()])


def check_partitions(file: File, schema: FileSchema) -> None:
    """Reject a file whose key=value folders do not match those of the others."""
    if [name for name, _ in file.partitions] != schema.partitions.names:
        expected = "/".join(f"{name}=…" for name in schema.partitions.names) or "none"
        raise StreamlingError.user(
            f"'{file.path}' has other key=value folders than the first files ({expected})",
            remedy="use the same keys in the same order for all files",
        )
    for name, value in file.partitions:
        number = schema.partitions.field(name).type == pa.int64()
        if number and value != HIVE_NULL and not re.fullmatch(r"-?\d{1,18}", value, re.ASCII):
            raise StreamlingError.user(
                f"the folder {name}={value} of '{file.path}' is not a whole number, unlike the others",
                remedy="rename the folder, or restart the pipeline: the column then holds text",
            )


def _partition_field(name: str, values: set[str]) -> pa.Field:
    known = values - {HIVE_NULL}
    numbers = known and all(_WHOLE_NUMBER.fullmatch(value) for value in known)
    return pa.field(name, pa.int64() if numbers else pa.string(), nullable=HIVE_NULL in values)


def sample_files(files: Sequence[File], count: int) -> list[File]:
    """Return ``count`` files spread evenly over the listing, including the first, the last and the newest."""
    if len(files) <= count:
        return list(files)
    indexes = {round(i * (len(files) - 1) / (count - 2)) for i in range(count - 1)}
    indexes.add(max(range(len(files)), key=lambda i: files[i].mtime_ns))
    return [files[i] for i in sorted(indexes)]


def _share(files: Sequence[File], budget: int) -> int:
    """Return the number of bytes to sample per file to stay within ``budget``; small files leave theirs to the
    others."""
    share, left = 0, budget
    for rank, size in enumerate(sorted(file.size for file in files)):
        share = left // (len(files) - rank)
        left -= min(size, share)
    return share


def _sample(storage: Storage, file: File, format: str, limit: int) -> FileSample | None:
    try:
        with storage.open(file.path) as stream:
            sample: FileSample | None = FORMATS[format].take_sample(stream, file.path, limit)
            return sample
    except FileNotFoundError:
        return None  # deleted since it was listed
    except READ_ERRORS as error:
        raise unreadable_file_error(file, error) from error


def _merge_fields(samples: list[tuple[File, FileSample]], format: str) -> list[pa.Field]:
    if format in ("csv", "json"):
        fields = text.common_fields([sample.fields for _, sample in samples])
        return [field.with_type(text.replace_null_types(field.type)) for field in fields]
    types: dict[str, pa.DataType] = {}
    for file, sample in samples:
        for field in sample.fields:
            if field.name in sample.int96 and pa.types.is_timestamp(types.get(field.name, pa.null())):
                continue  # it can be of either kind
            before = types.setdefault(field.name, field.type)
            common = _file_parquet.common_type(before, field.type)
            if common is None and field.name in _int96_columns(samples):
                common = field.type
            if common is None:
                raise StreamlingError.user(
                    f"column '{field.name}' has type {readable(field.type)} in '{file.path}' and {readable(before)} "
                    "in another file",
                    remedy="write the column with one type",
                )
            types[field.name] = common
    return [pa.field(name, text.replace_null_types(kind)) for name, kind in types.items()]


def _int96_columns(samples: list[tuple[File, FileSample]]) -> frozenset[str]:
    return frozenset().union(*(sample.int96 for _, sample in samples))


def _check_operation(fields: list[pa.Field], samples: list[tuple[File, FileSample]]) -> None:
    kind = next(field.type for field in fields if field.name == OP_COLUMN)
    if kind != pa.string():
        raise StreamlingError.user(f"column '{OP_COLUMN}' has type {kind}, expected text", remedy="write i, u or d")
    for file, sample in samples:
        names = {field.name for field in sample.fields}
        if OP_COLUMN not in names or OP_COLUMN in sample.with_nulls:
            raise StreamlingError.user(
                f"column '{OP_COLUMN}' has no value in some rows of '{file.path}'",
                remedy="write i, u or d in every row",
            )


def _check_names(names: list[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        if (other := seen.setdefault(name.lower(), name)) != name or names.count(name) > 1:
            raise StreamlingError.user(
                f"columns '{other}' and '{name}' conflict, because names are not case-sensitive",
                remedy="rename one of them",
            )


def _non_null(field: pa.Field) -> pa.Field:
    return field.with_nullable(False)
