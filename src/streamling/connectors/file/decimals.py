"""Decimals of more than 38 digits in Parquet and Avro files.

Spark has no such type, but reads the column as bytes if its schema says so. The plan converts them to numbers.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from typing import IO, Any, Final

import pyarrow as pa

from streamling.connectors.file.formats.avro import blocks, read_header
from streamling.types.avro import bytes_of_decimal, decimal_of, is_decimal
from streamling.types.names import arrow_type
from streamling.types.wide.layout import Layout, is_wide, layout_of
from streamling.types.wide.spark_sql import from_twos_complements

#: error that stops the plan at a number that overflows its type: its bytes, the type, the bytes of the column's name
_BYTES: Final = re.compile(r"number 0x([0-9A-F]+) overflows (\w+|decimal\(\d+, \d+\)) in 0x([0-9A-F]+)")
#: the same error in a worker
_INVALID_NUMBER: Final = re.compile(
    r"ValueError: '.+': (column '.+': -?[\d.]+ does not fit into (?:\w+|decimal\(\d+, \d+\)))"
)

_PART_BYTES: Final = 8 << 20


def value_sql(path: str, column: str, type_: pa.DataType) -> str:
    """Return Spark SQL for the value of a column of ``type_`` that was read with bytes instead of its wide numbers."""
    name = column.encode().hex().upper()

    def on_overflow(path: str, layout: Layout) -> str:
        found = f"'number 0x', hex({path}), ' overflows {layout.name} in 0x{name} of '"
        return f"raise_error(concat({found}, _metadata.file_path))"

    return from_twos_complements(path, type_, on_overflow)


def invalid_number_text(path: str, column: str, error: OverflowError) -> str:
    """Return an error text that `find_invalid_number` recognizes in the failure of a worker."""
    return f"'{path}': column '{column}': {error}"


def find_invalid_number(failure: str) -> str | None:
    """Return which number in which column overflows its type, if an error of Spark is about that."""
    if match := _BYTES.search(failure):
        column, type_ = bytes.fromhex(match[3]).decode(), arrow_type(match[2])
        layout = layout_of(type_) if type_ is not None else None
        if layout is not None:
            number = int.from_bytes(bytes.fromhex(match[1]), "big", signed=True)
            return f"column '{column}': {layout.text(number)} does not fit into {layout.name}"
    match = _INVALID_NUMBER.search(failure)
    return match[1] if match else None


def avro_with_bytes(schema: Any) -> str:
    """Return an Avro schema, as text, with plain bytes instead of wide decimals; it describes the same data."""
    return json.dumps(_with_bytes(schema))


def avro_contents(stream: IO[bytes], path: str) -> Iterator[IO[bytes]]:
    """Yield an Avro file in parts, each a file with plain bytes instead of wide decimals. fastavro would round decimals
    with more digits than declared, and every 256-bit number counts as one of 77 digits here."""
    header = read_header(stream, path)
    plain = header.with_schema(avro_with_bytes(header.schema))
    stream.seek(0)
    for content, _ in blocks(stream, path, 0, _PART_BYTES):
        yield io.BytesIO(plain + content[len(header.content) :])


def _with_bytes(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_with_bytes(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    if "type" in schema and is_decimal(schema):
        return bytes_of_decimal(schema) if is_wide(decimal_of(schema)) else schema
    parts = {key: _with_bytes(schema[key]) for key in ("type", "items", "values", "fields") if key in schema}
    return {**schema, **parts}
