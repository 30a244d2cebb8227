"""A second implementation of Avro by its specification: encodes rows, and decodes messages of any bytes."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal
from typing import Any

from tests.fuzz.kafka_model import BadMessage

_EPOCH = dt.datetime(1970, 1, 1)


def zigzag(number: int) -> bytes:
    """An integer of up to 64 bits."""
    rest, out = (number << 1) ^ (number >> 63), bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def encoded(value: Any, schema: Any) -> bytes:
    """A value as returned by `decoded`, but texts and bytes as bytes and logical types as their numbers."""
    if isinstance(schema, list):
        branch = 0 if value is None else 1
        return zigzag(branch) + encoded(value, schema[branch])
    kind = schema["type"] if isinstance(schema, dict) else schema
    match kind:
        case "null":
            return b""
        case "boolean":
            return bytes([value])
        case "int" | "long":
            return zigzag(value)
        case "enum":
            return zigzag(schema["symbols"].index(value))
        case "double":
            return struct.pack("<d", value)
        case "fixed":
            return bytes(value)
        case "record":
            return b"".join(encoded(value[field["name"]], field["type"]) for field in schema["fields"])
        case "array":
            items = b"".join(encoded(item, schema["items"]) for item in value)
            return (zigzag(len(value)) + items if value else b"") + zigzag(0)
        case "map":
            items = b"".join(encoded(key, "string") + encoded(item, schema["values"]) for key, item in value.items())
            return (zigzag(len(value)) + items if value else b"") + zigzag(0)
    return zigzag(len(value)) + value


class Reader:
    """Reads values one after the other; raises `BadMessage` if there is none, or one that no column can hold."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def value(self, schema: Any) -> Any:
        if isinstance(schema, list):
            return self.value(self._one_of(schema))
        kind = schema["type"] if isinstance(schema, dict) else schema
        match kind:
            case "null":
                return None
            case "boolean":
                return self._take(1) == b"\1"
            case "int" | "long":
                return _moment(self._number(32 if kind == "int" else 64), schema)
            case "enum":
                return self._one_of(schema["symbols"])
            case "double":
                return struct.unpack("<d", self._take(8))[0]
            case "fixed":
                return _decimal(self._take(schema["size"]), schema)
            case "bytes":
                return _decimal(self._take(self._number(64)), schema)
            case "string":
                return _text(self._take(self._number(64)))
            case "record":
                return {field["name"]: self.value(field["type"]) for field in schema["fields"]}
            case "array":
                return self._items(schema["items"])
        entries = self._items({"type": "record", "fields": [{"name": "k", "type": "string"}, _item(schema)]})
        return {entry["k"]: entry["v"] for entry in entries}

    def _items(self, schema: Any) -> list[Any]:
        items: list[Any] = []
        while count := self._number(64):
            if count < 0:
                self._number(64)  # the block's size in bytes
            items.extend(self.value(schema) for _ in range(abs(count)))
        return items

    def _number(self, bits: int) -> int:
        number = shift = 0
        while True:
            (byte,) = self._take(1)
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
            if shift >= bits:
                raise BadMessage
        number &= 2**bits - 1
        return number >> 1 ^ -(number & 1)

    def _one_of(self, choices: list[Any]) -> Any:
        number = self._number(32)
        if not 0 <= number < len(choices):
            raise BadMessage
        return choices[number]

    def _take(self, count: int) -> bytes:
        if not 0 <= count <= len(self._content) - self._at:
            raise BadMessage
        self._at += count
        return self._content[self._at - count : self._at]


def _item(schema: Any) -> dict[str, Any]:
    return {"name": "v", "type": schema["values"]}


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise BadMessage from None


def _decimal(content: bytes, schema: Any) -> Decimal:
    number = int.from_bytes(content, "big", signed=True)
    if not content or abs(number) >= 10 ** schema["precision"]:
        raise BadMessage
    sign, digits, _ = Decimal(number).as_tuple()
    return Decimal((sign, digits, -schema["scale"]))  # no context rounds it


def _moment(number: int, schema: Any) -> Any:
    kind = schema.get("logicalType") if isinstance(schema, dict) else None
    try:
        if kind == "date":
            return dt.date.fromordinal(_EPOCH.toordinal() + number)
        if kind == "timestamp-micros":
            return _EPOCH + dt.timedelta(microseconds=number)
    except (OverflowError, ValueError):
        raise BadMessage from None
    if kind == "time-micros":
        if not 0 <= number < 86_400_000_000:
            raise BadMessage
        return (_EPOCH + dt.timedelta(microseconds=number)).time()
    return number
