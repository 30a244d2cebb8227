"""Avro schemas as Arrow columns, and how Spark's decoder is brought to give exactly those.

Spark's decoder has types of its own: it makes instants of timestamps and leaves some logical types aside. Changing the
logical types of the reader schema, which Avro's resolution does not look at, makes it decode what we want at no cost;
what is left is an expression over the decoded value.
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
from streamling.types.spark import LOGICAL
from streamling.types.wide.layout import I256, MAX_DIGITS, SPARK_DIGITS, U256, decimal_type, layout_of
from streamling.types.wide.spark_sql import exceeds_precision, from_twos_complement

#: stands in the SQL of a value for what happens where a number is none of its type
ON_OVERFLOW = "{misfit}"
#: digits of whole numbers that are unsigned ones of 256 bits, unless the schema says otherwise
_U256_DIGITS = (77, 78)
#: the fewest digits that Spark does not read into eight bytes
_EXACT_DIGITS = 19
_LONG_BYTES = 8
_DECIMAL_KEYS = ("logicalType", "precision", "scale", LOGICAL)
_WIDE_NAMES = {str(type_): type_ for type_ in (U256, I256)}


@dataclass(frozen=True)
class TypeMapping:
    """An Avro type here: its Arrow type, the logical type that Spark's decoder is given in place of the schema's, and
    Spark SQL that makes the column's value of the decoded one (``{}``)."""

    arrow: pa.DataType
    logical: str | None = None
    value: str | None = None
    #: SQL for whether the decoded value is one that the column cannot hold; only asked of what is not null
    bad: str | None = None


#: of texts that are no UTF-8; also of arrays and maps of texts, which Spark writes as one text
_BAD_TEXT = "NOT is_valid_utf8(CAST({0} AS STRING))"
_BAD_DATE = "{0} NOT BETWEEN DATE'0001-01-01' AND DATE'9999-12-31'"
_BAD_TIME = "{0} NOT BETWEEN TIME'00:00:00' AND TIME'23:59:59.999999'"
_BAD_MILLIS = "{0} NOT BETWEEN 0 AND 86399999"
_BAD_MOMENT = "{0} NOT BETWEEN TIMESTAMP_NTZ'0001-01-01 00:00:00' AND TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'"
_BAD_UUID = "{0} IS NOT NULL AND coalesce(length(unhex(replace({0}, '-', ''))), 0) <> 16"

_PRIMITIVES = {
    "null": TypeMapping(pa.null()),
    "boolean": TypeMapping(pa.bool_()),
    "int": TypeMapping(pa.int32()),
    "long": TypeMapping(pa.int64()),
    "float": TypeMapping(pa.float32()),
    "double": TypeMapping(pa.float64()),
    "bytes": TypeMapping(pa.binary()),
    "string": TypeMapping(pa.string(), bad=_BAD_TEXT),
    "enum": TypeMapping(pa.string()),
}
# division that rounds down, also before 1970
_NANOS = "CAST(timestamp_micros({0} div 1000 - IF({0} % 1000 < 0, 1, 0)) AS TIMESTAMP_NTZ)"
_LOGICAL = {
    ("int", "date"): TypeMapping(pa.date32(), "date", bad=_BAD_DATE),
    ("int", "time-millis"): TypeMapping(
        pa.time32("ms"), None, f"IF({_BAD_MILLIS}, NULL, time_from_millis({{0}}))", _BAD_MILLIS
    ),
    ("long", "time-micros"): TypeMapping(pa.time64("us"), "time-micros", bad=_BAD_TIME),
    ("long", "timestamp-millis"): TypeMapping(pa.timestamp("ms"), "local-timestamp-millis", bad=_BAD_MOMENT),
    ("long", "timestamp-micros"): TypeMapping(pa.timestamp("us"), "local-timestamp-micros", bad=_BAD_MOMENT),
    ("long", "timestamp-nanos"): TypeMapping(pa.timestamp("ns"), None, _NANOS),
    ("long", "local-timestamp-millis"): TypeMapping(pa.timestamp("ms"), "local-timestamp-millis", bad=_BAD_MOMENT),
    ("long", "local-timestamp-micros"): TypeMapping(pa.timestamp("us"), "local-timestamp-micros", bad=_BAD_MOMENT),
    ("long", "local-timestamp-nanos"): TypeMapping(pa.timestamp("ns"), None, _NANOS),
    ("string", "uuid"): TypeMapping(pa.binary(16), None, "unhex(replace({0}, '-', ''))", _BAD_UUID),
}
#: unions that Spark reads as one type; any other union of several types becomes a struct with a member for each
_WIDENED = {
    frozenset({pa.int32(), pa.int64()}): pa.int64(),
    frozenset({pa.float32(), pa.float64()}): pa.float64(),
}


