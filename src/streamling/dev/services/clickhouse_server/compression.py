"""Compressed requests and responses: Content-Encoding and Accept-Encoding."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from typing import Any, Final

from streamling.dev.services.clickhouse_server.errors import ClickHouseError

#: names in HTTP → names in Arrow, whose codecs are compiled and do not hold Python's lock; in order of preference
_CODECS: Final = {"lz4": "lz4", "zstd": "zstd", "br": "brotli", "gzip": "gzip"}
_CHUNK_BYTES: Final = 1 << 20


def decompress(chunks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    """Return the content of a body with this Content-Encoding."""
    if encoding in ("", "identity"):
        return chunks
    if encoding == "deflate":
        return _inflate(chunks)
    if encoding not in _CODECS:
        raise ClickHouseError.of(48, "NOT_IMPLEMENTED", f"Unknown compression method: {encoding}.")
    return _decode(chunks, _CODECS[encoding])


def _decode(chunks: Iterator[bytes], codec: str) -> Iterator[bytes]:
    import pyarrow as pa  # takes half a second

    try:
        with pa.CompressedInputStream(_Reader(chunks), codec) as stream:
            while piece := stream.read(_CHUNK_BYTES):
                yield piece
    except OSError as error:
        raise _invalid(error) from None


def _inflate(chunks: Iterator[bytes]) -> Iterator[bytes]:
    decoder = zlib.decompressobj()
    try:
        for chunk in chunks:
            yield decoder.decompress(chunk)
        yield decoder.flush()
    except zlib.error as error:
        raise _invalid(error) from None


def _invalid(error: Exception) -> ClickHouseError:
    return ClickHouseError.of(271, "CANNOT_DECOMPRESS", f"The request cannot be decompressed: {error}.")


class _Reader(io.RawIOBase):
    """Chunks as a file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._rest:
            self._rest = memoryview(next(self._chunks, b""))
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


class Compressor:
    """Compresses a response for a client with this Accept-Encoding; ``encoding`` is empty if it accepts none."""

    def __init__(self, accepted: str) -> None:
        names = {name.partition(";")[0].strip() for name in accepted.split(",")}
        self.encoding = next((name for name in (*_CODECS, "deflate") if name in names), "")
        self._output = _Output()
        self._codec: Any = None
        if self.encoding == "deflate":
            self._codec = _Deflater(self._output)
        elif self.encoding:
            import pyarrow as pa

            self._codec = pa.CompressedOutputStream(self._output, _CODECS[self.encoding])

    def compress(self, data: bytes) -> bytes:
        """Return the next part of the compressed response; may be empty."""
        if self._codec is None:
            return data
        self._codec.write(data)
        return self._take()

    def finish(self) -> bytes:
        if self._codec is None:
            return b""
        self._codec.close()
        self._codec = None
        return self._take()

    def _take(self) -> bytes:
        data = self._output.getvalue()
        self._output.seek(0)
        self._output.truncate()
        return data


class _Output(io.BytesIO):
    """Stays open when the codec that writes to it is closed."""

    def close(self) -> None:
        """Do nothing: what the codec wrote last is still needed."""


class _Deflater:
    """zlib with the methods of a stream."""

    def __init__(self, output: io.BytesIO) -> None:
        self._output = output
        self._codec = zlib.compressobj()

    def write(self, data: bytes) -> None:
        self._output.write(self._codec.compress(data))

    def close(self) -> None:
        self._output.write(self._codec.flush())
