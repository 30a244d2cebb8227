"""Decimals of more than 38 digits in Parquet and Avro files.

Spark has no such type, but reads the column as bytes when the schema it is given says so. The number is made of them in
the plan.
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

#: what stops the plan at a number that is none of its type: its bytes, the type, the bytes of the column's name
_BYTES: Final = re.compile(r"no place for 0x([0-9A-F]+) as (\w+|decimal\(\d+, \d+\)) in 0x([0-9A-F]+)")
#: what stops a worker there
_INVALID_NUMBER: Final = re.compile(
    r"ValueError: '.+': (column '.+': -?[\d.]+ does not fit into (?:\w+|decimal\(\d+, \d+\)))"
)

_PART_BYTES: Final = 8 << 20


def value_sql(place: str, column: str, type_: pa.DataType) -> str:
    """Spark SQL for the value of a column of ``type_`` that was read with bytes in place of its wide numbers."""
    name = column.encode().hex().upper()

    def misfit(place: str, layout: Layout) -> str:
        found = f"'no place for 0x', hex({place}), ' as {layout.name} in 0x{name} of '"
        return f"raise_error(concat({found}, _metadata.file_path))"

    return from_twos_complements(place, type_, misfit)


def invalid_number_text(path: str, column: str, error: OverflowError) -> str:
    """What `find_invalid_number` finds again in the failure of a worker."""
    return f"'{path}': column '{column}': {error}"


def find_invalid_number(failure: str) -> str | None:
    """Which number in which column is none of its type, when that is what a text of Spark's is about."""
    if match := _BYTES.search(failure):
        column, type_ = bytes.fromhex(match[3]).decode(), arrow_type(match[2])
        layout = layout_of(type_) if type_ is not None else None
        if layout is not None:
            number = int.from_bytes(bytes.fromhex(match[1]), "big", signed=True)
            return f"column '{column}': {layout.text(number)} does not fit into {layout.name}"
    match = _INVALID_NUMBER.search(failure)
    return match[1] if match else None


def avro_with_bytes(schema: Any) -> str:
    """An Avro schema, as text, with plain bytes in place of wide decimals: of data it says the same."""
    return json.dumps(_with_bytes(schema))


def avro_contents(stream: IO[bytes], path: str) -> Iterator[IO[bytes]]:
    """An Avro file in parts, each a file with plain bytes in place of wide decimals. fastavro would round those of more
    digits than are declared, and every number of 256 bits is one of 77 digits here."""
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
