"""Maps Avro schemas to Arrow columns, and makes Spark's decoder produce exactly those.

Spark's decoder has its own types: it converts timestamps to instants and ignores some logical types. Changing the
logical types of the reader schema, which Avro's resolution ignores, makes it decode what we need at no cost; the rest
is an expression over the decoded value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from streamling.errors import StreamlingError
from streamling.spark.sql_text import literal, quoted
from streamling.types.names import TYPE_KEY
from streamling.types.wide.layout import I256, MAX_DIGITS, SPARK_DIGITS, U256, decimal_type, layout_of
from streamling.types.wide.spark_sql import exceeds_precision, from_twos_complement

#: placeholder in the SQL of a value for what to do if a number overflows its type
ON_OVERFLOW = "{on_overflow}"
#: precision of unsigned 256-bit integers, unless the schema says otherwise
_U256_DIGITS = (77, 78)
#: the smallest precision that Spark does not read into eight bytes
_EXACT_DIGITS = 19
_LONG_BYTES = 8
_DECIMAL_KEYS = ("logicalType", "precision", "scale", TYPE_KEY)
_WIDE_NAMES = {str(type_): type_ for type_ in (U256, I256)}


@dataclass(frozen=True)
class TypeMapping:
    """The mapping of an Avro type: its Arrow type, the logical type that replaces the schema's for Spark's decoder, and
    Spark SQL that converts the decoded value (``{}``) to the column's."""

    arrow: pa.DataType
    logical: str | None = None
    value: str | None = None
    #: SQL for whether the column cannot hold the decoded value; only evaluated for values that are not null
    invalid_when: str | None = None


#: for text that is not UTF-8; also for arrays and maps of text, which Spark casts to one text
_INVALID_TEXT = "NOT is_valid_utf8(CAST({0} AS STRING))"
_INVALID_DATE = "{0} NOT BETWEEN DATE'0001-01-01' AND DATE'9999-12-31'"
_INVALID_TIME = "{0} NOT BETWEEN TIME'00:00:00' AND TIME'23:59:59.999999'"
_INVALID_MILLIS = "{0} NOT BETWEEN 0 AND 86399999"
_INVALID_TIMESTAMP = "{0} NOT BETWEEN TIMESTAMP_NTZ'0001-01-01 00:00:00' AND TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'"
_INVALID_UUID = "{0} IS NOT NULL AND coalesce(length(unhex(replace({0}, '-', ''))), 0) <> 16"

_PRIMITIVES = {
    "null": TypeMapping(pa.null()),
    "boolean": TypeMapping(pa.bool_()),
    "int": TypeMapping(pa.int32()),
    "long": TypeMapping(pa.int64()),
    "float": TypeMapping(pa.float32()),
    "double": TypeMapping(pa.float64()),
    "bytes": TypeMapping(pa.binary()),
    "string": TypeMapping(pa.string(), invalid_when=_INVALID_TEXT),
    "enum": TypeMapping(pa.string()),
}
# floor division, also before 1970
_NANOS = "CAST(timestamp_micros({0} div 1000 - IF({0} % 1000 < 0, 1, 0)) AS TIMESTAMP_NTZ)"
_LOGICAL = {
    ("int", "date"): TypeMapping(pa.date32(), "date", invalid_when=_INVALID_DATE),
    ("int", "time-millis"): TypeMapping(
        pa.time32("ms"), None, f"IF({_INVALID_MILLIS}, NULL, time_from_millis({{0}}))", _INVALID_MILLIS
    ),
    ("long", "time-micros"): TypeMapping(pa.time64("us"), "time-micros", invalid_when=_INVALID_TIME),
    ("long", "timestamp-millis"): TypeMapping(
        pa.timestamp("ms"), "local-timestamp-millis", invalid_when=_INVALID_TIMESTAMP
    ),
    ("long", "timestamp-micros"): TypeMapping(
        pa.timestamp("us"), "local-timestamp-micros", invalid_when=_INVALID_TIMESTAMP
    ),
    ("long", "timestamp-nanos"): TypeMapping(pa.timestamp("ns"), None, _NANOS),
    ("long", "local-timestamp-millis"): TypeMapping(
        pa.timestamp("ms"), "local-timestamp-millis", invalid_when=_INVALID_TIMESTAMP
    ),
    ("long", "local-timestamp-micros"): TypeMapping(
        pa.timestamp("us"), "local-timestamp-micros", invalid_when=_INVALID_TIMESTAMP
    ),
    ("long", "local-timestamp-nanos"): TypeMapping(pa.timestamp("ns"), None, _NANOS),
    ("string", "uuid"): TypeMapping(pa.binary(16), None, "unhex(replace({0}, '-', ''))", _INVALID_UUID),
}
#: unions that Spark reads as one type; any other union of several types becomes a struct with a member for each
_WIDENED = {
    frozenset({pa.int32(), pa.int64()}): pa.int64(),
    frozenset({pa.float32(), pa.float64()}): pa.float64(),
}


