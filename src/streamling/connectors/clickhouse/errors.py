"""Errors of a ClickHouse server: which of them may disappear, and what to do about the others."""

from __future__ import annotations

import re
import ssl
from typing import Final

from streamling.connectors.clickhouse.server import ClickHouseServer
from streamling.errors import BadRow, StreamlingError
from streamling.redaction import excerpt

#: codes of errors that may disappear by themselves
_TRANSIENT: Final = {
    159: "TIMEOUT_EXCEEDED",
    202: "TOO_MANY_SIMULTANEOUS_QUERIES",
    203: "NO_FREE_CONNECTION",
    209: "SOCKET_TIMEOUT",
    210: "NETWORK_ERROR",
    225: "NO_ZOOKEEPER",
    236: "ABORTED",
    241: "MEMORY_LIMIT_EXCEEDED",
    242: "TABLE_IS_READ_ONLY",
    243: "NOT_ENOUGH_SPACE",
    252: "TOO_MANY_PARTS",
    279: "ALL_CONNECTION_TRIES_FAILED",
    285: "TOO_FEW_LIVE_REPLICAS",
    286: "UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE",
    319: "UNKNOWN_STATUS_OF_INSERT",
    341: "UNFINISHED",
    394: "QUERY_WAS_CANCELLED",
    410: "UNKNOWN_STATUS_OF_TRANSACTION",
    439: "CANNOT_SCHEDULE_TASK",
    473: "DEADLOCK_AVOIDED",
    499: "S3_ERROR",
    571: "DATABASE_REPLICATION_FAILED",
    649: "INVALID_TRANSACTION",
    999: "KEEPER_EXCEPTION",
}
#: codes of errors that concern a value and not the table
_ROW_ERRORS: Final = {
    6: "CANNOT_PARSE_TEXT",
    27: "CANNOT_PARSE_INPUT_ASSERTION_FAILED",
    38: "CANNOT_PARSE_DATE",
    41: "CANNOT_PARSE_DATETIME",
    69: "ARGUMENT_OUT_OF_BOUND",
    72: "CANNOT_PARSE_NUMBER",
    117: "INCORRECT_DATA",
    131: "TOO_LARGE_STRING_SIZE",
    321: "VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE",
    349: "CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN",
    376: "CANNOT_PARSE_UUID",
    407: "DECIMAL_OVERFLOW",
    469: "VIOLATED_CONSTRAINT",
    675: "CANNOT_PARSE_IPV4",
    676: "CANNOT_PARSE_IPV6",
    691: "UNKNOWN_ELEMENT_OF_ENUM",
}
#: a code with two meanings: parts that are waiting to be merged, or partitions of one insert
_TOO_MANY_PARTS: Final = 252
_TOO_MANY_PARTITIONS: Final = "Too many partitions"
_TRANSIENT_STATUSES: Final = frozenset({408, 429, 500, 502, 503, 504})
_CREDENTIALS: Final = frozenset({192, 193, 194, 516})
_UNAUTHORIZED: Final = frozenset({401, 403})
TIMEOUT_EXCEEDED: Final = 159
UNKNOWN_DATABASE: Final = 81
UNKNOWN_TABLE: Final = 60
ACCESS_DENIED: Final = 497
MEMORY_LIMIT_EXCEEDED: Final = 241

#: the text of an exception, at the start of a body or in the middle of one
_EXCEPTION: Final = re.compile(r"Code: (\d+)\. DB::(?:\w+)?Exception: (.*)", re.DOTALL)
#: what follows the message of an exception
_TRAILER: Final = re.compile(
    r"\s*\((?:version|official build)[^)]*\)+.*|\s*(?:\d+ [a-z]+\s+)?__exception__.*|\s*Stack trace:.*", re.DOTALL
)
_SHOWN: Final = 500


class ServerError(StreamlingError):
    """An exception of the server."""

    #: ClickHouse's number of the error; 0 when the response had none
    code: int = 0


class RowError(ServerError, BadRow):
    """An exception of the server about a value."""


def find_exception(text: str) -> tuple[int, str] | None:
    """Return code and message of the last exception in ``text``, or None if there is none."""
    found = None
    start = 0
    while match := _EXCEPTION.search(text, start):
        found, start = match, match.start(2)
    return None if found is None else (int(found[1]), _message(found[2]))


def server_error(server: ClickHouseServer, status: int, code: int, text: str) -> ServerError:
    """Return the error of a response with an exception: its code, or 0, and its body."""
    found = find_exception(text)
    code, message = found if found is not None and code in (0, found[0]) else (code, _message(text))
    error = _classified(server, status, code, message)
    error.code = code
    return error


def tls_error(server: ClickHouseServer, error: ssl.SSLError) -> StreamlingError:
    """Return the error of a TLS handshake."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return StreamlingError.user(
            f"the certificate of ClickHouse at {server} cannot be verified: {error.verify_message}",
            remedy=f"set {server.section}.ssl_ca_location to the certificate of its authority",
        )
    return StreamlingError.user(
        f"ClickHouse at {server}: the TLS handshake failed ({error.reason})",
        remedy=f"check {server.section}.url: a port without encryption needs http:// instead of https://",
    )


def _classified(server: ClickHouseServer, status: int, code: int, message: str) -> ServerError:
    if code in _CREDENTIALS or (not code and status in _UNAUTHORIZED):
        return ServerError.user(
            f"ClickHouse at {server} rejected the user '{server.user}' or the password",
            remedy=f"check {server.section}.user and {server.section}.password",
        )
    if code == UNKNOWN_DATABASE:
        return ServerError.user(
            f"ClickHouse at {server} rejected the request: {message}",
            remedy=f"create the database, or correct {server.section}.database",
        )
    if code == ACCESS_DENIED:
        return ServerError.user(
            f"ClickHouse at {server} denies access: {message}",
            remedy=f"grant the privilege to the user '{server.user}'",
        )
    if code == UNKNOWN_TABLE:
        return ServerError.user(
            f"ClickHouse at {server} rejected the request: {message}",
            remedy="create the table; a sink creates it when the pipeline starts",
        )
    if code == _TOO_MANY_PARTS and _TOO_MANY_PARTITIONS in message:
        return ServerError.user(
            f"ClickHouse at {server} rejected the request: {message}",
            remedy="partition the table by larger units, or set `batch_size` so that a batch has fewer partitions",
        )
    if code:
        text = f"ClickHouse at {server} reported error {code}: {message}"
        kind = RowError if code in _ROW_ERRORS else ServerError
        return kind.transient(text) if code in _TRANSIENT else kind.user(text)
    text = f"ClickHouse at {server} returned status {status}" + (f": {message}" if message else "")
    if status in _TRANSIENT_STATUSES:
        return ServerError.transient(text)
    return ServerError.user(text, remedy=f"check {server.section}.url: it must be the HTTP interface of ClickHouse")


def _message(text: str) -> str:
    return excerpt(_TRAILER.sub("", text.strip()).rstrip(". "), _SHOWN)
