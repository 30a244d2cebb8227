"""CSV files: header, columns, types, rows, and the location of invalid values."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import IO, Final, cast

import pyarrow as pa

from streamling.connectors.file.formats import text_types as text
from streamling.connectors.file.formats.csv_boundaries import row_end
from streamling.connectors.file.formats.sample import FileSample
from streamling.connectors.file.storage import decompress
from streamling.connectors.file.values import out_of_range, parse_texts
from streamling.errors import StreamlingError
from streamling.types import kernels

#: maximum number of bytes read for a header
HEADER_BYTES = 1 << 20

#: from here on a double does not represent every integer
_EXACT_DOUBLES: Final = float(2**53)
#: a sentinel row of two fields: after an unclosed quote it is part of a field
_END: Final = "\x00end\x00,"
_END_ROW: Final = _END.split(",")
_TRUE, _FALSE = (["true", "True", "TRUE"], ["false", "False", "FALSE"])

csv.field_size_limit(1 << 30)  # the default of 128 KiB applies to all readers of this process


def take_sample(stream: IO[bytes], path: str, limit: int) -> FileSample | None:
    """Return columns and types of the first ``limit`` bytes; None if the file is empty."""
    head = _whole_rows(decompress(stream, path), limit)
    names = _header(head, path)
    if not names:
        return None
    try:
        table = read_texts(head)
    except pa.ArrowInvalid as error:
        problem = find_schema_mismatch(io.BytesIO(head), "", {}) or str(error).partition("\n")[0]
        raise StreamlingError.user(f"'{path}' is not a valid CSV file: {problem}", remedy="correct the file") from error
    columns = dict(zip(names, table.columns, strict=True))
    kinds = {name: _type_of(column) for name, column in columns.items()}
    with_nulls = frozenset(name for name, column in columns.items() if column.null_count)
    return FileSample([pa.field(name, kind) for name, kind in kinds.items()], with_nulls)


def _type_of(column: pa.ChunkedArray) -> pa.DataType:
    """Return the type of a column's values; whitespace around them only matters for text."""
    values = kernels.drop_null(column)
    trimmed = kernels.trim(values)
    filled = kernels.filter_values(trimmed, kernels.not_equal(trimmed, ""))
    kind = text.type_of_texts(filled)
    has_blanks = len(filled) < len(values) or kernels.any_true(kernels.not_equal(trimmed, values))
    return text.STRING if kind == text.NULL and has_blanks else kind


def read_header(stream: IO[bytes], path: str) -> list[str]:
    """Return the column names of a file, in order."""
    return _header(decompress(stream, path).read(HEADER_BYTES), path)


# ── rows ────────────────────────────────────────────────────────────────────────────────────────────────────


def read_table(content: bytes, types: Mapping[str, pa.DataType]) -> tuple[pa.Table, bool]:
    """Return rows in columns of ``types``, and whether the content has further columns. Raises `pa.ArrowInvalid` for
    values that do not fit."""
    content = _with_final_newline(content)
    kernels.check_utf8(content)
    written = _written_names(content)
    names = [_column_name(i, name) for i, name in enumerate(written)]
    table = _read_fast(content, written, {name: types.get(name, text.STRING) for name in names})
    if table is None:
        texts = read_texts(content)
        table = pa.table(
            {name: parse_column(texts.column(name), types.get(name, text.STRING)) for name in texts.column_names}
        )
    columns = [
        table.column(name) if name in names else pa.nulls(table.num_rows, kind).cast(kind)
        for name, kind in types.items()
    ]
    return pa.table(columns, pa.schema(list(types.items()))), not set(names) <= types.keys()


def read_texts(content: bytes) -> pa.Table:
    """Return all rows with every column as text, null for empty fields."""
    content = _with_final_newline(content)
    written = _written_names(content)
    if not written:
        return pa.table({})
    table = _read(content, dict.fromkeys(written, pa.string()))
    if _ends_in_quotes(content, table):
        raise pa.ArrowInvalid("a quote is not closed")
    return table.rename_columns([_column_name(i, name) for i, name in enumerate(written)])


def _with_final_newline(content: bytes) -> bytes:
    """Return ``content`` with a final line break. Without one, Arrow reads an empty last field as ``""``."""
    return content if content.endswith((b"\n", b"\r")) else content + b"\n"


def _read(content: bytes, types: Mapping[str, pa.DataType]) -> pa.Table:
    from pyarrow import csv as arrow_csv

    return arrow_csv.read_csv(
        io.BytesIO(content),
        # Files and splits are read concurrently: more threads would not help.
        arrow_csv.ReadOptions(use_threads=False, block_size=len(content)),
        arrow_csv.ParseOptions(newlines_in_values=True),
        arrow_csv.ConvertOptions(
            column_types=dict(types),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
            true_values=_TRUE,
            false_values=_FALSE,
        ),
    )


def _read_fast(content: bytes, written: Sequence[str], types: Mapping[str, pa.DataType]) -> pa.Table | None:
    """Return the rows with values converted by Arrow; None if it fails or could misread a value."""
    if written.count("") > 1 or b"0x" in content or b"0X" in content:  # Arrow accepts hexadecimal numbers
        return None
    quote = content.rfind(b'"')
    ends_with_text = list(types.values())[-1] == text.STRING
    if quote >= 0 and not ends_with_text and content[quote - 1 : quote] in (b",", b"\n", b"\r"):  # perhaps not closed
        return None
    try:
        table = _read(content, dict(zip(written, types.values(), strict=True))).rename_columns(list(types))
    except pa.ArrowInvalid:
        return None
    if any(map(_may_be_misread, table.columns)) or (ends_with_text and _ends_in_quotes(content, table)):
        return None
    return table


