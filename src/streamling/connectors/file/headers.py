"""What the headers of a batch's files say: which columns they have, how these are stored, and whether they fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from streamling.connectors.file.formats import avro as _file_avro
from streamling.connectors.file.formats import csv as _file_csv
from streamling.connectors.file.formats.parquet import Conversion, conversion_of, find_type_mismatch
from streamling.connectors.file.formats.sample import Sample
from streamling.connectors.file.frames import FileGroup
from streamling.connectors.file.schema import FORMATS, FileSchema
from streamling.connectors.file.staging import StagedFile
from streamling.connectors.file.storage import READ_ERRORS, Storage, unreadable_file_error
from streamling.connectors.file.wide import avro_with_bytes
from streamling.errors import StreamlingError


@dataclass(frozen=True)
class FileHeader:
    """The header of one file."""

    staged: StagedFile
    sample: Sample
    #: Avro: the schema the file was written with
    written: Any = None

    def check(self, schema: FileSchema) -> None:
        """Refuse a file that has a column of another type than the source."""
        fields = [field for field in self.sample.fields if not self._is_either(field, schema)]
        if problem := find_type_mismatch(fields, schema.types):
            raise StreamlingError.user(
                f"'{self.staged.origin.path}': {problem}",
                remedy="correct the file; types are those of the files looked at when the pipeline started",
            )

    def _is_either(self, field: pa.Field, schema: FileSchema) -> bool:
        """Whether the column holds Impala's timestamps, which stand for both kinds."""
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
        """The columns that are read, and those of them that hold nanoseconds."""
        ways = self._conversions(schema)
        read = tuple(name for name in schema.types if ways.get(name, Conversion.UNTYPED) != Conversion.UNTYPED)
        return read, frozenset(name for name in read if ways[name] == Conversion.NANOSECONDS)


@dataclass(frozen=True)
class HeaderReader:
    """Opens files to look at their headers."""

    storage: Storage
    format: str
    #: columns of the source
    known: frozenset[str] = frozenset()

    def look(self, one: StagedFile) -> FileHeader:
        """Raises `FileNotFoundError` when the file is gone."""
        try:
            is_staged = one.path != one.origin.path
            with open(one.path, "rb") if is_staged else self.storage.open(one.path) as stream:
                if self.format == "csv" and self.known.issuperset(_file_csv.read_header(stream, one.path)):
                    return FileHeader(one, Sample([]))
                stream.seek(0)
                sample = FORMATS[self.format].take_sample(stream, one.path, _file_csv.HEADER_BYTES) or Sample([])
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


def groups(headers: Sequence[FileHeader], schema: FileSchema, format: str) -> list[FileGroup]:
    """The files by how their columns are stored: Spark reads those of a group in the same way."""
    if format == "avro":
        return _avro_groups(headers, schema)
    paths: dict[tuple[tuple[str, ...], frozenset[str]], list[str]] = {}
    for look in headers:
        paths.setdefault(look.stored_as(schema), []).append(look.staged.path)
    return [FileGroup(found, *stored) for stored, found in paths.items()]


def _avro_groups(headers: Sequence[FileHeader], schema: FileSchema) -> list[FileGroup]:
    if not schema.wide:
        return [FileGroup([look.staged.path for look in headers], schema.data.names)]
    # Spark is told how to read wide decimals by a schema, which has to be that of the files.
    paths: dict[str, tuple[list[str], list[str]]] = {}
    for look in headers:
        names = [field.name for field in look.sample.fields]
        paths.setdefault(avro_with_bytes(look.written), (names, []))[1].append(look.staged.path)
    return [FileGroup(found, names, options={"avroSchema": text}) for text, (names, found) in paths.items()]
