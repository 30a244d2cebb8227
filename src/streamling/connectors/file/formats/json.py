"""JSON files with exactly one object per line: columns, types, rows, and the location of invalid values.

Arrow's parser reads the rows. Content that it might misread, or crash on, is left to Python's parser, which is slower
but authoritative.
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterator, Mapping
from typing import IO, Any, Final

import pyarrow as pa

from streamling.connectors.file.formats import text_types as text
from streamling.connectors.file.formats.sample import FileSample
from streamling.connectors.file.storage import decompress
from streamling.connectors.file.values import nested, parse_texts
from streamling.errors import StreamlingError
from streamling.types import kernels
from streamling.types.strict_json import Number, parse_object, to_json_text

_INT_RANGE = range(-(2**63), 2**63)
#: from here on a double does not represent every integer
_EXACT_DOUBLES: Final = float(2**53)
_MOMENTS = (text.DATE, text.TIMESTAMP, text.INSTANT)
#: An object followed by something other than the end of a line or of its enclosing value. Arrow would read a second
#: object as a row, and crashes on a null. (Inside quotes it is harmless, but only the slow parser knows that.)
_BEHIND_OBJECT = re.compile(rb"\}[ \t]*[^\s,\]}]")
#: a parser that recurses for each bracket must not get too many of them
_LONGEST_LINE = 16 << 10


class InvalidJsonValue(pa.ArrowInvalid):  # type: ignore[misc]
    """A value that its column cannot hold."""


# ── columns ─────────────────────────────────────────────────────────────────────────────────────────────────


def take_sample(stream: IO[bytes], path: str, limit: int | None) -> FileSample | None:
    """Return columns and types of the first ``limit`` bytes; None if there is no row."""
    merged: dict[str, pa.DataType] = {}
    counts: dict[str, int] = {}
    count = 0
    for line, content in rows(decompress(stream, path), limit):
        row = parse_object(content)
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
    return FileSample([pa.field(name, kind) for name, kind in merged.items()], with_nulls)


def type_of(value: Any) -> pa.DataType:
    """Return the Arrow type of a JSON value."""
    if value is None:
        return text.NULL
    if isinstance(value, bool):
        return text.BOOLEAN
    if isinstance(value, Number):
        return next((kind for kind in (text.INT, text.DOUBLE) if text.fits(value, kind)), text.STRING)
    if isinstance(value, str):
        # only text that starts like a date can be one
        kind = text.type_of_text(value) if value[:4].isdigit() and value[4:5] == "-" else text.STRING
        return kind if kind in _MOMENTS else text.STRING
    if isinstance(value, list):
        return pa.list_(text.merged_types({type_of(item) for item in value}))
    return pa.struct([pa.field(name, type_of(item)) for name, item in value.items()])


# ── rows ────────────────────────────────────────────────────────────────────────────────────────────────────


def read_table(content: bytes, types: Mapping[str, pa.DataType]) -> tuple[pa.Table, bool]:
    """Return rows in columns of ``types``, and whether the content has further columns. Raises `pa.ArrowInvalid` for
    values that do not fit."""
    content = content.removeprefix(codecs.BOM_UTF8)
    raw = pa.schema([pa.field(name, raw_type(kind)) for name, kind in types.items()])
    table = _read_fast(content, raw)
    if table is None:
        return read_slowly(content, raw, types)
    columns = [_convert(_column(table, field), types[field.name]) for field in raw]
    return _table(columns, types, table.num_rows), _has_new(list(table.schema), raw)


def _table(columns: list[pa.Array], types: Mapping[str, pa.DataType], rows: int) -> pa.Table:
    if not columns:
        return pa.table({"": pa.nulls(rows)}).select([])
    return pa.Table.from_arrays(columns, schema=pa.schema(list(types.items())))


def raw_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that the parser produces: it reads dates and timestamps as text."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, raw_type(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(raw_type(kind.value_type))
    return text.STRING if kind in _MOMENTS else kind


def _column(table: pa.Table, field: pa.Field) -> pa.Array:
    return table.column(field.name).combine_chunks()


def _convert(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_nested(kind):
        return nested(values, kind, _convert)
    return values if values.type == kind else parse_texts(values, kind, trim=False)


def _has_new(found: list[pa.Field], known: Any) -> bool:
    """Return whether there are new columns, or fields of objects, that are not empty."""
    for field in found:
        index = known.get_field_index(field.name)
        if index < 0 and not text.is_void(field.type):
            return True
        if index >= 0 and _has_more(field.type, known.field(index).type):
            return True
    return False


def _has_more(found: pa.DataType, known: pa.DataType) -> bool:
    if pa.types.is_struct(found) and pa.types.is_struct(known):
        return _has_new(list(found), known)
    if pa.types.is_list(found) and pa.types.is_list(known):
        return _has_more(found.value_type, known.value_type)
    return False


def _read_fast(content: bytes, raw: pa.Schema) -> pa.Table | None:
    """Return the rows as Arrow reads them; None if it fails or could misread them."""
    from pyarrow import json as arrow_json

    lines = _count_of_plain_lines(content)
    if not lines:
        return None
    try:
        table = arrow_json.read_json(
            io.BytesIO(content),
            arrow_json.ReadOptions(use_threads=False, block_size=len(content) + 1),
            arrow_json.ParseOptions(explicit_schema=raw, unexpected_field_behavior="infer"),
        )
        if table.num_rows != lines:
            return None
        table.validate(full=True)
        columns = table.combine_chunks().columns
    except (pa.ArrowException, UnicodeDecodeError):
        return None
    return None if any(_has_large_double(column) for column in columns) else table


def _count_of_plain_lines(content: bytes) -> int:
    """Return the number of lines if each is ``{…}`` and none is blank; 0 if anything else is found."""
    ends = content.count(b"\n")
    begins = content.count(b"\n{") + content.startswith(b"{")
    lines = ends + (not content.endswith(b"\n"))
    last = content.rstrip()[-1:] == b"}"
    closed = content.count(b"}\n") + content.count(b"}\r\n") + (not content.endswith(b"\n"))
    if begins != lines or closed != lines or not last or b"NaN" in content or b"Inf" in content:
        return 0
    if _BEHIND_OBJECT.search(content) or max(map(len, content.split(b"\n"))) > _LONGEST_LINE:
        return 0
    return lines


def _has_large_double(column: pa.ChunkedArray | pa.Array) -> bool:
    kind = column.type
    if pa.types.is_float64(kind):
        least, most = kernels.min_max(column)
        return bool(least is not None and (least <= -_EXACT_DOUBLES or most >= _EXACT_DOUBLES))  # type: ignore[operator]
    if pa.types.is_struct(kind):
        return any(map(_has_large_double, kernels.flatten(column)))
    if pa.types.is_list(kind):
        return _has_large_double(kernels.list_flatten(column))
    return False


def read_slowly(content: bytes, raw: pa.Schema, types: Mapping[str, pa.DataType]) -> tuple[pa.Table, bool]:
    columns: dict[str, list[Any]] = {name: [] for name in types}
    new: dict[str, pa.DataType] = {}
    count = 0
    for line, row_content in rows(io.BytesIO(content), None):
        row = parse_object(row_content)
        if isinstance(row, str):
            raise pa.ArrowInvalid(f"line {line} {row}")
        count += 1
        for name, values in columns.items():
            values.append(_raw_value(row.get(name), types[name]))
        for name, value in row.items():
            if name not in types or pa.types.is_nested(types[name]):
                new[name] = text.common_type(new.get(name, text.NULL), type_of(value))
    arrays = [_convert(pa.array(columns[field.name], field.type), types[field.name]) for field in raw]
    return _table(arrays, types, count), _has_new([pa.field(*one) for one in new.items()], raw)


def _raw_value(value: Any, kind: pa.DataType) -> Any:
    """Return a value for a column of ``kind``; raises `InvalidJsonValue` if it does not fit exactly."""
    if value is None:
        return None
    if kind == text.STRING:
        return str(value) if isinstance(value, str) else to_json_text(value)
    if kind in _MOMENTS:
        fits = isinstance(value, str) and not isinstance(value, Number) and text.fits(value, kind)
    elif kind in (text.INT, text.DOUBLE):
        fits = isinstance(value, Number) and text.fits(value, kind)
    elif pa.types.is_list(kind):
        if isinstance(value, list):
            return [_raw_value(item, kind.value_type) for item in value]
        fits = False
    elif pa.types.is_struct(kind):
        if isinstance(value, dict):
            return {field.name: _raw_value(value.get(field.name), field.type) for field in kind}
        fits = False
    else:
        fits = isinstance(value, bool)
    if not fits:
        raise InvalidJsonValue(f"{to_json_text(value)} is not {text.NAMES.get(kind, str(kind))}")
    if isinstance(value, Number):
        return int(value) if kind == text.INT else float(value)
    return value


# ── error locations ────────────────────────────────────────────────────────────────────────────────────────────


def find_schema_mismatch(
    stream: IO[bytes], path: str, types: Mapping[str, pa.DataType], lines_before: int = 0
) -> str | None:
    """Return where a line is not a JSON object or has a value that is not of its column's type; None if all fit."""
    for number, content in rows(decompress(stream, path), None):
        line = number + lines_before
        row = parse_object(content)
        if isinstance(row, str):
            return f"line {line} {row}"
        for name, value in row.items():
            try:
                _raw_value(value, types.get(name, text.STRING))
            except InvalidJsonValue as error:
                return f"line {line}, column '{name}': {error}"
    return None


def rows(stream: IO[bytes], limit: int | None) -> Iterator[tuple[int, bytes]]:
    """Yield line numbers and non-blank lines, up to about ``limit`` bytes."""
    read = 0
    for number, line in enumerate(stream, 1):
        if line.strip():
            yield number, line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        read += len(line)
        if limit is not None and read >= limit:
            return
