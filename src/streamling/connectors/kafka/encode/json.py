"""Encodes rows as JSON objects in Spark SQL, in the same format as everywhere else (`types/json.py`)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import groupby

import pyarrow as pa

from streamling.spark.sql_text import literal, quoted
from streamling.sql.library.wide_numbers import JSON, call
from streamling.types.spark import logical_type
from streamling.types.wide.layout import contains_wide


def json_value(columns: pa.Schema) -> str:
    """Return Spark SQL for a row's JSON text over the columns of a DataFrame (`to_arrow_schema`); nulls are written."""
    if not any(_is_wide(column) for column in columns):
        return _object(columns)
    members = []
    for wide, group in groupby(columns, _is_wide):
        if wide:
            members += [_member(column) for column in group]
        else:
            members.append(f"regexp_replace({_object(group)}, '^[{{]|[}}]$', '')")
    return f"concat('{{', concat_ws(',', {', '.join(members)}), '}}')"


def _object(columns: Iterable[pa.Field]) -> str:
    parts = [f"{_value(column.type, quoted(column.name), 0)} AS {quoted(column.name)}" for column in columns]
    return f"to_json(struct({', '.join(parts)}), map('ignoreNullFields', 'false'))"


def _is_wide(column: pa.Field) -> bool:
    return contains_wide(logical_type(column))


def _member(column: pa.Field) -> str:
    """Return a column with numbers that Spark lacks and `to_json` therefore cannot write."""
    name = json.dumps(column.name, ensure_ascii=False)
    value = call(JSON, quoted(column.name), types=[logical_type(column)])
    return f"concat({literal(name + ':')}, coalesce({value}, 'null'))"


def _value(type_: pa.DataType, path: str, depth: int) -> str:
    if pa.types.is_binary(type_):
        return f"lower(hex({path}))"
    if pa.types.is_timestamp(type_):
        text = f"replace(CAST({path} AS STRING), ' ', 'T')"
        return f"{text} || 'Z'" if type_.tz else text
    if pa.types.is_floating(type_):
        # JSON has neither infinity nor NaN
        return f"IF(isnan({path}) OR abs({path}) = double('inf'), NULL, {path})"
    if pa.types.is_duration(type_):
        return f"timestampdiff(MICROSECOND, TIMESTAMP'1970-01-01', TIMESTAMP'1970-01-01' + {path})"
    return _nested(type_, path, depth)


def _nested(type_: pa.DataType, path: str, depth: int) -> str:
    item = f"_item{depth}"
    if pa.types.is_list(type_):
        inner = _value(type_.value_type, item, depth + 1)
        return path if inner == item else f"transform({path}, {item} -> {inner})"
    if pa.types.is_map(type_):
        inner = _value(type_.item_type, item, depth + 1)
        return path if inner == item else f"transform_values({path}, (_key, {item}) -> {inner})"
    if pa.types.is_struct(type_):
        members = [(member.name, f"{path}.{quoted(member.name)}", member.type) for member in type_]
        parts = [(name, at, _value(kind, at, depth)) for name, at, kind in members]
        if all(at == value for _, at, value in parts):
            return path
        fields = ", ".join(f"{value} AS {quoted(name)}" for name, _, value in parts)
        return f"IF({path} IS NULL, NULL, struct({fields}))"
    return path
