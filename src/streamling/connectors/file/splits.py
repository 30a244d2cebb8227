"""Splits files into parts that Spark reads one batch at a time.

A batch is held in memory, so its size must not depend on the size of a file. A split is a file in the same format that
ends at a row; the offset after it is part of the position.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

import pyarrow as pa

from streamling.connectors.file.formats import avro as _file_avro
from streamling.connectors.file.formats.csv_boundaries import header_end, row_end
from streamling.connectors.file.storage import decompress
from streamling.errors import StreamlingError

#: Large enough for Spark to read at full speed, small enough to keep all cores busy in one batch.
SPLIT_BYTES = 32 << 20
#: a longer row is treated as an unclosed quote
_LONGEST_ROW = 256 << 20

_STEP = 1 << 20

#: content, and the offset after it: None for the last one
Split = tuple[bytes, int | None]


def split_file(stream: IO[bytes], path: str, format: str, offset: int, size: int = SPLIT_BYTES) -> Iterator[Split]:
    """Yield the splits of a file from ``offset`` on, which is 0 or the end of an earlier split."""
    if format == "parquet":
        return _row_groups(stream, offset, size)
    if format == "avro":
        return _file_avro.blocks(stream, path, offset, size)
    return _rows(decompress(stream, path), path, format == "csv", offset, size)


def lines_before(stream: IO[bytes], path: str, format: str, offset: int) -> int:
    """Return what to add to line numbers of the split at ``offset`` of a csv or json file."""
    content = decompress(stream, path)
    part = content.read(_STEP)
    left, lines = offset, -part[: header_end(part)].count(b"\n") if format == "csv" and offset else 0
    while left and part:
        lines += part[:left].count(b"\n")
        left -= min(left, len(part))
        part = content.read(_STEP)
    return lines


def _rows(stream: IO[bytes], path: str, is_csv: bool, offset: int, size: int) -> Iterator[Split]:
    """Yield whole rows; offsets count bytes of the decompressed content."""
    content = stream.read(max(size, _STEP))
    header = content[: header_end(content)] if is_csv else b""
    start = max(offset, len(header))
    rest = _from(stream, content, start)
    while True:
        fresh = stream.read(max(size - len(rest), 0)) if len(rest) < size else b""
        content, rest = rest + fresh, b""
        if len(content) > size:
            content, rest = content[:size], content[size:]
        elif len(content) < size:
            yield header + content, None
            return
        end = row_end(content) if is_csv else content.rfind(b"\n") + 1
        while not end and len(content) <= _LONGEST_ROW and (more := rest[:size] or stream.read(size)):
            content, rest = content + more, rest[size:]
            end = row_end(content) if is_csv else content.rfind(b"\n") + 1
        if not end:
            if len(content) > _LONGEST_ROW:
                raise StreamlingError.user(
                    f"'{path}' has a row of more than {_LONGEST_ROW >> 20} MiB at byte {start}",
                    remedy="check for an unclosed quote",
                )
            yield header + content, None
            return
        start += end
        yield header + content[:end], start
        rest = content[end:] + rest


def _from(stream: IO[bytes], head: bytes, start: int) -> bytes:
    """Continue at ``start``; if it lies before the end of what has been read, return the bytes in between."""
    if start <= len(head):
        return head[start:]
    if stream.seekable():
        stream.seek(start)
        return b""
    current = len(head)
    while current < start and (passed := len(stream.read(min(start - current, _STEP)))):
        current += passed
    return b""


def _row_groups(stream: IO[bytes], offset: int, size: int) -> Iterator[Split]:
    """Yield row groups, rewritten without compression; offsets count row groups."""
    from pyarrow import parquet

    file = parquet.ParquetFile(stream, coerce_int96_timestamp_unit="us")
    int96 = any(file.schema.column(i).physical_type == "INT96" for i in range(len(file.schema)))
    count = file.metadata.num_row_groups
    first, weight = offset, 0
    for group in range(offset, count):
        weight += file.metadata.row_group(group).total_byte_size
        is_last = group + 1 == count
        if weight >= size or is_last:
            sink = pa.BufferOutputStream()
            table = file.read_row_groups(range(first, group + 1), use_threads=False)
            parquet.write_table(
                table, sink, compression="none", use_dictionary=False, use_deprecated_int96_timestamps=int96
            )
            yield sink.getvalue().to_pybytes(), None if is_last else group + 1
            first, weight = group + 1, 0
