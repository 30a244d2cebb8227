"""Decodes Avro messages in a schema registry's wire format: a zero byte, four bytes of schema id, the record."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streamling.connectors.kafka.decode.invalid_messages import (
    AVRO_RANGE,
    AVRO_VALUE,
    MESSAGE,
    MISSING_SCHEMA,
    NOT_FRAMED,
    UNDECODABLE,
    UNKNOWN_KEY_SCHEMA,
    UNKNOWN_SCHEMA,
    RejectRule,
    error_message,
    null_on_invalid,
    raise_error_sql,
    raise_on_invalid,
)
from streamling.connectors.kafka.decode.tombstones import decode_avro_key, plain_key
from streamling.connectors.kafka.registry import NotRegistered, RegisteredSchema, SchemaRegistry
from streamling.errors import StreamlingError
from streamling.spark.sql_text import literal, quoted, type_sql
from streamling.types.avro import ON_OVERFLOW, AvroColumn, AvroRecord, primary_key_of, record_of
from streamling.types.wide.layout import is_wide
from streamling.types.wide.spark_sql import has_overflow

if TYPE_CHECKING:
    from pyspark.sql import Column

    from streamling.connectors.kafka.source_options import AvroDecoding

#: a field that no message has: its default shows that the message was decoded
_DECODED = "__streamling_decoded"


class AvroFormat:
    """Holds the schemas of a topic: the reader schema, which rows have, and the writer schemas of messages."""

    key_is_required = False  # the schema decides which columns may be null

    def __init__(
        self, node: str, topic: str, options: AvroDecoding, registry: SchemaRegistry, *, rejecting: bool = False
    ) -> None:
        self._node = node
        self._rejecting = rejecting
        self._on_invalid = null_on_invalid if rejecting else raise_on_invalid(node)
        self._mode = "PERMISSIVE" if rejecting else "FAILFAST"
        self._subject = f"{topic}-value"
        self._options = options
        self._registry = registry
        self._overrides = {override.from_: override.to for override in options.schema_id_overrides}
        self._reader: RegisteredSchema | None = None
        self._record: AvroRecord | None = None
        #: writer schemas by the id in the message
        self._writers: dict[int, RegisteredSchema] = {}
        #: schemas of the message keys of tombstones
        self._keys: dict[int, Any] = {}
        #: schema ids of messages and keys that the registry does not have, if such messages are rejected
        self._missing: set[int] = set()
        self._missing_keys: set[int] = set()

    # ── schemas ─────────────────────────────────────────────────────────────────────────────────────────────

    def load(self) -> None:
        """Load the schemas that messages may have been written with from the registry, once. The newest of them is the
        reader's: no message whose schema the plan knows was written with a newer one. Each unknown schema costs a new
        query."""
        known = self._registry.versions(self._subject)
        self._read_with(known[-1] if known else self._registry.latest(self._subject))
        for writer in known:
            self._writers.setdefault(writer.id, writer)
        for id, decoded_as in self._overrides.items():
            self._writers[id] = self._registry.by_id(decoded_as)

    def add_schema(self, id: int, *, of_key: bool) -> None:
        """Add the schema of a message or of a tombstone's key that is not known yet. That of a message may be newer
        than the reader's."""
        try:
            self._add_schema(id, of_key=of_key)
        except NotRegistered:
            if not self._rejecting:
                raise
            (self._missing_keys if of_key else self._missing).add(id)

    def _add_schema(self, id: int, *, of_key: bool) -> None:
        if of_key:
            self._keys[id] = self._registry.by_id(id).schema
            return
        self._writers[id] = self._registry.by_id(self._overrides.get(id, id))
        # fetched after the writer's, so the reader's is never older
        if self._options.validate_writer_schema_ordering:
            latest = self._registry.latest(self._subject)
            if latest.id != self._loaded_reader.id:
                self._read_with(latest)

    def _read_with(self, reader: RegisteredSchema) -> None:
        try:
            self._record = AvroRecord.of(reader.schema)
        except StreamlingError as error:
            raise error.context(f"schema {reader.id} of the subject '{self._subject}'") from None
        self._reader = reader
        self._writers.setdefault(reader.id, reader)

    @property
    def _loaded_reader(self) -> RegisteredSchema:
        assert self._reader is not None, "call load() first"
        return self._reader

    @property
    def record(self) -> AvroRecord:
        assert self._record is not None, "call load() first"
        return self._record

    @property
    def reader_id(self) -> int:
        return self._loaded_reader.id

    def schema(self) -> pa.Schema:
        return self.record.arrow

    def identity(self) -> str:
        """Return a text that is equal for formats that decode messages alike."""
        from streamling.connectors.kafka.source_options import AvroDecoding

        writers = {id: writer.id for id, writer in sorted(self._writers.items())}
        missing = sorted(self._missing), sorted(self._missing_keys)
        options = self._options.model_dump(include=set(AvroDecoding.model_fields))
        return f"avro {self._registry.url} {self.reader_id} {writers} {sorted(self._keys)} {missing} {options}"

    def primary_key(self) -> tuple[str, ...]:
        return primary_key_of(record_of(self._loaded_reader.schema))

    # ── decoding ────────────────────────────────────────────────────────────────────────────────────────────

    def payloads(self) -> dict[str, Column]:
        """Return columns with decoded structs, computed in one projection below `values`."""
        if not self._skips_resolution:
            return {"payload": self._decoded(self._mode, self._with_reject_marker(self.record.reader))}
        return {f"payload{id}": self._decode_with(id) for id in sorted(self._writers)} | {
            "payload": self._decoded_marker()
        }

    def key_text(self) -> Column:
        """Return the key as text. Keys are framed like values, or plain text."""
        from pyspark.sql import functions as f

        frame = f.expr("substring(key, 1, 5)")
        unknown = raise_error_sql(self._node, UNKNOWN_KEY_SCHEMA, _id_of("key"))
        column = f.when(f.expr("key IS NULL"), f.lit(None))
        for id, schema in sorted(self._keys.items()):
            column = column.when(frame == f.lit(_frame(id)), decode_avro_key(schema, self._mode))
        if self._missing_keys:
            column = column.when(_is_one_of(frame, self._missing_keys), f.lit(None))
        framed = f.expr("length(key) >= 5 AND substring(key, 1, 1) = X'00'")
        return column.when(framed, f.expr(unknown)).otherwise(plain_key())

    def checks(self) -> Sequence[Mapping[str, str]]:
        """Return no checks: the decoder itself fails."""
        return []

    def values(self) -> Sequence[tuple[pa.Field, str]]:
        """Return each column with Spark SQL for its value over the columns of `payloads`."""
        if self._skips_resolution:
            return [(column.field, self._first(column.field)) for column in self.record.columns]
        return [(column.field, self._value(column, "payload")) for column in self.record.columns]

    def reject_rules(self, finished: Mapping[str, str]) -> Sequence[RejectRule]:
        value = f"{MESSAGE}.value"
        id = _id_of(value)
        missing = ", ".join(f"X'{_frame(id).hex()}'" for id in sorted(self._missing))
        unknown = [RejectRule(f"substring({value}, 1, 5) IN ({missing})", MISSING_SCHEMA, id)] if missing else []
        decoded = "payload" if self._skips_resolution else f"payload.{_DECODED}"
        return [
            RejectRule(f"{value} IS NOT NULL AND NOT ({_framed(value)})", NOT_FRAMED, f"hex(substring({value}, 1, 5))"),
            *unknown,
            RejectRule(f"{value} IS NOT NULL AND {decoded} IS NULL", UNDECODABLE, self._schemas_of(value)),
            *self._value_reject_rules(finished),
        ]

    def _value_reject_rules(self, finished: Mapping[str, str]) -> list[RejectRule]:
        if self._skips_resolution:
            return [
                rule
                for id, writer in sorted(self._writers.items())
                for column in AvroRecord.of(writer.schema).columns
                for rule in _column_reject_rules(column, f"payload{id}.{quoted(column.field.name)}")
            ]
        return [
            rule
            for column in self.record.columns
            for rule in _column_reject_rules(
                column, f"payload.{quoted(column.field.name)}", finished.get(column.field.name)
            )
        ]

    def is_decodable(self) -> Column:
        """Return whether a message can be decoded; never fails."""
        from pyspark.sql import functions as f

        decoded = self._decoded("PERMISSIVE", _with_sentinel(self.record.reader), raise_on_error=False)
        return f.coalesce(decoded.getField(_DECODED), f.lit(False))

    def _schemas_of(self, value: str) -> str:
        """Return SQL for the schemas with which a message is decoded."""
        id, reader = _id_of(value), self.reader_id
        if self._skips_resolution:
            return id
        return f"IF({id} = {literal(str(reader))}, {id}, concat({id}, {literal(f', read as schema {reader}')}))"

    def undecodable(self, writer: int) -> str:
        """Describe the error of a message with that schema that cannot be decoded."""
        same = self._skips_resolution or writer == self.reader_id
        read_as = "" if same else f", read as schema {self.reader_id}"
        return error_message(UNDECODABLE, f"{writer}{read_as}")

    @property
    def _skips_resolution(self) -> bool:
        skipped = self._options.skip_schema_resolution_for_reader_schema_ids
        return self._options.skip_schema_resolution or self.reader_id in skipped

    def _decoded(self, mode: str, reader: Any, *, raise_on_error: bool = True) -> Column:
        from pyspark.sql import functions as f

        frame = f.expr("substring(value, 1, 5)")
        column = f.when(f.expr("value IS NULL"), f.lit(None))
        for id, writer in sorted(self._writers.items()):
            column = column.when(frame == f.lit(_frame(id)), _from_avro(writer.schema, reader, mode))
        if self._missing:
            column = column.when(_is_one_of(frame, self._missing), f.lit(None))
        return column.otherwise(f.expr(self._decode_error_sql())) if raise_on_error else column

    def _with_reject_marker(self, reader: Any) -> Any:
        return _with_sentinel(reader) if self._rejecting else reader

    def _decode_error_sql(self) -> str:
        """Return SQL of the error. An unknown schema always stops the plan, because it has to be fetched from the
        registry."""
        unknown = raise_error_sql(self._node, UNKNOWN_SCHEMA, _id_of("value"))
        foreign = self._on_invalid(NOT_FRAMED, "hex(substring(value, 1, 5))")
        return f"IF({_framed('value')}, {unknown}, {foreign})"

    # without resolution every schema has its own struct, and rows take their columns from the one that is not null

    def _decode_with(self, id: int) -> Column:
        from pyspark.sql import functions as f

        schema = self._writers[id].schema
        known = f.expr("substring(value, 1, 5)") == f.lit(_frame(id))
        return f.when(known, _from_avro(schema, self._with_reject_marker(AvroRecord.of(schema).reader), self._mode))

    def _decoded_marker(self) -> Column:
        from pyspark.sql import functions as f

        frame = f.expr("substring(value, 1, 5)")
        checked: Column = f.when(f.expr("value IS NULL"), f.lit(None))
        if self._rejecting:
            for id in sorted(self._writers):
                checked = checked.when(frame == f.lit(_frame(id)), self._decode_with(id).getField(_DECODED))
            if self._missing:
                checked = checked.when(_is_one_of(frame, self._missing), f.lit(None))
        else:
            checked = checked.when(_is_one_of(frame, self._writers), f.lit(True))
        return checked.otherwise(f.expr(self._decode_error_sql()))

    def _first(self, field: pa.Field) -> str:
        from streamling.types.spark import to_spark_type

        found = [
            self._value(column, f"payload{id}")
            for id, writer in sorted(self._writers.items())
            for column in AvroRecord.of(writer.schema).columns
            if column.field.name == field.name
        ]
        kind = type_sql(to_spark_type(field.type))
        return "coalesce(" + ", ".join(f"CAST({value} AS {kind})" for value in found or ["NULL"]) + ")"

    def _value(self, column: AvroColumn, payload: str) -> str:
        name = column.field.name
        path = f"{payload}.{quoted(name)}"
        value = self._converted(column, path)
        bad = _invalid_sql(column, path)
        return (
            value
            if self._rejecting or bad is None
            else f"IF({bad}, {self._on_invalid(AVRO_RANGE, literal(name))}, {value})"
        )

    def _converted(self, column: AvroColumn, path: str) -> str:
        if column.value is None:
            return path
        on_overflow = self._on_invalid(AVRO_VALUE, _invalid_value_detail(column, path))
        return column.value.replace("{0}", path).replace(ON_OVERFLOW, on_overflow)


