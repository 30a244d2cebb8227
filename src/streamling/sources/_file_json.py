"""JSON files, one object per line: columns, types, and the place of what does not fit."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator, Mapping
from typing import IO, Any

import pyarrow as pa

from streamling.errors import StreamlingError
from streamling.sources import _file_text as text
from streamling.sources._file_sample import Sample
from streamling.sources._file_storage import decompressed

SPARK_OPTIONS = {"mode": "FAILFAST", "encoding": "UTF-8", "lineSep": "\n"}

_INT_RANGE = range(-(2**63), 2**63)


def take_sample(stream: IO[bytes], path: str, limit: int) -> Sample | None:
    """Columns and types of the first ``limit`` bytes; None when there is no row."""
    merged: dict[str, pa.DataType] = {}
    counts: dict[str, int] = {}
    count = 0
    for line, content in rows(decompressed(stream, path), limit):
        row = _parse(content)
        if isinstance(row, str):
            raise StreamlingError.user(
                f"line {line} of '{path}' {row}", remedy="write one JSON object per line, or correct the line"
            )
        count += 1
        for name, value in row.items():
            merged[name] = text.common_type(merged.get(name, text.NULL), type_of(value))
            counts[name] = counts.get(name, 0) + (value is not None)
    if not count:
        return None
    with_nulls = frozenset(name for name, filled in counts.items() if filled < count)
    return Sample([pa.field(name, kind) for name, kind in merged.items()], with_nulls)


def type_of(value: Any) -> pa.DataType:
    """Arrow type of a JSON value."""
    if value is None:
        return text.NULL
    if isinstance(value, bool):
        return text.BOOLEAN
    if isinstance(value, int):
        return text.INT if value in _INT_RANGE else text.STRING
    if isinstance(value, float):
        return text.DOUBLE
    if isinstance(value, str):
        # only what starts like a date can be one
        kind = text.type_of_text(value) if value[:4].isdigit() and value[4:5] == "-" else text.STRING
        return kind if kind in (text.DATE, text.TIMESTAMP, text.INSTANT) else text.STRING
    if isinstance(value, list):
        return pa.list_(text.merged_types({type_of(item) for item in value}))
    return pa.struct([pa.field(name, type_of(item)) for name, item in value.items()])


def find_misfit(stream: IO[bytes], path: str, types: Mapping[str, pa.DataType], lines_before: int = 0) -> str | None:
    """Where a line is no JSON object or has a value that is not of its column's type; None when all fit."""
    for number, content in rows(decompressed(stream, path), None):
        line = number + lines_before
        row = _parse(content)
        if isinstance(row, str):
            return f"line {line} {row}"
        for name, value in row.items():
            kind = types.get(name, text.STRING)
            if text.common_type(kind, type_of(value)) != kind:
                expected = text.NAMES.get(kind, str(kind))
                return f"line {line}, column '{name}': {json.dumps(value, ensure_ascii=False)} is not {expected}"
    return None


def rows(stream: IO[bytes], limit: int | None) -> Iterator[tuple[int, bytes]]:
    """Line numbers and lines that are not blank, up to about ``limit`` bytes."""
    read = 0
    for number, line in enumerate(stream, 1):
        if line.strip():
            yield number, line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        read += len(line)
        if limit is not None and read >= limit:
            return


def _parse(line: bytes) -> dict[str, Any] | str:
    """The object in a line, or what is wrong with it."""
    try:
        row = json.loads(line)
    except UnicodeDecodeError:
        return "is not encoded in UTF-8"
    except ValueError as error:
        return f"is no JSON: {error}"
    return row if isinstance(row, dict) else f"holds {_word(row)} where an object is expected"


def _word(value: Any) -> str:
    return {list: "an array", str: "a text", bool: "a boolean", type(None): "null"}.get(type(value), "a number")
