"""Headers of a batch's files: their columns, how these are stored, and whether they match the source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from streamling.connectors.file.decimals import avro_with_bytes
from streamling.connectors.file.formats import avro as _file_avro
from streamling.connectors.file.formats import csv as _file_csv
from streamling.connectors.file.formats.parquet import Conversion, conversion_of, find_type_mismatch
from streamling.connectors.file.formats.sample import FileSample
from streamling.connectors.file.frames import FileGroup
from streamling.connectors.file.schema import FORMATS, FileSchema
from streamling.connectors.file.staging import StagedFile
from streamling.connectors.file.storage import READ_ERRORS, Storage, unreadable_file_error
from streamling.errors import StreamlingError


@dataclass(frozen=True)
class FileHeader:
    """The header of one file."""

    staged: StagedFile
    sample: FileSample
    #: Avro: the schema that the file was written with
    written: Any = None

    def check(self, schema: FileSchema) -> None:
        """Reject a file with a column of another type than the source."""
        fields = [field for field in self.sample.fields if not self._is_ambiguous_timestamp(field, schema)]
        if problem := find_type_mismatch(fields, schema.types):
            raise StreamlingError.user(
                f"'{self.staged.origin.path}': {problem}",
                remedy="correct the file; types are those of the files sampled when the pipeline started",
            )

    def _is_ambiguous_timestamp(self, field: pa.Field, schema: FileSchema) -> bool:
        """Return whether the column holds Impala's timestamps, which can be of either kind."""
        return field.name in self.sample.int96 and pa.types.is_timestamp(schema.types.get(field.name, pa.null()))

    def needs(self, conversion: Conversion, schema: FileSchema) -> bool:
        return conversion in self._conversions(schema).values()

    def _conversions(self, schema: FileSchema) -> dict[str, Conversion]:
        return {
            name: conversion_of(name, self.sample, kind)
            for name, kind in schema.types.items()
            if name in self.sample.stored
        }

    def stored_as(self, schema: FileSchema) -> tuple[tuple[str, ...], frozenset[str]]:
        """Return the columns to read, and those of them that hold nanoseconds."""
        conversions = self._conversions(schema)
        read = tuple(name for name in schema.types if conversions.get(name, Conversion.UNTYPED) != Conversion.UNTYPED)
        return read, frozenset(name for name in read if conversions[name] == Conversion.NANOSECONDS)


@dataclass(frozen=True)
class HeaderReader:
    """Opens files to read their headers."""

    storage: Storage
    format: str
    #: columns of the source
    known: frozenset[str] = frozenset()

    def read(self, one: StagedFile) -> FileHeader:
        """Read the header. Raises `FileNotFoundError` if the file no longer exists."""
        try:
            is_staged = one.path != one.origin.path
            with open(one.path, "rb") if is_staged else self.storage.open(one.path) as stream:
                if self.format == "csv" and self.known.issuperset(_file_csv.read_header(stream, one.path)):
                    return FileHeader(one, FileSample([]))
                stream.seek(0)
                sample = FORMATS[self.format].take_sample(stream, one.path, _file_csv.HEADER_BYTES) or FileSample([])
                if self.format != "avro":
                    return FileHeader(one, sample)
                stream.seek(0)
                return FileHeader(one, sample, _file_avro.read_header(stream, one.path).schema)
        except FileNotFoundError:
            raise
        except StreamlingError as error:
            error.message = error.message.replace(one.path, one.origin.path)
            raise
        except READ_ERRORS as error:
            raise unreadable_file_error(one.origin, error) from error


def group_files(headers: Sequence[FileHeader], schema: FileSchema, format: str) -> list[FileGroup]:
    """Group the files by how their columns are stored: Spark reads the files of a group in the same way."""
    if format == "avro":
        return _avro_groups(headers, schema)
    paths: dict[tuple[tuple[str, ...], frozenset[str]], list[str]] = {}
    for header in headers:
        paths.setdefault(header.stored_as(schema), []).append(header.staged.path)
    return [FileGroup(found, *stored) for stored, found in paths.items()]


def _avro_groups(headers: Sequence[FileHeader], schema: FileSchema) -> list[FileGroup]:
    if not schema.wide:
        return [FileGroup([header.staged.path for header in headers], schema.data.names)]
    # Spark needs a schema to read wide decimals, which must be that of the files.
    paths: dict[str, tuple[list[str], list[str]]] = {}
    for header in headers:
        names = [field.name for field in header.sample.fields]
        paths.setdefault(avro_with_bytes(header.written), (names, []))[1].append(header.staged.path)
    return [FileGroup(found, names, options={"avroSchema": text}) for text, (names, found) in paths.items()]