def record_of(schema: Any) -> dict[str, Any]:
    """The record that messages of ``schema`` hold: itself, or the first record of a union."""
    branches = schema if isinstance(schema, list) else [schema]
    for branch in branches:
        if isinstance(branch, dict) and branch.get("type") == "record":
            return branch
    raise StreamlingError.user("the Avro schema is no record, and only records have columns")


def primary_key_of(record: Mapping[str, Any]) -> tuple[str, ...]:
    """The key columns named in the record's documentation: ``{"primaryKeys": [...]}``."""
    for place in ("doc", "connect.doc"):
        try:
            keys = json.loads(record[place])["primaryKeys"]
        except (KeyError, TypeError, ValueError):
            continue
        if isinstance(keys, list) and all(isinstance(key, str) for key in keys):
            return tuple(keys)
    return ()


@dataclass(frozen=True)
class AvroColumn:
    """A field of a record: its column, and Spark SQL for its value where the decoded one (``{0}``) is not it; there may
    be `ON_OVERFLOW` in it."""

    field: pa.Field
    value: str | None
    #: SQL for whether the decoded value, which is not null, is one that the column cannot hold
    bad: str | None = None


@dataclass(frozen=True)
class AvroRecord:
    """A record schema, understood."""

    #: the schema for Spark's decoder
    reader: dict[str, Any]
    columns: tuple[AvroColumn, ...]

    @property
    def arrow(self) -> pa.Schema:
        return pa.schema([column.field for column in self.columns])

    @classmethod
    def of(cls, schema: Any) -> AvroRecord:
        """Raises a user's error that names the field when there is no way to hold a type."""
        record, understood = record_of(schema), _SchemaMapper()
        columns, fields = [], []
        with_names = understood.entered(record)
        for field in with_names["fields"]:
            try:
                type_ = understood.type(field["type"], _namespace(record, ""))
            except StreamlingError as error:
                raise error.context(f"field '{field['name']}'") from None
            arrow = pa.field(checked_name(field), type_.arrow, type_.nullable)
            columns.append(AvroColumn(arrow, type_.value, type_.bad))
            fields.append({**field, "type": type_.schema})
        return cls({**record, "fields": fields}, tuple(columns))


@dataclass(frozen=True)
class _Type:
    """An understood type: the schema for the decoder, the Arrow type, the expression for the value."""

    schema: Any
    arrow: pa.DataType
    value: str | None = None
    nullable: bool = False
    bad: str | None = None


class _SchemaMapper:
    """One walk through a schema. Named types may be used again further down."""

    def __init__(self) -> None:
        self._named: dict[str, _Type | None] = {}
        self._depth = 0

    def entered(self, record: dict[str, Any]) -> dict[str, Any]:
        self._named[_full_name(record, "")] = None  # known, not complete: a use of it is recursive
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
        return _Type(decoded, mapped.arrow, mapped.value, bad=mapped.bad)

    def _named_type(self, name: str, namespace: str) -> _Type:
        if name in _PRIMITIVES and name != "enum":
            return _Type(name, _PRIMITIVES[name].arrow, nullable=name == "null", bad=_PRIMITIVES[name].bad)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        full = full if full in self._named else name
        if full not in self._named:
            raise StreamlingError.user(f"the Avro type '{name}' is not defined before it is used")
        known = self._named[full]
        if known is None:
            raise StreamlingError.user(
                f"the Avro type '{name}' contains itself, which no column can", remedy="flatten the type"
            )
        return _Type(full, known.arrow, known.value, bad=known.bad)

    def _union(self, schema: list[Any], namespace: str) -> _Type:
        types = [self.type(branch, namespace) for branch in schema]
        schemas = [one.schema for one in types]
        kinds = [one for one in types if not pa.types.is_null(one.arrow)]
        nullable = len(kinds) < len(types)
        if len(kinds) < 2:
            only = kinds[0] if kinds else types[0]
            return _Type(schemas, only.arrow, only.value, nullable or not kinds, only.bad)
        widened = _WIDENED.get(frozenset(one.arrow for one in kinds))
        if widened is not None:
            return _Type(schemas, widened, None, nullable)
        members = [(f"member{number}", one, True) for number, one in enumerate(kinds)]
        arrow, value = _struct(members)
        return _Type(schemas, arrow, value, nullable, _bad_member(members))

    def _record(self, schema: dict[str, Any], namespace: str) -> _Type:
        name, inner = _full_name(schema, namespace), _namespace(schema, namespace)
        self._named[name] = None
        members = [(checked_name(field), self.type(field["type"], inner)) for field in schema["fields"]]
        nullable = [(field, type_, type_.nullable) for field, type_ in members]
        arrow, value = _struct(nullable)
        fields = [{**field, "type": type_.schema} for field, (_, type_) in zip(schema["fields"], members, strict=True)]
        self._named[name] = result = _Type({**schema, "fields": fields}, arrow, value, bad=_bad_member(nullable))
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
        return _Type({**schema, "items": item.schema}, arrow, value, bad=self._bad_item(item, "{0}"))

    def _map(self, schema: dict[str, Any], namespace: str) -> _Type:
        item = self.type(schema["values"], namespace)
        value = None
        if item.value:
            name = self._variable()
            value = f"transform_values({{0}}, (_key, {name}) -> {item.value.replace('{0}', name)})"
        bad = self._bad_item(item, "map_values({0})")
        if bad != _BAD_TEXT:  # where values are texts too, both are looked at together; bytes among them are no text
            keys = _BAD_TEXT.replace("{0}", "map_keys({0})")
            bad = keys if bad is None else f"{keys} OR {bad}"
        return _Type({**schema, "values": item.schema}, pa.map_(pa.string(), item.arrow), value, bad=bad)

    def _bad_item(self, item: _Type, items: str) -> str | None:
        if item.bad is None or item.bad == _BAD_TEXT:  # no lambda where none is needed: it ends generated code
            return item.bad
        name = self._variable()
        return f"exists({items}, {name} -> coalesce({item.bad.replace('{0}', name)}, false))"

    def _variable(self) -> str:
        self._depth += 1
        return f"_item{self._depth}"

    def _remember(self, schema: dict[str, Any], namespace: str, type_: _Type) -> _Type:
        self._named[_full_name(schema, namespace)] = type_
        return type_