def _may_be_misread(column: pa.ChunkedArray) -> bool:
    if pa.types.is_float64(column.type):
        least, most = kernels.min_max(column)
        return bool(least is not None and (least <= -_EXACT_DOUBLES or most >= _EXACT_DOUBLES))  # type: ignore[operator]
    return any(out_of_range(chunk) is not None for chunk in column.chunks)


def parse_column(texts: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([parse_texts(chunk, kind, trim=True) for chunk in texts.chunks], kind)


def _ends_in_quotes(content: bytes, table: pa.Table) -> bool:
    """Return whether the last field, a text, starts with a quote that is not closed, so that it contains the rest of
    the file."""
    if not table.num_rows:
        return False
    last = table.column(table.num_columns - 1)[table.num_rows - 1].as_py() or ""
    tail = b'"' + last.encode().replace(b'"', b'""')
    if not content.endswith(tail) or content[-len(tail) - 1 : -len(tail)] not in (b",", b"\n", b"\r"):
        return False
    # A line break at the end of a quoted field looks the same. After a closed quote another row can follow.
    row = b"\n" + b",".join([b"x"] * table.num_columns) + b"\n"
    try:
        return bool(_read(content + row, dict.fromkeys(table.column_names, pa.string())).num_rows == table.num_rows)
    except pa.ArrowInvalid:
        return True


def _written_names(content: bytes) -> list[str]:
    return next(_non_empty(csv.reader(_text_lines(io.BytesIO(content)))), [])


# ── error locations ────────────────────────────────────────────────────────────────────────────────────────────


def find_schema_mismatch(
    stream: IO[bytes], path: str, types: Mapping[str, pa.DataType], lines_before: int = 0
) -> str | None:
    """Return where a row has too many or too few fields, or a value of another type; None if all fit."""
    rows = csv.reader(chain(_text_lines(decompress(stream, path)), [_END]))
    try:
        header = next(_non_empty(rows), [])
        if any(_END in name for name in header):
            return "the header has a quote that is not closed"
        names = [_column_name(i, name) for i, name in enumerate(header)]
        kinds = [types.get(name, text.STRING) for name in names]
        line = rows.line_num
        for row in rows:
            first_line, line = lines_before + line + 1, rows.line_num
            if not row or row == _END_ROW:
                continue
            if problem := _row_mismatch(row, names, kinds):
                return f"line {first_line}{problem}"
    except csv.Error as error:
        return f"line {lines_before + rows.line_num}: {error}"
    return None


def _row_mismatch(row: list[str], names: list[str], kinds: list[pa.DataType]) -> str | None:
    if row[-1].endswith(_END):
        return " has a quote that is not closed"
    if any(map(_has_escape, row)):
        return " is not encoded in UTF-8"
    if len(row) != len(names):
        return f" has {len(row)} fields, but the header has {len(names)}"
    for name, kind, value in zip(names, kinds, row, strict=True):
        if kind != text.STRING and value.strip() and not text.fits(value.strip(), kind):
            return f", column '{name}': {value!r} is not {text.NAMES[kind]}"
    return None


def _has_escape(field: str) -> bool:
    return not field.isascii() and any("\udc80" <= character <= "\udcff" for character in field)


def _whole_rows(stream: IO[bytes], limit: int) -> bytes:
    """Return the start of a stream, up to the last complete row."""
    head = stream.read(limit + 1)
    if len(head) <= limit:
        return head
    cut = row_end(head)
    return head[:cut] if cut else head


def _header(head: bytes, path: str) -> list[str]:
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise _not_utf8(path)
    row = next(_non_empty(csv.reader(chain(_text_lines(io.BytesIO(head)), [_END]))), [])
    if any(map(_has_escape, row)):
        raise _not_utf8(path)
    if row == _END_ROW:
        return []
    if row and row[-1].endswith(_END):
        raise StreamlingError.user(f"the header of '{path}' has a quote that is not closed", remedy="correct the file")
    names = [_column_name(i, name) for i, name in enumerate(row)]
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise StreamlingError.user(
                f"'{path}' has two columns named '{name}' (names are not case-sensitive)",
                remedy="rename one of them",
            )
        seen.add(name.lower())
    return names


def _text_lines(stream: IO[bytes]) -> Iterator[str]:
    """Yield lines with their line endings; bytes that are not UTF-8 become lone surrogates."""
    return io.TextIOWrapper(_UnclosedReader(cast(io.RawIOBase, stream)), "utf-8-sig", "surrogateescape", newline="")


class _UnclosedReader(io.BufferedReader):
    """A stream that stays open when its text reader is closed."""

    def close(self) -> None:
        pass


def _non_empty(rows: Iterator[list[str]]) -> Iterator[list[str]]:
    return (row for row in rows if row)


def _column_name(index: int, written: str) -> str:
    return written or f"_c{index}"


def _not_utf8(path: str) -> StreamlingError:
    return StreamlingError.user(f"'{path}' is not encoded in UTF-8", remedy="convert it to UTF-8")
