"""Decodes response bodies, with a size limit."""

from __future__ import annotations

import zlib
from typing import Final, Protocol

from streamling.network.http.errors import NoResponseError, ResponseTooLargeError

#: expected header: gzip; zlib; none
_GZIP: Final = 16 + zlib.MAX_WBITS
_ZLIB: Final = zlib.MAX_WBITS
_RAW: Final = -zlib.MAX_WBITS

#: maximum number of members of a gzip body; each costs a copy of the data received
_MAX_MEMBERS: Final = 10_000

#: encodings announced in requests
ACCEPTED: Final = "gzip, deflate"


class Decoder(Protocol):
    """Decodes one body. ``most`` is the number of bytes that may still be produced."""

    def decode(self, data: bytes, most: int) -> bytes: ...

    def end(self) -> None:
        """Raise if the body is incomplete."""


class Plain:
    """An uncompressed body; stateless, so one instance is enough."""

    def decode(self, data: bytes, most: int) -> bytes:
        if len(data) > most:
            raise ResponseTooLargeError
        return data

    def end(self) -> None:
        pass


PLAIN: Final = Plain()


class Compressed:
    """A gzip or deflate body. The limit applies after decompression, so that a small body cannot expand without
    bound."""

    def __init__(self, encoding: str) -> None:
        self._gzip = encoding in ("gzip", "x-gzip")
        self._inner = None if not self._gzip else zlib.decompressobj(_GZIP)
        self._members = 1

    def decode(self, data: bytes, most: int) -> bytes:
        parts: list[bytes] = []
        try:
            while data:
                if self._inner is None:
                    # by the standard deflate has a zlib header, but many servers omit it
                    self._inner = zlib.decompressobj(_ZLIB if data[0] & 0x0F == 8 else _RAW)
                elif self._inner.eof:
                    if not self._gzip:
                        break
                    self._inner = zlib.decompressobj(_GZIP)  # a gzip body may have several members
                    self._members += 1
                    if self._members > _MAX_MEMBERS:
                        raise NoResponseError(f"the response has more than {_MAX_MEMBERS} gzip members")
                part = self._inner.decompress(data, most + 1)
                most -= len(part)
                if most < 0:
                    raise ResponseTooLargeError
                parts.append(part)
                data = self._inner.unused_data if self._inner.eof else self._inner.unconsumed_tail
        except zlib.error:
            raise NoResponseError("the response is not compressed as its header says") from None
        return b"".join(parts)

    def end(self) -> None:
        if self._inner is not None and not self._inner.eof:
            raise NoResponseError("the connection broke before the response was complete")


def decoder_of(encoding: str) -> Decoder:
    """Return the decoder for this ``Content-Encoding``. Encodings that we did not request are left as they are."""
    name = encoding.strip().lower()
    return Compressed(name) if name in ("gzip", "x-gzip", "deflate") else PLAIN
