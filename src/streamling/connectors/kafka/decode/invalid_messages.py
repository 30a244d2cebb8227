"""Messages that cannot be decoded to rows. Spark stops at the first one and reports which one and why.

Errors inside Spark come back as the text of an exception. That text is a small JSON object, so that it can be
recognized and translated. With a dead-letter sink nothing stops: invalid values are null, and `RejectRule`s decide
which rows are rejected.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from streamling.errors import StreamlingError
from streamling.spark.sql_text import literal

_MARK: Final = '{"streamling_kafka":'

UNKNOWN_SCHEMA: Final = "unknown schema"
UNKNOWN_KEY_SCHEMA: Final = "unknown key schema"
NOT_FRAMED: Final = "not framed"
TOMBSTONE: Final = "tombstone"
TOMBSTONE_KEY: Final = "tombstone key"
OPERATION: Final = "operation"
JSON_TEXT: Final = "json"
JSON_VALUE: Final = "json value"
MISSING_KEY: Final = "missing key"
AVRO_VALUE: Final = "avro value"
AVRO_RANGE: Final = "avro range"
UNDECODABLE: Final = "undecodable"
MISSING_SCHEMA: Final = "missing schema"

_REMEDY_FRAME = "the topic is not written with a schema registry; set data_format, or remove the message"
#: kind of error → the message for the detail, and the remedy
_MESSAGES: dict[str, tuple[str, str | None]] = {
    NOT_FRAMED: ("is not Avro in a schema registry's wire format; it starts with the bytes {0}", _REMEDY_FRAME),
    TOMBSTONE: (
        "is a tombstone (it has no value), but no primary key is known for the delete",
        "name the key columns with primary_key",
    ),
    TOMBSTONE_KEY: (
        "is a tombstone (it has no value), but its key {0} does not contain the primary key",
        "write the key columns as the message key: JSON, Avro, or the value itself",
    ),
    UNDECODABLE: (
        "cannot be decoded with schema {0}: it is truncated or corrupt, or has a value that the schema cannot hold",
        None,
    ),
    MISSING_SCHEMA: ("was written with schema {0}, which the schema registry does not have", None),
    OPERATION: ("has the header dbz.op = '{0}', expected one of r, c, u, d", None),
    JSON_TEXT: ("is not exactly one JSON object: {0}", None),
    MISSING_KEY: ("has no value for the key column '{0}'", "write it, or correct primary_key"),
    AVRO_VALUE: (
        "has a number that does not fit its column's type: {0}",
        "declare the field as a decimal of 79 digits, which may be negative, or correct the data",
    ),
    AVRO_RANGE: (
        "has a value that the column '{0}' cannot hold: text must be UTF-8, times within a day, dates and "
        "timestamps within the years 1 to 9999",
        None,
    ),
    JSON_VALUE: ("has a value that does not fit its column's type: {0}", "correct the type in schema"),
}


@dataclass(frozen=True)
class InvalidMessage:
    """A message that stopped the plan."""

    node: str
    kind: str
    partition: int
    offset: int
    detail: str

    def error(self, topic: str) -> StreamlingError:
        location = message_location(topic, self.partition, self.offset)
        return StreamlingError.user(
            f"{location} {error_message(self.kind, self.detail)}", remedy=_MESSAGES[self.kind][1]
        )


def error_message(kind: str, detail: str) -> str:
    """Return what is wrong with a message, without its location."""
    return _MESSAGES[kind][0].format(detail)


def message_location(topic: str, partition: int, offset: int) -> str:
    """Return the location of a message, as all errors show it."""
    return f"the message at topic '{topic}', partition {partition}, offset {offset}"


def raise_error_sql(node: str, kind: str, detail: str = "''") -> str:
    """Return Spark SQL that stops the plan at a row; ``detail`` is SQL for a text, evaluated only then."""
    head = literal(f'{_MARK}{json.dumps(node)},"kind":"{kind}","partition":')
    return (
        f"raise_error(concat({head}, CAST(partition AS STRING), "
        f"',\"offset\":', CAST(offset AS STRING), ',\"detail\":\"', hex(CAST({detail} AS BINARY)), '\"}}'))"
    )


#: returns SQL for an invalid value, from a kind of error and SQL for its detail
OnInvalid = Callable[..., str]


def raise_on_invalid(node: str) -> OnInvalid:
    """Return an `OnInvalid` that stops the plan."""
    return partial(raise_error_sql, node)


def null_on_invalid(kind: str, detail: str = "''") -> str:
    """Replace an invalid value with null; a `RejectRule` reports it elsewhere."""
    return "NULL"


#: a column with the message itself, under a name that no other projection uses
MESSAGE: Final = "__message"


@dataclass(frozen=True)
class RejectRule:
    """Why a message is rejected: SQL for the condition, and for the detail."""

    condition: str
    kind: str
    detail: str = "''"

    def error_message(self) -> str:
        """Return SQL for the error message."""
        text, remedy = _MESSAGES[self.kind]
        before, _, after = f"the message {text}{f' ({remedy})' if remedy else ''}".partition("{0}")
        # data from a message need not be text
        return f"concat({literal(before)}, make_valid_utf8(coalesce({self.detail}, '')), {literal(after)})"


def find_invalid_message(text: str, node: str) -> InvalidMessage | None:
    """Return the error that `raise_error_sql` put into the text of an exception, if it belongs to ``node``."""
    for part in text.split(_MARK)[1:]:
        try:
            found, _ = json.JSONDecoder().raw_decode(_MARK + part)
        except ValueError:
            continue  # Spark also prints the plan, which contains the expression of `raise_error_sql`
        if found["streamling_kafka"] == node:
            detail = bytes.fromhex(found["detail"]).decode(errors="replace")
            return InvalidMessage(node, found["kind"], found["partition"], found["offset"], detail)
    return None