def record_of(schema: Any) -> dict[str, Any]:
    """Return the record in messages of ``schema``: itself, or the first record of a union."""
    branches = schema if isinstance(schema, list) else [schema]
    for branch in branches:
        if isinstance(branch, dict) and branch.get("type") == "record":
            return branch
    raise StreamlingError.user("the Avro schema is not a record, and only records have columns")


def primary_key_of(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the key columns named in the record's documentation: ``{"primaryKeys": [...]}``."""
    for attribute in ("doc", "connect.doc"):
        try:
            keys = json.loads(record[attribute])["primaryKeys"]
        except (KeyError, TypeError, ValueError):
            continue
        if isinstance(keys, list) and all(isinstance(key, str) for key in keys):
            return tuple(keys)
    return ()


@dataclass(frozen=True)
class AvroColumn:
    """A field of a record: its column, and Spark SQL for its value if it differs from the decoded one (``{0}``); it may
    contain `ON_OVERFLOW`."""

    field: pa.Field
    value: str | None
    #: SQL for whether the column cannot hold the decoded value, which is not null
    invalid_when: str | None = None


@dataclass(frozen=True)
class AvroRecord:
    """A record schema, mapped to columns."""

    #: the schema for Spark's decoder
    reader: dict[str, Any]
    columns: tuple[AvroColumn, ...]

    @property
    def arrow(self) -> pa.Schema:
        return pa.schema([column.field for column in self.columns])

    @classmethod
    def of(cls, schema: Any) -> AvroRecord:
        """Map a schema; raises a user error that names the field if a type is not supported."""
        record, mapper = record_of(schema), _SchemaMapper()
        columns, fields = [], []
        with_names = mapper.enter(record)
        for field in with_names["fields"]:
            try:
                type_ = mapper.type(field["type"], _namespace(record, ""))
            except StreamlingError as error:
                raise error.context(f"field '{field['name']}'") from None
            arrow = pa.field(checked_name(field), type_.arrow, type_.nullable)
            columns.append(AvroColumn(arrow, type_.value, type_.invalid_when))
            fields.append({**field, "type": type_.schema})
        return cls({**record, "fields": fields}, tuple(columns))


@dataclass(frozen=True)
class _Type:
    """A mapped type: the schema for the decoder, the Arrow type, the expression for the value."""

    schema: Any
    arrow: pa.DataType
    value: str | None = None
    nullable: bool = False
    invalid_when: str | None = None


class _SchemaMapper:
    """Maps one schema. Named types may be referenced further down."""

    def __init__(self) -> None:
        self._named: dict[str, _Type | None] = {}
        self._depth = 0

    def enter(self, record: dict[str, Any]) -> dict[str, Any]:
        self._named[_full_name(record, "")] = None  # known but incomplete: a reference to it is recursive
        return record

    def type(self, schema: Any, namespace: str) -> _Type:
        if isinstance(schema, list):
            return self._union(schema, namespace)
        if isinstance(schema, str):
            return self._named_type(schema, namespace)
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.type(kind, namespace)
        build: dict[str, Callable[[dict[str, Any], str], _Type]] = {
            "record": self._record,
            "enum": self._enum,
            "fixed": self._fixed,
            "array": self._array,
            "map": self._map,
        }
        if kind in build:
            return build[kind](schema, namespace)
        return _decimal(schema) if is_decimal(schema) else self._primitive(schema, namespace)

    def _primitive(self, schema: dict[str, Any], namespace: str) -> _Type:
        kind = schema["type"]
        mapped = _LOGICAL.get((kind, schema.get("logicalType", "")))
        if mapped is None:
            return self._named_type(kind, namespace)
        decoded = {"type": kind, "logicalType": mapped.logical} if mapped.logical else kind
        return _Type(decoded, mapped.arrow, mapped.value, invalid_when=mapped.invalid_when)

    def _named_type(self, name: str, namespace: str) -> _Type:
        if name in _PRIMITIVES and name != "enum":
            return _Type(
                name, _PRIMITIVES[name].arrow, nullable=name == "null", invalid_when=_PRIMITIVES[name].invalid_when
            )
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        full = full if full in self._named else name
        if full not in self._named:
            raise StreamlingError.user(f"the Avro type '{name}' is not defined before it is used")
        known = self._named[full]
        if known is None:
            raise StreamlingError.user(
                f"the Avro type '{name}' contains itself, which a column cannot", remedy="flatten the type"
            )
        return _Type(full, known.arrow, known.value, invalid_when=known.invalid_when)

    def _union(self, schema: list[Any], namespace: str) -> _Type:
        types = [self.type(branch, namespace) for branch in schema]
        schemas = [one.schema for one in types]
        kinds = [one for one in types if not pa.types.is_null(one.arrow)]
        nullable = len(kinds) < len(types)
        if len(kinds) < 2:
            only = kinds[0] if kinds else types[0]
            return _Type(schemas, only.arrow, only.value, nullable or not kinds, only.invalid_when)
        widened = _WIDENED.get(frozenset(one.arrow for one in kinds))
        if widened is not None:
            return _Type(schemas, widened, None, nullable)
        members = [(f"member{number}", one, True) for number, one in enumerate(kinds)]
        arrow, value = _struct(members)
        return _Type(schemas, arrow, value, nullable, _invalid_member(members))

    def _record(self, schema: dict[str, Any], namespace: str) -> _Type:
        name, inner = _full_name(schema, namespace), _namespace(schema, namespace)
        self._named[name] = None
        members = [(checked_name(field), self.type(field["type"], inner)) for field in schema["fields"]]
        nullable = [(field, type_, type_.nullable) for field, type_ in members]
        arrow, value = _struct(nullable)
        fields = [{**field, "type": type_.schema} for field, (_, type_) in zip(schema["fields"], members, strict=True)]
        self._named[name] = result = _Type(
            {**schema, "fields": fields}, arrow, value, invalid_when=_invalid_member(nullable)
        )
        return result

    def _enum(self, schema: dict[str, Any], namespace: str) -> _Type:
        return self._remember(schema, namespace, _Type(schema, pa.string()))

    def _fixed(self, schema: dict[str, Any], namespace: str) -> _Type:
        if is_decimal(schema):
            return self._remember(schema, namespace, _decimal(schema))
        plain = {key: value for key, value in schema.items() if key != "logicalType"}
        return self._remember(schema, namespace, _Type(plain, pa.binary(schema["size"])))

    def _array(self, schema: dict[str, Any], namespace: str) -> _Type:
        item = self.type(schema["items"], namespace)
        arrow = pa.list_(pa.field("element", item.arrow, item.nullable))
        value = None
        if item.value:
            name = self._variable()
            value = f"transform({{0}}, {name} -> {item.value.replace('{0}', name)})"
        return _Type({**schema, "items": item.schema}, arrow, value, invalid_when=self._invalid_item(item, "{0}"))

    def _map(self, schema: dict[str, Any], namespace: str) -> _Type:
        item = self.type(schema["values"], namespace)
        value = None
        if item.value:
            name = self._variable()
            value = f"transform_values({{0}}, (_key, {name}) -> {item.value.replace('{0}', name)})"
        invalid_when = self._invalid_item(item, "map_values({0})")
        # if the values are text too, keys and values are checked together; bytes are not text
        if invalid_when != _INVALID_TEXT:
            keys = _INVALID_TEXT.replace("{0}", "map_keys({0})")
            invalid_when = keys if invalid_when is None else f"{keys} OR {invalid_when}"
        return _Type(
            {**schema, "values": item.schema}, pa.map_(pa.string(), item.arrow), value, invalid_when=invalid_when
        )

    def _invalid_item(self, item: _Type, items: str) -> str | None:
        # no lambda unless it is needed: it interrupts generated code
        if item.invalid_when is None or item.invalid_when == _INVALID_TEXT:
            return item.invalid_when
        name = self._variable()
        return f"exists({items}, {name} -> coalesce({item.invalid_when.replace('{0}', name)}, false))"

    def _variable(self) -> str:
        self._depth += 1
        return f"_item{self._depth}"

    def _remember(self, schema: dict[str, Any], namespace: str, type_: _Type) -> _Type:
        self._named[_full_name(schema, namespace)] = type_
        return type_


def _struct(members: list[tuple[str, _Type, bool]]) -> tuple[pa.DataType, str | None]:
    """Return a struct of these members, and its expression if one of them needs one."""
    arrow = pa.struct([pa.field(name, type_.arrow, nullable) for name, type_, nullable in members])
    if not any(type_.value for _, type_, _ in members):
        return arrow, None
    parts = ", ".join(_member(name, type_) for name, type_, _ in members)
    return arrow, f"IF({{0}} IS NULL, NULL, named_struct({parts}))"


def _invalid_member(members: list[tuple[str, _Type, bool]]) -> str | None:
    paths = {name: "{0}." + quoted(name) for name, _, _ in members}
    invalid_when = [
        f"coalesce({type_.invalid_when.replace('{0}', paths[name])}, false)"
        for name, type_, _ in members
        if type_.invalid_when
    ]
    return " OR ".join(invalid_when) or None


def _member(name: str, type_: _Type) -> str:
    path = "{0}." + quoted(name)
    return f"{literal(name)}, {(type_.value or '{0}').replace('{0}', path)}"


def checked_name(field: Mapping[str, Any]) -> str:
    """Return the field's name if Avro allows it. Names become part of Spark SQL, and a registry may return anything."""
    name = str(field["name"])
    if re.fullmatch(r"[^\W\d]\w*", name):
        return name
    raise StreamlingError.user(f"the Avro schema has a field {name!r}, which is not a valid Avro name")


def is_decimal(schema: Mapping[str, Any]) -> bool:
    return schema.get("logicalType") == "decimal" and schema["type"] in ("bytes", "fixed")


def decimal_of(schema: Mapping[str, Any]) -> pa.DataType:
    """Return the Arrow type of a decimal; raises a user error if it has too many digits."""
    precision, scale = schema["precision"], schema.get("scale", 0)
    if precision > MAX_DIGITS:
        raise StreamlingError.user(
            f"is a decimal of {precision} digits, but at most {MAX_DIGITS} are supported",
            remedy="write it as a string, or with fewer digits",
        )
    named = _WIDE_NAMES.get(schema.get(TYPE_KEY, "")) if precision > SPARK_DIGITS else None
    if named is None and precision in _U256_DIGITS and scale == 0:
        return U256
    return named or decimal_type(precision, scale)


def bytes_of_decimal(schema: Mapping[str, Any]) -> Any:
    """Return the schema of a decimal as plain bytes."""
    plain = {key: value for key, value in schema.items() if key not in _DECIMAL_KEYS}
    return plain if schema["type"] == "fixed" else "bytes"


def with_all_digits(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a decimal with enough digits for Spark to read all of its bytes. Up to 18 digits it reads
    the last eight bytes as the number and ignores the others."""
    if schema["precision"] >= _EXACT_DIGITS or schema.get("size", _LONG_BYTES + 1) <= _LONG_BYTES:
        return schema
    return {**schema, "precision": _EXACT_DIGITS}


def _narrow(schema: dict[str, Any], arrow: pa.DataType) -> tuple[Any, pa.DataType, str | None]:
    """Return schema, type and value of a decimal that Spark supports."""
    wider = with_all_digits(schema)
    if wider is schema:
        return schema, arrow, None
    kind = f"DECIMAL({arrow.precision}, {arrow.scale})"
    return wider, arrow, f"IF({exceeds_precision('{0}', arrow)}, {ON_OVERFLOW}, CAST({{0}} AS {kind}))"


def _decimal(schema: dict[str, Any]) -> _Type:
    """Map a decimal; those that Spark does not support are decoded as bytes."""
    arrow = decimal_of(schema)
    layout = layout_of(arrow)
    if layout is None:
        return _Type(*_narrow(schema, arrow))
    return _Type(bytes_of_decimal(schema), arrow, from_twos_complement("{0}", layout, ON_OVERFLOW))


def _full_name(schema: Mapping[str, Any], namespace: str) -> str:
    name = str(schema["name"])
    if "." in name:
        return name
    space = schema.get("namespace", namespace)
    return f"{space}.{name}" if space else name


def _namespace(schema: Mapping[str, Any], namespace: str) -> str:
    return _full_name(schema, namespace).rpartition(".")[0]