def _invalid_sql(column: AvroColumn, path: str) -> str | None:
    """Return SQL for whether a column cannot hold its decoded value."""
    return None if column.invalid_when is None else f"coalesce({column.invalid_when.replace('{0}', path)}, false)"


def _column_reject_rules(column: AvroColumn, path: str, value: str | None = None) -> list[RejectRule]:
    """Return the rules that reject a decoded value; ``value`` is the finished column."""
    reject_rules = []
    if bad := _invalid_sql(column, path):
        reject_rules.append(RejectRule(bad, AVRO_RANGE, literal(column.field.name)))
    if column.value is not None and ON_OVERFLOW in column.value:
        known = not pa.types.is_nested(column.field.type) and value is not None
        on_overflow = f"{path} IS NOT NULL AND {value} IS NULL" if known else has_overflow(path, column.field.type)
        reject_rules.append(RejectRule(on_overflow, AVRO_VALUE, _invalid_value_detail(column, path)))
    return reject_rules


def _invalid_value_detail(column: AvroColumn, path: str) -> str:
    name, type_ = column.field.name, column.field.type
    if pa.types.is_nested(type_):
        return literal(f"in '{name}'")
    if not is_wide(type_):
        return f"concat({literal(f'{name} is {type_}, not ')}, CAST({path} AS STRING))"
    return f"concat({literal(f'{name} is {type_} and has the bytes 0x')}, hex({path}))"


def _id_of(value: str) -> str:
    return f"CAST(conv(hex(substring({value}, 2, 4)), 16, 10) AS STRING)"


def _framed(value: str) -> str:
    return f"length({value}) >= 5 AND substring({value}, 1, 1) = X'00'"


def _with_sentinel(reader: Any) -> Any:
    sentinel = {"name": _DECODED, "type": "boolean", "default": True}
    return {**reader, "fields": [*reader["fields"], sentinel]}


def _frame(id: int) -> bytearray:
    return bytearray(b"\x00" + id.to_bytes(4, "big"))


def _is_one_of(frame: Column, ids: Iterable[int]) -> Column:
    return frame.isin([_frame(id) for id in sorted(ids)])


def _from_avro(writer: Any, reader: Any, mode: str) -> Column:
    from pyspark.sql import functions as f
    from pyspark.sql.avro.functions import from_avro

    options = {"avroSchema": json.dumps(reader), "mode": mode}
    return from_avro(f.expr("substring(value, 6)"), json.dumps(writer), options)
