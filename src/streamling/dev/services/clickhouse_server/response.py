"""A response in ClickHouse's form: headers, a body in chunks, and errors before and after its first part."""

from __future__ import annotations

import json
import random
import string
from dataclasses import asdict
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Final

from streamling.dev.services.clickhouse_server.compression import Compressor
from streamling.dev.services.clickhouse_server.engine import Statistics
from streamling.dev.services.clickhouse_server.errors import ClickHouseError

_TEXT: Final = "text/plain; charset=UTF-8"
_CONTENT_TYPES: Final = {
    "TabSeparated": "text/tab-separated-values; charset=UTF-8",
    "TSV": "text/tab-separated-values; charset=UTF-8",
    "CSV": "text/csv; charset=UTF-8; header=absent",
    "CSVWithNames": "text/csv; charset=UTF-8; header=present",
    "JSON": "application/json; charset=UTF-8",
    "JSONCompact": "application/json; charset=UTF-8",
    "JSONEachRow": "application/x-ndjson; charset=UTF-8",
    **dict.fromkeys(("Native", "RowBinary", "Arrow", "ArrowStream", "Parquet", "ORC"), "application/octet-stream"),
}


class Dropped(Exception):
    """The connection is closed on purpose, in the middle of a response or without one."""


class Response:
    """The response to one request. Statistics and format are set before it is started."""

    def __init__(self, handler: BaseHTTPRequestHandler, accepted_encodings: str) -> None:
        self.query_id = ""
        self.timezone = ""
        self.statistics: Statistics | None = None
        self.format = ""
        self.started = False
        self._handler = handler
        self._compressor = Compressor(accepted_encodings)
        self._tag = "".join(random.choices(string.ascii_lowercase, k=16))

    def send(self, status: HTTPStatus, body: bytes, code: int | None = None) -> None:
        """Send a response with a body that is known."""
        self._headers(status)
        if code is not None:
            self._handler.send_header("X-ClickHouse-Exception-Code", str(code))
        self._handler.send_header("Content-Length", str(len(body)))
        self._handler.end_headers()
        self._handler.wfile.write(body)
        self._handler.wfile.flush()

    def start(self) -> None:
        """Send status 200 and the headers of a response whose body follows in chunks."""
        self._headers(HTTPStatus.OK)
        if self._compressor.encoding:
            self._handler.send_header("Content-Encoding", self._compressor.encoding)
        self._handler.send_header("Transfer-Encoding", "chunked")
        self._handler.end_headers()
        self.started = True

    def write(self, data: bytes) -> None:
        self._chunk(self._compressor.compress(data))

    def finish(self) -> None:
        self._chunk(self._compressor.finish())
        self._handler.wfile.write(b"0\r\n\r\n")
        self._handler.wfile.flush()

    def fail(self, error: ClickHouseError, *, tagged: bool = True) -> None:
        """Send an error: with its own status, or at the end of a body that was already begun."""
        text = error.text.encode()
        if not self.started:
            self.statistics = self.statistics or Statistics()
            self.send(error.status, text + b"\n", error.code)
            return
        block = b"\r\n__exception__\r\n%b\r\n%b\n%d %b\r\n__exception__\r\n"
        tag = self._tag.encode()
        self.write(block % (tag, text, len(text) + 1, tag) if tagged else text + b"\n")
        self._chunk(self._compressor.finish())
        self._handler.wfile.flush()
        raise Dropped  # without the last chunk, so that the client sees an incomplete response

    def _headers(self, status: HTTPStatus) -> None:
        headers = {
            "Content-Type": _CONTENT_TYPES.get(self.format, _TEXT),
            "X-ClickHouse-Server-Display-Name": "streamling-dev",
            "X-ClickHouse-Query-Id": self.query_id,
            "X-ClickHouse-Format": self.format,
            "X-ClickHouse-Timezone": self.timezone,
            "X-ClickHouse-Exception-Tag": self._tag,
            "X-ClickHouse-Summary": self._summary(),
        }
        self._handler.send_response(status)
        for name, value in headers.items():
            if value:
                self._handler.send_header(name, value)

    def _summary(self) -> str:
        if self.statistics is None:
            return ""
        return json.dumps({name: str(value) for name, value in asdict(self.statistics).items()})

    def _chunk(self, data: bytes) -> None:
        if data:  # an empty chunk would end the response
            self._handler.wfile.write(b"%x\r\n" % len(data))
            self._handler.wfile.write(data)
            self._handler.wfile.write(b"\r\n")
