"""Avro values in Confluent's wire format, with schemas in a registry."""

from __future__ import annotations

import datetime as dt
import io
import json
import urllib.error
import urllib.request
from decimal import Decimal, InvalidOperation
from typing import Any
from urllib.parse import quote

from streamling.errors import StreamlingError

_MAGIC = b"\x00"
_SECONDS = 10
_MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"


class SchemaRegistry:
    """A minimal client: registers schemas and looks them up."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._schemas: dict[int, Any] = {}

    def register(self, subject: str, schema: Any) -> int:
        """Return the id of ``schema`` under ``subject``, new or existing."""
        answer = self.ask(f"/subjects/{quote(subject, safe='')}/versions", {"schema": json.dumps(schema)})
        return int(answer["id"])

    def schema(self, id: int) -> Any:
        """Return the schema with this id, parsed by fastavro."""
        if id not in self._schemas:
            from fastavro import parse_schema

            self._schemas[id] = parse_schema(json.loads(self.ask(f"/schemas/ids/{id}")["schema"]))
        return self._schemas[id]

    def ask(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, {"Content-Type": _MEDIA_TYPE})
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                said = error.read().decode(errors="replace")
            raise StreamlingError(f"the schema registry rejected {path}: {error.code} {said[:500]}") from None
        except OSError as error:
            raise StreamlingError(f"the schema registry at {self._url} does not respond", cause=error) from None


class AvroEncoder:
    """Encodes rows from JSON as framed Avro."""

    def __init__(self, schema: Any, schema_id: int) -> None:
        from fastavro import parse_schema

        self._schema = parse_schema(schema)
        self._types: dict[str, Any] = {}
        self._prefix = _MAGIC + schema_id.to_bytes(4, "big")

    def __call__(self, row: dict[str, Any]) -> bytes:
        from fastavro import schemaless_writer

        out = io.BytesIO(self._prefix)
        out.seek(len(self._prefix))
        schemaless_writer(out, self._schema, self._value(row, self._schema, ""))
        return out.getvalue()

    def _value(self, value: Any, schema: Any, path: str) -> Any:
        """Return ``value`` as fastavro expects it for ``schema``: JSON has no decimals, bytes, dates and times."""
        if isinstance(schema, list):
            return self._of_union(value, schema, path)
        if isinstance(schema, str):
            schema = self._types.get(schema, {"type": schema})
        kind, logical = schema["type"], schema.get("logicalType", "")
        if kind in ("record", "enum", "fixed"):
            self._types[schema["name"]] = schema
        try:
            match kind:
                case "record":
                    return self._of_record(value, schema, path)
                case "array":
                    return [self._value(item, schema["items"], f"{path}[{n}]") for n, item in enumerate(value)]
                case "map":
                    return {key: self._value(item, schema["values"], f"{path}.{key}") for key, item in value.items()}
                case _ if logical and isinstance(value, str | int | float | Decimal):
                    return _logical(value, logical)
                case "bytes" | "fixed" if isinstance(value, str):
                    return value.encode("latin-1")  # like bytes in Avro's own JSON encoding
                case "float" | "double":
                    return float(value)
                case _:
                    return value
        except _InvalidValue:
            raise
        except (TypeError, ValueError, AttributeError, InvalidOperation):
            expected = f"{kind} ({logical})" if logical else kind
            raise _InvalidValue(f"{path.lstrip('.') or 'the row'} is {_shown(value)}, expected {expected}") from None

    def _of_record(self, value: Any, schema: Any, path: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise TypeError
        fields = {field["name"]: field for field in schema["fields"]}
        unknown = [name for name in value if name not in fields]
        if unknown:
            raise _InvalidValue(
                f"{f'{path}.{unknown[0]}'.lstrip('.')} is not in the schema, which has {', '.join(fields)}"
            )
        lacking = [name for name, field in fields.items() if name not in value and "default" not in field]
        if lacking:
            raise _InvalidValue(
                f"{f'{path}.{lacking[0]}'.lstrip('.')} is missing, and the schema has no default for it"
            )
        return {name: self._value(item, fields[name]["type"], f"{path}.{name}") for name, item in value.items()}

    def _of_union(self, value: Any, schema: list[Any], path: str) -> Any:
        if value is None and "null" in schema:
            return None
        branches = [branch for branch in schema if branch != "null"]
        # with several branches, fastavro finds the one that matches the JSON value
        return self._value(value, branches[0], path) if len(branches) == 1 else value


class _InvalidValue(ValueError):
    """Has a complete message; the enclosing record must not add to it."""


def decode(registry: SchemaRegistry, value: bytes) -> Any:
    """Return the row in a framed Avro ``value``."""
    from fastavro import schemaless_reader

    schema = registry.schema(int.from_bytes(value[1:5], "big"))
    return schemaless_reader(io.BytesIO(value[5:]), schema, None)


def is_framed(value: bytes) -> bool:
    """Return whether ``value`` may be framed Avro; text never starts with that byte."""
    return len(value) > 5 and value[:1] == _MAGIC


def as_json(value: Any) -> Any:
    """Return the ``default`` function of `json.dumps` for types that JSON lacks, the inverse of the encoder."""
    match value:
        case Decimal():
            return str(value)
        case dt.datetime() | dt.date() | dt.time():
            return value.isoformat()
        case bytes():
            return value.decode("latin-1")
        case _:
            return str(value)


def _logical(value: str | int | float | Decimal, logical: str) -> Any:
    match logical:
        case "decimal":
            return Decimal(str(value))
        case "date" if isinstance(value, str):
            return dt.date.fromisoformat(value)
        case "time-millis" | "time-micros" if isinstance(value, str):
            return dt.time.fromisoformat(value)
        case "timestamp-millis" | "timestamp-micros" if isinstance(value, str):
            moment = dt.datetime.fromisoformat(value)
            return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
        case "local-timestamp-millis" | "local-timestamp-micros" if isinstance(value, str):
            return dt.datetime.fromisoformat(value)
        case _:
            return value


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}…"