def _struct(members: list[tuple[str, _Type, bool]]) -> tuple[pa.DataType, str | None]:
    """A struct of these members, and the expression for it when one of them needs one."""
    arrow = pa.struct([pa.field(name, type_.arrow, nullable) for name, type_, nullable in members])
    if not any(type_.value for _, type_, _ in members):
        return arrow, None
    parts = ", ".join(_member(name, type_) for name, type_, _ in members)
    return arrow, f"IF({{0}} IS NULL, NULL, named_struct({parts}))"


def _bad_member(members: list[tuple[str, _Type, bool]]) -> str | None:
    places = {name: "{0}." + quoted(name) for name, _, _ in members}
    bad = [f"coalesce({type_.bad.replace('{0}', places[name])}, false)" for name, type_, _ in members if type_.bad]
    return " OR ".join(bad) or None


def _member(name: str, type_: _Type) -> str:
    place = "{0}." + quoted(name)
    return f"{literal(name)}, {(type_.value or '{0}').replace('{0}', place)}"


def checked_name(field: Mapping[str, Any]) -> str:
    """Avro's own rule for names. They become part of Spark SQL, and a registry may answer anything."""
    name = str(field["name"])
    if re.fullmatch(r"[^\W\d]\w*", name):
        return name
    raise StreamlingError.user(f"the Avro schema has a field {name!r}, which is not a valid Avro name")


def is_decimal(schema: Mapping[str, Any]) -> bool:
    return schema.get("logicalType") == "decimal" and schema["type"] in ("bytes", "fixed")


def decimal_of(schema: Mapping[str, Any]) -> pa.DataType:
    """The Arrow type of a decimal; raises a user's error when it has too many digits."""
    precision, scale = schema["precision"], schema.get("scale", 0)
    if precision > MAX_DIGITS:
        raise StreamlingError.user(
            f"is a decimal of {precision} digits, and at most {MAX_DIGITS} can be read",
            remedy="write it as a string, or with fewer digits",
        )
    named = _WIDE_NAMES.get(schema.get(LOGICAL, "")) if precision > SPARK_DIGITS else None
    if named is None and precision in _U256_DIGITS and scale == 0:
        return U256
    return named or decimal_type(precision, scale)


def bytes_of_decimal(schema: Mapping[str, Any]) -> Any:
    """The schema of a decimal without what makes it one."""
    plain = {key: value for key, value in schema.items() if key not in _DECIMAL_KEYS}
    return plain if schema["type"] == "fixed" else "bytes"


def with_all_digits(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a decimal with so many digits that Spark reads all of its bytes. Up to 18 digits it takes the last
    eight bytes for the number, whatever stands before them."""
    if schema["precision"] >= _EXACT_DIGITS or schema.get("size", _LONG_BYTES + 1) <= _LONG_BYTES:
        return schema
    return {**schema, "precision": _EXACT_DIGITS}


def _narrow(schema: dict[str, Any], arrow: pa.DataType) -> tuple[Any, pa.DataType, str | None]:
    """A decimal that Spark has: schema, type and value."""
    wider = with_all_digits(schema)
    if wider is schema:
        return schema, arrow, None
    kind = f"DECIMAL({arrow.precision}, {arrow.scale})"
    return wider, arrow, f"IF({exceeds_precision('{0}', arrow)}, {ON_OVERFLOW}, CAST({{0}} AS {kind}))"


def _decimal(schema: dict[str, Any]) -> _Type:
    """Those that Spark does not have are decoded as bytes."""
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
