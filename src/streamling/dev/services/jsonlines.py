"""JSON lines ↔ Kafka messages, for `dev produce` and `dev consume`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any

from streamling.dev.services.avro import SchemaRegistry, as_json, decode, is_framed
from streamling.dev.services.topics import Message
from streamling.errors import StreamlingError

OP_HEADER = "dbz.op"

#: operation column → header, and back (`r`: read by a snapshot)
_HEADER_OF = {"i": b"c", "u": b"u", "d": b"d"}
_OP_OF = {"r": "i", "c": "i", "u": "u", "d": "d"}


def messages(
    lines: Iterable[str],
    *,
    source: str,
    encode: Callable[[dict[str, Any]], bytes] | None = None,
    key: Sequence[str] = (),
    op_field: str = "_gs_op",
) -> Iterator[Message]:
    """Yield a message for each of ``lines``, which come from the file ``source``.

    ``encode`` encodes the value, as JSON if it is None; the fields ``key`` joined by `:` are the message's key;
    ``op_field`` becomes the header `dbz.op` and is not part of the value.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield _message(line, encode or _as_line, key, op_field)
        except ValueError as error:
            raise StreamlingError.user(
                f"{source}:{number}: {error}", remedy="correct this line; the lines before it have been written"
            ) from None


def format_message(message: Message, registry: SchemaRegistry | None) -> str:
    """Return ``message`` as a line of JSON; Avro is decoded if there is a ``registry``, otherwise shown in hex."""
    op = message.header(OP_HEADER)
    fields = {
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp,
        "key": _text(message.key),
        "op": _OP_OF.get(op.decode(errors="replace").lower()) if op else "i",
        "headers": {name: _text(value) for name, value in message.headers},
        "value": _value(message.value, registry),
    }
    return json.dumps(fields, ensure_ascii=False, default=as_json)


def _message(line: str, encode: Callable[[dict[str, Any]], bytes], key: Sequence[str], op_field: str) -> Message:
    row = json.loads(line, parse_float=Decimal)
    if not isinstance(row, dict):
        raise ValueError("the line is not a JSON object")
    lacking = [name for name in key if row.get(name) is None]
    if lacking:
        raise ValueError(f"the key field {lacking[0]!r} is missing")
    op = row.pop(op_field, None)
    if op is not None and op not in _HEADER_OF:
        raise ValueError(f"{op_field} is {op!r}, expected i, u or d")
    return Message(
        value=encode(row),
        key=":".join(str(row[name]) for name in key).encode() if key else None,
        headers=((OP_HEADER, _HEADER_OF[op]),) if op is not None else (),
    )


def _as_line(row: dict[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False, default=float, separators=(",", ":")).encode()


def _value(value: bytes | None, registry: SchemaRegistry | None) -> Any:
    if value is None:
        return None
    if is_framed(value):
        return decode(registry, value) if registry is not None else f"Avro {value.hex()}"
    try:
        return json.loads(value)
    except ValueError:
        return _text(value)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", errors="backslashreplace")
