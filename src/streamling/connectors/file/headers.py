"""What the headers of a batch's files say: which columns they have, how these are stored, and whether they fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from streamling.connectors.file.formats import avro as _file_avro
from streamling.connectors.file.formats import csv as _file_csv
from streamling.connectors.file.formats.parquet import Storing, find_type_misfit, storing
from streamling.connectors.file.formats.sample import Sample
from streamling.connectors.file.frames import Group
from streamling.connectors.file.schema import FORMATS, FileSchema
from streamling.connectors.file.staging import Staged
from streamling.connectors.file.storage import READ_ERRORS, Storage, unreadable
from streamling.connectors.file.wide import avro_with_bytes
from streamling.errors import StreamlingError


@dataclass(frozen=True)
class Look:
    """The header of one file."""

    staged: Staged
    sample: Sample
    #: Avro: the schema the file was written with
    written: Any = None

    def check(self, schema: FileSchema) -> None:
        """Refuse a file that has a column of another type than the source."""
        fields = [field for field in self.sample.fields if not self._is_either(field, schema)]
        if problem := find_type_misfit(fields, schema.types):
            raise StreamlingError.user(
                f"'{self.staged.origin.path}': {problem}",
                remedy="correct the file; types are those of the files looked at when the pipeline started",
            )

    def _is_either(self, field: pa.Field, schema: FileSchema) -> bool:
        """Whether the column holds Impala's timestamps, which stand for both kinds."""
        return field.name in self.sample.int96 and pa.types.is_timestamp(schema.types.get(field.name, pa.null()))

    def needs(self, way: Storing, schema: FileSchema) -> bool:
        return way in self._ways(schema).values()

    def _ways(self, schema: FileSchema) -> dict[str, Storing]:
        return {
            name: storing(name, self.sample, kind) for name, kind in schema.types.items() if name in self.sample.stored
        }

    def stored_as(self, schema: FileSchema) -> tuple[tuple[str, ...], frozenset[str]]:
        """The columns that are read, and those of them that hold nanoseconds."""
        ways = self._ways(schema)
        read = tuple(name for name in schema.types if ways.get(name, Storing.UNTYPED) != Storing.UNTYPED)
        return read, frozenset(name for name in read if ways[name] == Storing.NANOSECONDS)


@dataclass(frozen=True)
class Looks:
    """Opens files to look at their headers."""

    storage: Storage
    format: str
    #: columns of the source
    known: frozenset[str] = frozenset()

    def look(self, one: Staged) -> Look:
        """Raises `FileNotFoundError` when the file is gone."""
        try:
            is_staged = one.path != one.origin.path
            with open(one.path, "rb") if is_staged else self.storage.open(one.path) as stream:
                if self.format == "csv" and self.known.issuperset(_file_csv.read_header(stream, one.path)):
                    return Look(one, Sample([]))
                stream.seek(0)
                sample = FORMATS[self.format].take_sample(stream, one.path, _file_csv.HEADER_BYTES) or Sample([])
                if self.format != "avro":
                    return Look(one, sample)
                stream.seek(0)
                return Look(one, sample, _file_avro.read_header(stream, one.path).schema)
        except FileNotFoundError:
            raise
        except StreamlingError as error:
            error.message = error.message.replace(one.path, one.origin.path)
            raise
        except READ_ERRORS as error:
            raise unreadable(one.origin, error) from error


def groups(looks: Sequence[Look], schema: FileSchema, format: str) -> list[Group]:
    """The files by how their columns are stored: Spark reads those of a group in the same way."""
    if format == "avro":
        return _avro_groups(looks, schema)
    paths: dict[tuple[tuple[str, ...], frozenset[str]], list[str]] = {}
    for look in looks:
        paths.setdefault(look.stored_as(schema), []).append(look.staged.path)
    return [Group(found, *stored) for stored, found in paths.items()]


def _avro_groups(looks: Sequence[Look], schema: FileSchema) -> list[Group]:
    if not schema.wide:
        return [Group([look.staged.path for look in looks], schema.data.names)]
    # Spark is told how to read wide decimals by a schema, which has to be that of the files.
    paths: dict[str, tuple[list[str], list[str]]] = {}
    for look in looks:
        names = [field.name for field in look.sample.fields]
        paths.setdefault(avro_with_bytes(look.written), (names, []))[1].append(look.staged.path)
    return [Group(found, names, options={"avroSchema": text}) for text, (names, found) in paths.items()]
