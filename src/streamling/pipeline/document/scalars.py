"""Types of single values in the pipeline file: durations, keys, secrets, addresses."""

from __future__ import annotations

import re
from typing import Annotated, Any
from urllib.parse import urlsplit, urlunsplit

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, SecretStr, WithJsonSchema

REDACTED = "[REDACTED]"


class BadValueError(ValueError):
    """A value that cannot be used: a predicate that completes the sentence “field …”, and a remedy. A check of several
    fields names the ``field`` it is about."""

    def __init__(self, predicate: str, remedy: str | None = None, *, field: str | None = None) -> None:
        super().__init__(predicate)
        self.remedy = remedy
        self.field = field


def folded(value: object) -> object:
    """Return text in lower case, for case-insensitive names; anything else unchanged."""
    return value.lower() if isinstance(value, str) else value


#: marks fields whose text is code, in which ``${…}`` is not a variable of the pipeline file
PROGRAM = "program"
ProgramText = Annotated[str, PROGRAM]


# ── durations ─────────────────────────────────────────────────────────────────────────────────────────────

_DAY = 86_400.0
_SECONDS_BY_UNIT = {
    **dict.fromkeys(("nanos", "nsec", "ns"), 1e-9),
    **dict.fromkeys(("micros", "usec", "us", "µs"), 1e-6),
    **dict.fromkeys(("millis", "msec", "ms"), 1e-3),
    **dict.fromkeys(("seconds", "second", "secs", "sec", "s"), 1.0),
    **dict.fromkeys(("minutes", "minute", "mins", "min", "m"), 60.0),
    **dict.fromkeys(("hours", "hour", "hrs", "hr", "h"), 3_600.0),
    **dict.fromkeys(("days", "day", "d"), _DAY),
    **dict.fromkeys(("weeks", "week", "wk", "w"), 7 * _DAY),
    **dict.fromkeys(("months", "month", "M"), 30.44 * _DAY),
    **dict.fromkeys(("years", "year", "yr", "y"), 365.25 * _DAY),
}
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zA-Zµ]+)\s*", re.ASCII)
_DURATION_HELP = "write a number and a unit, such as 500ms, 1s, 1m 30s or 2h"


def parse_duration(text: object) -> float:
    """Return the seconds in a duration such as ``500ms`` or ``1m 30s``.

    >>> parse_duration("1m 30s")
    90.0
    """
    if not isinstance(text, str):
        raise BadValueError(f"is {text!r}, which has no unit", _DURATION_HELP)
    rest, seconds = text.strip(), 0.0
    if rest == "0":
        return 0.0
    if not rest:
        raise BadValueError("is empty, expected a duration", _DURATION_HELP)
    while rest:
        part = _DURATION_PART.match(rest)
        if part is None:
            raise BadValueError(f"is {text!r}, which is not a duration", _DURATION_HELP)
        amount, unit = part.groups()
        if unit not in _SECONDS_BY_UNIT:
            raise BadValueError(f"is {text!r}, and {unit!r} is not a unit of time", _DURATION_HELP)
        seconds += float(amount) * _SECONDS_BY_UNIT[unit]
        rest = rest[part.end() :]
    return seconds


def format_duration(seconds: float) -> str:
    """Return the shortest whole number and unit for ``seconds``.

    >>> format_duration(0.5), format_duration(90)
    ('500ms', '90s')
    """
    for unit in ("h", "m", "s", "ms", "us"):
        amount = seconds / _SECONDS_BY_UNIT[unit]
        if amount >= 1 and abs(amount - round(amount)) < 1e-9:
            return f"{round(amount)}{unit}"
    return f"{round(seconds * 1e9)}ns" if seconds else "0s"


#: seconds, written as ``500ms``, ``1s``, ``1m 30s``
Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^\s*(0|(\d+(\.\d+)?\s*[a-zA-Zµ]+\s*)+)\s*$",
            "examples": ["500ms", "1s", "1m 30s"],
        }
    ),
]

# ── column lists ──────────────────────────────────────────────────────────────────────────────────────────


def parse_columns(value: object) -> tuple[str, ...]:
    """Parse column names from ``a, b`` (or a list of names)."""
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise BadValueError("must be text", "write column names separated by commas, such as: id, block_number")
    columns = tuple(name.strip() for name in names)
    if not all(columns):
        raise BadValueError(
            "names an empty column" if len(columns) > 1 else "is empty",
            "write column names separated by commas, or remove the field",
        )
    twice = next((name for name in columns if columns.count(name) > 1), None)
    if twice is not None:
        raise BadValueError(f"names the column {twice!r} twice", "list each column once")
    return columns


#: key columns, written as ``id`` or ``id, block_number``
PrimaryKey = Annotated[
    tuple[str, ...],
    BeforeValidator(parse_columns),
    PlainSerializer(", ".join, return_type=str),
    WithJsonSchema({"type": "string", "minLength": 1, "examples": ["id", "id, block_number"]}),
]


def _parse_selection(value: object) -> tuple[str, ...] | None:
    return None if value == "*" else parse_columns(value)


#: columns to read, written as ``id, name``; ``*`` means all (None)
Columns = Annotated[
    tuple[str, ...] | None,
    BeforeValidator(_parse_selection),
    PlainSerializer(lambda columns: ", ".join(columns or "*"), return_type=str),
    WithJsonSchema({"type": "string", "minLength": 1}),
]

# ── secrets and addresses ─────────────────────────────────────────────────────────────────────────────────


def _redact(_: Any) -> str:
    return REDACTED


#: text that must be masked
Secret = Annotated[SecretStr, PlainSerializer(_redact, return_type=str)]


def check_http_url(url: str) -> str:
    """Return ``url`` if it is a valid address for a request."""
    # The message does not contain the text itself: an address may contain a password.
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port
    except ValueError:
        parts, host = urlsplit(""), None
    if parts.scheme not in ("http", "https"):
        raise BadValueError("is not an http or https address", "write it as https://host/path")
    if not host:
        raise BadValueError("has no host or an invalid port", "write it as https://host/path")
    return url


def redact_url(url: str) -> str:
    """Return ``url`` with user name, password and query values masked.

    >>> redact_url("https://me:secret@example.com/in?token=abc")
    'https://[REDACTED]@example.com/in?[REDACTED]'
    """
    parts = urlsplit(url)
    _, at, host = parts.netloc.rpartition("@")
    query = REDACTED if parts.query else ""
    return urlunsplit(parts._replace(netloc=f"{REDACTED}@{host}" if at else host, query=query))


#: an http(s) address; credentials in it are masked
HttpUrl = Annotated[
    str,
    AfterValidator(check_http_url),
    PlainSerializer(redact_url, return_type=str),
    WithJsonSchema({"type": "string", "format": "uri", "pattern": "^https?://"}),
]
