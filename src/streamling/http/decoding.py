"""Bodies of answers: put together, decompressed, and never longer than allowed."""

from __future__ import annotations

import zlib
from typing import Final, Protocol

from streamling.http.errors import NoResponseError, ResponseTooLargeError

#: what zlib is told to expect: a gzip header; a zlib header; neither
_GZIP: Final = 16 + zlib.MAX_WBITS
_ZLIB: Final = zlib.MAX_WBITS
_RAW: Final = -zlib.MAX_WBITS

#: parts of a gzip body; each costs a copy of what has arrived
_MOST_MEMBERS: Final = 10_000

#: what a request says that we can read
ACCEPTED: Final = "gzip, deflate"


class Decoder(Protocol):
    """One body. ``most`` is the number of bytes that may still come out."""

    def decode(self, data: bytes, most: int) -> bytes: ...

    def end(self) -> None:
        """Raise when the body stops in the middle."""


class Plain:
    """A body as it is; stateless, so one is enough."""

    def decode(self, data: bytes, most: int) -> bytes:
        if len(data) > most:
            raise ResponseTooLargeError
        return data

    def end(self) -> None:
        pass


PLAIN: Final = Plain()


class Compressed:
    """A gzip or deflate body. It is counted after decompression, so that a small one cannot grow without a limit."""

    def __init__(self, encoding: str) -> None:
        self._gzip = encoding in ("gzip", "x-gzip")
        self._inner = None if not self._gzip else zlib.decompressobj(_GZIP)
        self._members = 1

    def decode(self, data: bytes, most: int) -> bytes:
        parts: list[bytes] = []
        try:
            while data:
                if self._inner is None:
                    # by the standard deflate has a zlib header, but many servers send none
                    self._inner = zlib.decompressobj(_ZLIB if data[0] & 0x0F == 8 else _RAW)
                elif self._inner.eof:
                    if not self._gzip:
                        break
                    self._inner = zlib.decompressobj(_GZIP)  # a gzip body may have several parts
                    self._members += 1
                    if self._members > _MOST_MEMBERS:
                        raise NoResponseError(f"the answer is compressed in more than {_MOST_MEMBERS} parts")
                part = self._inner.decompress(data, most + 1)
                most -= len(part)
                if most < 0:
                    raise ResponseTooLargeError
                parts.append(part)
                data = self._inner.unused_data if self._inner.eof else self._inner.unconsumed_tail
        except zlib.error:
            raise NoResponseError("the answer is not compressed as it says") from None
        return b"".join(parts)

    def end(self) -> None:
        if self._inner is not None and not self._inner.eof:
            raise NoResponseError("the connection broke before the answer was complete")


def decoder_of(encoding: str) -> Decoder:
    """For a body with this ``Content-Encoding``. One that we did not ask for stays as it is."""
    name = encoding.strip().lower()
    return Compressed(name) if name in ("gzip", "x-gzip", "deflate") else PLAIN
