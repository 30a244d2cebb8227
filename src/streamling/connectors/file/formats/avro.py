"""Avro files: columns as their headers declare them, in Spark's types, and splits between blocks."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

import pyarrow as pa

from streamling.connectors.file.formats.parquet import check_readable, find_type_mismatch
from streamling.connectors.file.formats.sample import FileSample
from streamling.errors import StreamlingError
from streamling.types.avro import decimal_of, is_decimal

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16

_PRIMITIVES = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}
_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("us"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}
#: unions that Spark reads as one type; any other union of several types becomes a struct
_UNIONS = {
    frozenset({pa.int32(), pa.int64()}): pa.int64(),
    frozenset({pa.float32(), pa.float64()}): pa.float64(),
}


@dataclass(frozen=True)
class Header:
    schema: Any
    #: the header's bytes; the last ones are the sync marker between all blocks of the file
    content: bytes
    #: the file's metadata, including the schema as text
    entries: Mapping[bytes, bytes]

    @property
    def sync(self) -> bytes:
        return self.content[-_SYNC_BYTES:]

    def with_schema(self, schema: str) -> bytes:
        """Return the header's bytes with another schema, which must describe the same data."""
        entries = {**self.entries, b"avro.schema": schema.encode()}
        texts = b"".join(_long(len(text)) + text for entry in entries.items() for text in entry)
        return _MAGIC + _long(len(entries)) + texts + _long(0) + self.sync


def take_sample(stream: IO[bytes], path: str, limit: int) -> FileSample | None:
    """Return the columns of the writer schema; ``limit`` is ignored."""
    schema = read_header(stream, path).schema
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise StreamlingError.user(f"'{path}' contains Avro values that are not records", remedy="write records")
    try:
        return FileSample(_fields(schema, path))
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError, pa.ArrowException) as error:
        raise _invalid_avro(path, error) from error


def _fields(schema: Mapping[str, Any], path: str) -> list[pa.Field]:
    types = _Types()
    fields = []
    for field in schema["fields"]:
        try:
            fields.append(pa.field(field["name"], types.arrow(field["type"])))
        except StreamlingError as error:
            raise error.context(f"column '{field['name']}' of '{path}'") from None
        check_readable(fields[-1], path)
    return fields


def find_schema_mismatch(
    stream: IO[bytes], path: str, types: Mapping[str, pa.DataType], lines_before: int = 0
) -> str | None:
    """Describe the column whose type differs from the source's schema; None if all match. Lines do not apply."""
    sample = take_sample(stream, path, 0)
    return find_type_mismatch(sample.fields if sample else [], types)


def read_header(stream: IO[bytes], path: str) -> Header:
    """Read the header of an object container file; leaves the stream at the first block."""
    reader = _RecordingReader(stream)
    try:
        if reader.take(len(_MAGIC)) != _MAGIC:
            raise EOFError
        entries: dict[bytes, bytes] = {}
        while count := reader.long():
            if count < 0:
                count, _ = -count, reader.long()
            for _ in range(count):
                key = reader.take(reader.long())
                entries[key] = reader.take(reader.long())
        reader.take(_SYNC_BYTES)
        return Header(json.loads(entries[b"avro.schema"]), reader.content, entries)
    except (EOFError, ValueError, KeyError, OverflowError, MemoryError, RecursionError) as error:
        raise _invalid_avro(path, error) from error


def _invalid_avro(path: str, error: Exception) -> StreamlingError:
    return StreamlingError.user(
        f"'{path}' is not a valid Avro file",
        cause=error,
        remedy="write the file again, or remove it from the folder",
    )


def blocks(stream: IO[bytes], path: str, offset: int, size: int) -> Iterator[tuple[bytes, int | None]]:
    """Yield parts of about ``size`` bytes, each a complete file, with the byte offset after them: None at the end."""
    header = read_header(stream, path)
    position = max(offset, len(header.content))
    stream.seek(position)
    part = b""
    while block := _block(stream, path):
        part += block
        position += len(block)
        if len(part) >= size:
            yield header.content + part, position
            part = b""
    yield header.content + part, None


def _block(stream: IO[bytes], path: str) -> bytes:
    reader = _RecordingReader(stream)
    try:
        reader.long()
    except EOFError:
        return b""
    try:
        reader.take(reader.long() + _SYNC_BYTES)
    except EOFError as error:
        raise StreamlingError.user(f"'{path}' ends in the middle of a block", remedy="write the file again") from error
    return reader.content


def _long(value: int) -> bytes:
    """Encode a length as Avro does: zigzag, seven bits per byte, lowest first."""
    left, content = value << 1, b""
    while left > 0x7F:
        left, content = left >> 7, content + bytes([left & 0x7F | 0x80])
    return content + bytes([left])


class _RecordingReader:
    """Reads Avro's numbers and byte strings, and keeps a reader of what it has read."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._copy = io.BytesIO()

    @property
    def content(self) -> bytes:
        return self._copy.getvalue()

    def take(self, count: int) -> bytes:
        data = self._stream.read(count)
        if count < 0 or len(data) < count:
            raise EOFError("the file is truncated")
        self._copy.write(data)
        return data

    def long(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return (value >> 1) ^ -(value & 1)


class _Types:
    """Arrow types of one schema; named types may be referenced further down."""

    def __init__(self) -> None:
        self._named: dict[str, pa.DataType] = {}

    def arrow(self, schema: Any) -> pa.DataType:
        if isinstance(schema, list):
            return self._union([self.arrow(branch) for branch in schema])
        if isinstance(schema, str):
            return _PRIMITIVES[schema] if schema in _PRIMITIVES else self._reference(schema)
        return self._complex(schema)

    def _complex(self, schema: Mapping[str, Any]) -> pa.DataType:
        kind = schema["type"]
        if kind == "array":
            return pa.list_(self.arrow(schema["items"]))
        if kind == "map":
            return pa.map_(pa.string(), self.arrow(schema["values"]))
        if kind == "record":
            fields = [pa.field(field["name"], self.arrow(field["type"])) for field in schema["fields"]]
            return self._remember(schema, pa.struct(fields))
        if isinstance(kind, dict | list) or kind not in _PRIMITIVES:
            return self.arrow(kind)
        if is_decimal(schema):
            return self._remember(schema, decimal_of(schema))
        return self._remember(schema, _LOGICAL.get((kind, schema.get("logicalType", "")), _PRIMITIVES[kind]))

    def _union(self, branches: list[pa.DataType]) -> pa.DataType:
        kinds = [kind for kind in branches if not pa.types.is_null(kind)]
        if len(kinds) < 2:
            return kinds[0] if kinds else pa.null()
        one = _UNIONS.get(frozenset(kinds))
        return one or pa.struct([pa.field(f"member{i}", kind) for i, kind in enumerate(kinds)])

    def _remember(self, schema: Mapping[str, Any], kind: pa.DataType) -> pa.DataType:
        if name := schema.get("name"):
            self._named[name] = kind
            if namespace := schema.get("namespace"):
                self._named[f"{namespace}.{name}"] = kind
        return kind

    def _reference(self, name: str) -> pa.DataType:
        for known in (name, name.rpartition(".")[2]):
            if known in self._named:
                return self._named[known]
        raise StreamlingError.user(
            f"the Avro type '{name}' contains itself, which Spark cannot read", remedy="flatten the type"
        )
