"""CSV files: header, columns, types, and the place of what does not fit."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator, Mapping
from typing import IO

import pyarrow as pa

from streamling.errors import StreamlingError
from streamling.sources import _file_text as text
from streamling.sources._file_sample import Sample
from streamling.sources._file_storage import decompressed
from streamling.types import kernels

#: stands for "nothing between the commas", so that "" stays an empty text; no file has this as a value
_NOTHING = "\x00"
#: longest header looked at
_HEADER_BYTES = 1 << 20

SPARK_OPTIONS = {
    "header": "true",
    "mode": "FAILFAST",
    # Reads line breaks inside quotes, and 4 × as fast per core as the reader that goes line by line.
    "multiLine": "true",
    # Without it a row with too few fields gives nulls as soon as a query leaves out the last column.
    "columnPruning": "false",
    "escape": '"',
    "nullValue": _NOTHING,
    "emptyValue": "",
    "maxCharsPerColumn": "-1",
    "encoding": "UTF-8",
}


def take_sample(stream: IO[bytes], path: str, limit: int) -> Sample | None:
    """Columns and types of the first ``limit`` bytes; None when the file is empty."""
    head = _whole_rows(decompressed(stream, path), limit)
    names = _header(head, path)
    if not names:
        return None
    try:
        table = read_texts(head)
    except pa.ArrowInvalid as error:
        problem = find_misfit(io.BytesIO(head), "", {}) or str(error).partition("\n")[0]
        raise StreamlingError.user(f"'{path}' is no CSV file: {problem}", remedy="correct the file") from error
    columns = dict(zip(names, table.columns, strict=True))
    kinds, loose = {}, set()
    for name, column in columns.items():
        values = kernels.present(column)
        trimmed = kernels.trimmed(values)
        filled = kernels.chosen(trimmed, kernels.differ(trimmed, ""))
        kinds[name] = text.type_of_texts(filled)
        has_blanks = len(filled) < len(values) or kernels.any_true(kernels.differ(trimmed, values))
        if has_blanks and kinds[name] not in (text.STRING, text.NULL):
            loose.add(name)
        elif has_blanks:
            kinds[name] = text.STRING
    with_nulls = frozenset(name for name, column in columns.items() if column.null_count)
    return Sample([pa.field(name, kind) for name, kind in kinds.items()], with_nulls, frozenset(loose))


def read_header(stream: IO[bytes], path: str) -> list[str]:
    """Column names in the order of one file."""
    return _header(decompressed(stream, path).read(_HEADER_BYTES), path)


def read_texts(content: bytes) -> pa.Table:
    """All rows with every column as text, null where nothing is written."""
    from pyarrow import csv as arrow_csv

    written = next(_non_empty(csv.reader(_text_lines(io.BytesIO(content)))), [])
    if not written:
        return pa.table({})
    table = arrow_csv.read_csv(
        io.BytesIO(content),
        # Threads would cost more than they gain, and several blocks would cut rows at line breaks in quotes.
        arrow_csv.ReadOptions(use_threads=False, block_size=len(content)),
        arrow_csv.ParseOptions(newlines_in_values=True),
        arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(written, pa.string()),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        ),
    )
    return table.rename_columns([_column_name(i, name) for i, name in enumerate(written)])


def find_misfit(stream: IO[bytes], path: str, types: Mapping[str, pa.DataType], lines_before: int = 0) -> str | None:
    """Where a row has too many or too few fields, or a value of another type; None when all fit."""
    rows = csv.reader(_text_lines(decompressed(stream, path)))
    try:
        names = [_column_name(i, name) for i, name in enumerate(next(rows, []))]
        kinds = [types.get(name, text.STRING) for name in names]
        line = rows.line_num
        for row in rows:
            first_line, line = lines_before + line + 1, rows.line_num
            if not row:
                continue
            if len(row) != len(names):
                return f"line {first_line} has {len(row)} fields where the header has {len(names)}"
            for name, kind, value in zip(names, kinds, row, strict=True):
                if kind != text.STRING and value.strip() and not text.fits(value.strip(), kind):
                    return f"line {first_line}, column '{name}': {value!r} is not {text.NAMES[kind]}"
    except csv.Error as error:
        return f"line {lines_before + rows.line_num}: {error}"
    return None


def _whole_rows(stream: IO[bytes], limit: int) -> bytes:
    """The start of a stream, cut behind the last complete row."""
    head = stream.read(limit + 1)
    if len(head) <= limit:
        return head
    cut = row_end(head)
    return head[:cut] if cut else head


def row_end(data: bytes) -> int:
    """Length of the part of ``data`` that ends with a whole row: a line break inside quotes ends none."""
    end = data.rfind(b"\n") + 1
    quotes = data.count(b'"', 0, end)
    while end and quotes % 2:
        shorter = data.rfind(b"\n", 0, end - 1) + 1
        quotes -= data.count(b'"', shorter, end)
        end = shorter
    return end


def _header(head: bytes, path: str) -> list[str]:
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise _not_utf8(path)
    row = next(_non_empty(csv.reader(_text_lines(io.BytesIO(head)))), [])
    names = [_column_name(i, name) for i, name in enumerate(row)]
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise StreamlingError.user(
                f"'{path}' has two columns named '{name}' (upper and lower case count as equal)",
                remedy="rename one of them",
            )
        seen.add(name.lower())
    return names


def _text_lines(stream: IO[bytes]) -> Iterator[str]:
    for number, line in enumerate(stream):
        yield (line if number else line.removeprefix(codecs.BOM_UTF8)).decode("utf-8", "replace")


def _non_empty(rows: Iterator[list[str]]) -> Iterator[list[str]]:
    return (row for row in rows if row)


def _column_name(index: int, written: str) -> str:
    return written or f"_c{index}"


def _not_utf8(path: str) -> StreamlingError:
    return StreamlingError.user(f"'{path}' is not encoded in UTF-8", remedy="convert it to UTF-8")
