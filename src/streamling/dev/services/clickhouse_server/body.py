"""The body of a request: of known length, or chunked."""

from __future__ import annotations

from collections.abc import Iterator
from email.message import Message
from io import BufferedIOBase
from typing import Final

_CHUNK_BYTES: Final = 1 << 20


class BrokenBody(Exception):
    """The client went away before the end of its request."""


def read_body(stream: BufferedIOBase, headers: Message) -> Iterator[bytes]:
    """Yield the pieces of the body as they arrive, of at most 1 MiB."""
    if "chunked" in headers.get("Transfer-Encoding", "").lower():
        yield from _chunked(stream)
    else:
        yield from _counted(stream, int(headers.get("Content-Length") or 0))


def _chunked(stream: BufferedIOBase) -> Iterator[bytes]:
    while length := _chunk_length(_line(stream)):
        yield from _counted(stream, length)
        _line(stream)
    while _line(stream).strip():
        pass  # trailers


def _chunk_length(line: bytes) -> int:
    try:
        return int(line.partition(b";")[0], 16)
    except ValueError:
        raise BrokenBody from None


def _counted(stream: BufferedIOBase, length: int) -> Iterator[bytes]:
    while length:
        piece = stream.read(min(length, _CHUNK_BYTES))
        if not piece:
            raise BrokenBody
        length -= len(piece)
        yield piece


def _line(stream: BufferedIOBase) -> bytes:
    line = stream.readline(1 << 16)
    if not line.endswith(b"\n"):
        raise BrokenBody
    return line
