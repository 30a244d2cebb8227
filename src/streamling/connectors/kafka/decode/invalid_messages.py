"""Messages that cannot become rows: Spark stops at the first, and tells us which one and why.

What goes wrong inside Spark comes back as the text of an exception. So that it can be told apart, and told to the user
in their terms, the text is a small JSON object. Where bad messages have a sink of their own, nothing stops: values that
cannot be had are null, and `RejectRule`s say which rows that makes bad.
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
#: kind of failure → the sentence over the detail, and the remedy
_SENTENCES: dict[str, tuple[str, str | None]] = {
    NOT_FRAMED: ("is no Avro in the framing of a schema registry, it begins with the bytes {0}", _REMEDY_FRAME),
    TOMBSTONE: (
        "is a tombstone (it has no value), and no primary key is known to make a delete of it",
        "name the key columns with primary_key",
    ),
    TOMBSTONE_KEY: (
        "is a tombstone (it has no value), and its key {0} does not hold the primary key",
        "write the key columns as the message key: JSON, Avro, or the value itself",
    ),
    UNDECODABLE: (
        "cannot be decoded with schema {0}: it is cut short or damaged, or has a value that the schema cannot hold",
        None,
    ),
    MISSING_SCHEMA: ("was written with schema {0}, which the schema registry does not know", None),
    OPERATION: ("has the header dbz.op = '{0}', expected one of r, c, u, d", None),
    JSON_TEXT: ("is not exactly one JSON object: {0}", None),
    MISSING_KEY: ("has no value for the key column '{0}'", "write it, or correct primary_key"),
    AVRO_VALUE: (
        "has a number that does not fit its column's type: {0}",
        "declare the field as a decimal of 79 digits, which may be negative, or correct the data",
    ),
    AVRO_RANGE: (
        "has a value in the column '{0}' that it cannot hold: text is UTF-8, times are within a day, dates and "
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
        place = message_location(topic, self.partition, self.offset)
        return StreamlingError.user(f"{place} {sentence(self.kind, self.detail)}", remedy=_SENTENCES[self.kind][1])


def sentence(kind: str, detail: str) -> str:
    """What is wrong with a message, without its place."""
    return _SENTENCES[kind][0].format(detail)


def message_location(topic: str, partition: int, offset: int) -> str:
    """A message, as all errors name it."""
    return f"the message at topic '{topic}', partition {partition}, offset {offset}"


def raise_error_sql(node: str, kind: str, detail: str = "''") -> str:
    """Spark SQL that stops the plan at a row; ``detail`` is SQL for a text, and only runs then."""
    head = literal(f'{_MARK}{json.dumps(node)},"kind":"{kind}","partition":')
    return (
        f"raise_error(concat({head}, CAST(partition AS STRING), "
        f"',\"offset\":', CAST(offset AS STRING), ',\"detail\":\"', hex(CAST({detail} AS BINARY)), '\"}}'))"
    )


#: SQL for what stands in place of a value that cannot be had: a kind of failure, and SQL for its detail
OnInvalid = Callable[..., str]


def raise_on_invalid(node: str) -> OnInvalid:
    """A value that cannot be had stops the plan."""
    return partial(raise_error_sql, node)


def null_on_invalid(kind: str, detail: str = "''") -> str:
    """A value that cannot be had is null; a `RejectRule` is made of it elsewhere."""
    return "NULL"


#: a column with the message itself, under a name that no other projection makes
MESSAGE: Final = "__message"


@dataclass(frozen=True)
class RejectRule:
    """Why a message is no row: SQL for when it is so, and for the detail."""

    condition: str
    kind: str
    detail: str = "''"

    def sentence(self) -> str:
        """SQL for the error."""
        told, remedy = _SENTENCES[self.kind]
        before, _, after = f"the message {told}{f' ({remedy})' if remedy else ''}".partition("{0}")
        # what comes from a message need not be text
        return f"concat({literal(before)}, make_valid_utf8(coalesce({self.detail}, '')), {literal(after)})"


def find_invalid_message(text: str, node: str) -> InvalidMessage | None:
    """The failure that `raise_error_sql` put into the text of an exception, if it is one of ``node``."""
    for part in text.split(_MARK)[1:]:
        try:
            found, _ = json.JSONDecoder().raw_decode(_MARK + part)
        except ValueError:
            continue  # Spark also prints the plan, and the expression of `raise_error_sql` is part of it
        if found["streamling_kafka"] == node:
            detail = bytes.fromhex(found["detail"]).decode(errors="replace")
            return InvalidMessage(node, found["kind"], found["partition"], found["offset"], detail)
    return None
