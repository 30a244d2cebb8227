"""Converts columns to what Spark's Avro encoder requires for a given schema.

The encoder is strict: it does not accept an INT for a long, and a timestamp without a zone only for a
``local-timestamp``. What does not change the encoded bytes (logical types) is changed in the schema passed to the
encoder; everything else is an expression over the column. Columns that do not match are reported by name before
anything is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from streamling.connectors.kafka.encode.avro_scalars import (
    LOGICAL_TYPES,
    ColumnType,
    EncodedField,
    TypeMismatch,
    enum,
    fixed,
    plain,
)
from streamling.errors import StreamlingError
from streamling.spark.sql_text import literal, quoted
from streamling.types.avro import checked_name, record_of
from streamling.types.row_kind import OP_COLUMN
from streamling.types.spark import logical_type

#: unions that map to one column type
_WIDENED = {frozenset({"int", "long"}): pa.int64(), frozenset({"float", "double"}): pa.float64()}


@dataclass(frozen=True)
class AvroEncoding:
    """How rows are encoded: the record schema for Spark's encoder, Spark SQL for each of its fields, the prefix of the
    record in a message if the schema is a union, and the nullable columns that the schema requires."""

    schema: dict[str, Any]
    values: Mapping[str, str]
    branch: bytes
    required: tuple[str, ...]


def encoding(schema: Any, columns: pa.Schema) -> AvroEncoding:
    """Match ``columns`` of a DataFrame (`to_arrow_schema`) with a schema; raise a user error that names the mismatch. A
    schema without ``_gs_op`` is accepted, because the header carries it too."""
    record = record_of(schema)
    matcher, fields, values = _SchemaMatcher(), [], {}
    matcher.name(record)
    known = {checked_name(field): field for field in record["fields"]}
    for column in columns:
        if column.name not in known and column.name != OP_COLUMN:
            raise StreamlingError.user(
                f"column '{column.name}' is not in the schema, which has {', '.join(known)}",
                remedy="register a schema that has it, or drop the column in a sql transform",
            )
    for name, field in known.items():
        if name not in columns.names:
            fields.append(field)
            default = _default(field, matcher)
            if default is not None:
                values[name] = default
            continue
        column = columns.field(name)
        try:
            encoded = matcher.type(field["type"], ColumnType(column.type, logical_type(column)))
        except TypeMismatch as mismatch:
            raise StreamlingError.user(
                f"column '{name}' has type {mismatch}",
                remedy="cast the column in a sql transform, or register another schema",
            ) from None
        fields.append({**field, "type": encoded.schema})
        values[name] = (encoded.value or "{0}").replace("{0}", quoted(name))
    required = tuple(column.name for column in columns if column.nullable and _is_required(known.get(column.name)))
    return AvroEncoding({**record, "fields": fields}, values, _branch(schema, record), required)


def _is_required(field: Mapping[str, Any] | None) -> bool:
    return field is not None and field["type"] != "null" and "null" not in field["type"]


def _branch(schema: Any, record: Any) -> bytes:
    """Return the index of the record in a union as Avro encodes it (small numbers are doubled); empty without a
    union."""
    if not isinstance(schema, list):
        return b""
    return bytes([schema.index(record) * 2])


def _default(field: dict[str, Any], matcher: _SchemaMatcher) -> str | None:
    """Return Spark SQL for a field without a column, or None if Spark writes null without one."""
    matcher.define(field["type"])
    branches = field["type"] if isinstance(field["type"], list) else [field["type"]]
    default = field.get("default")
    if "null" in branches and default is None:
        return None
    kind = branches[0]["type"] if isinstance(branches[0], dict) else branches[0]
    if isinstance(default, bool):
        return str(default).lower()
    casts = {"int": "INT", "long": "BIGINT", "float": "FLOAT", "double": "DOUBLE"}
    if isinstance(default, int | float) and kind in casts and not isinstance(branches[0], dict):
        return f"CAST({default!r} AS {casts[kind]})"
    if isinstance(default, str) and kind in ("string", "enum"):
        return literal(default)
    raise StreamlingError.user(
        f"the schema has a required field '{field['name']}', but there is no such column",
        remedy="add the column in a sql transform, or register a schema in which the field is nullable",
    )


class _SchemaMatcher:
    """Matches a schema with columns; named types may be referenced further down."""

    def __init__(self) -> None:
        self._named: dict[str, Any] = {}
        self._depth = 0

    def name(self, schema: Mapping[str, Any]) -> None:
        """Register a named type, under its name with and without the namespace."""
        name = schema["name"]
        self._named[name.rpartition(".")[2]] = self._named[name] = schema
        if schema.get("namespace"):
            self._named[f"{schema['namespace']}.{name}"] = schema

    def define(self, schema: Any) -> None:
        """Register the named types in a part of the schema that is skipped."""
        if isinstance(schema, list):
            for branch in schema:
                self.define(branch)
        elif isinstance(schema, dict):
            if "name" in schema:
                self.name(schema)
            for part in ("items", "values", "type"):
                self.define(schema.get(part))
            for field in schema.get("fields", ()):
                self.define(field["type"])

    def type(self, schema: Any, kind: ColumnType) -> EncodedField:
        if isinstance(schema, list):
            return self._union(schema, kind)
        if isinstance(schema, str):
            if schema in self._named:
                return EncodedField(schema, self.type(self._named[schema], kind).value)
            return plain(schema, kind)
        if not isinstance(schema["type"], str):
            return self.type(schema["type"], kind)
        if "name" in schema:
            self.name(schema)
        nested: dict[str, Callable[[dict[str, Any], ColumnType], EncodedField]] = {
            "record": self._record,
            "array": self._array,
            "map": self._map,
            "enum": enum,
            "fixed": fixed,
        }
        if schema["type"] in nested:
            return nested[schema["type"]](schema, kind)
        logical = LOGICAL_TYPES.get((schema["type"], schema.get("logicalType", "")))
        return logical(schema, kind) if logical else plain(schema["type"], kind)

    def _union(self, schema: list[Any], kind: ColumnType) -> EncodedField:
        branches = [branch for branch in schema if branch != "null"]
        if len(branches) <= 1:
            encoded = self.type(branches[0] if branches else "null", kind)
            return EncodedField(["null" if branch == "null" else encoded.schema for branch in schema], encoded.value)
        if all(isinstance(b, str) for b in branches) and _WIDENED.get(frozenset(branches)) == kind.physical:
            return EncodedField(schema)
        members = [f"member{number}" for number in range(len(branches))]
        if not pa.types.is_struct(kind.physical) or [field.name for field in kind.physical] != members:
            raise TypeMismatch(kind, schema)
        parts = [self.type(b, kind.part(_member(m))) for b, m in zip(branches, members, strict=True)]
        schemas = iter(part.schema for part in parts)
        return EncodedField(
            ["null" if branch == "null" else next(schemas) for branch in schema],
            _struct(dict(zip(members, parts, strict=True))),
        )

    def _record(self, schema: dict[str, Any], kind: ColumnType) -> EncodedField:
        if not pa.types.is_struct(kind.physical):
            raise TypeMismatch(kind, schema)
        members = {field.name for field in kind.physical}
        expected = {checked_name(field): field for field in schema["fields"]}
        if members != expected.keys():
            raise TypeMismatch(kind, schema)
        encoded = {name: self.type(field["type"], kind.part(_member(name))) for name, field in expected.items()}
        fields = [{**field, "type": encoded[name].schema} for name, field in expected.items()]
        return EncodedField({**schema, "fields": fields}, _struct(encoded))

    def _array(self, schema: dict[str, Any], kind: ColumnType) -> EncodedField:
        if not pa.types.is_list(kind.physical):
            raise TypeMismatch(kind, schema)
        item, name = self.type(schema["items"], kind.part(lambda list_: list_.value_type)), self._variable()
        value = item.value and f"transform({{0}}, {name} -> {item.value.replace('{0}', name)})"
        return EncodedField({**schema, "items": item.schema}, value)

    def _map(self, schema: dict[str, Any], kind: ColumnType) -> EncodedField:
        if not pa.types.is_map(kind.physical) or not pa.types.is_string(kind.physical.key_type):
            raise TypeMismatch(kind, schema)
        item, name = self.type(schema["values"], kind.part(lambda map_: map_.item_type)), self._variable()
        value = item.value and f"transform_values({{0}}, (_key, {name}) -> {item.value.replace('{0}', name)})"
        return EncodedField({**schema, "values": item.schema}, value)

    def _variable(self) -> str:
        self._depth += 1
        return f"_item{self._depth}"


def _member(name: str) -> Callable[[pa.DataType], pa.DataType]:
    return lambda struct: struct.field(name).type


def _struct(members: Mapping[str, EncodedField]) -> str | None:
    if not any(encoded.value for encoded in members.values()):
        return None
    parts = [
        f"{literal(name)}, {(encoded.value or '{0}').replace('{0}', '{0}.' + quoted(name))}"
        for name, encoded in members.items()
    ]
    return f"IF({{0}} IS NULL, NULL, named_struct({', '.join(parts)}))"
