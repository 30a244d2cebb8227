"""Spark SQL over wide numbers in their held form (`types/wide/layout.py`): what the JVM can do without Python.

``path`` is SQL for the value and may occur several times in the result; ``on_overflow`` is SQL for the result if a
value does not fit the type, and is evaluated only then.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from streamling.spark.sql_text import literal as text_literal
from streamling.spark.sql_text import quoted
from streamling.types.wide.layout import Layout, contains_wide, layout_of

_DIGITS, _FLIPPED = "0123456789ABCDEF", "89ABCDEF01234567"


def literal(number: int, layout: Layout) -> str:
    """Return a literal; raises `OverflowError` if the type cannot hold the number."""
    return f"X'{layout.encode(number).hex().upper()}'"


def _flip_first_bit(hexadecimal: str) -> str:
    """Flip the first bit of hexadecimal digits."""
    return f"concat(translate(left({hexadecimal}, 1), '{_DIGITS}', '{_FLIPPED}'), substring({hexadecimal}, 2))"


def from_twos_complement(path: str, layout: Layout, on_overflow: str) -> str:
    """Convert big-endian bytes of any length, as Avro writes decimals. The range of decimals is smaller than that of
    their bytes."""
    if layout.low in (0, -layout.bias):
        return _fit_width(path, layout, on_overflow)
    encoded = _fit_width(path, layout, "NULL")
    low, high = literal(layout.low, layout), literal(layout.high, layout)
    fits = f"{encoded} BETWEEN {low} AND {high}"
    return f"CASE WHEN {path} IS NULL THEN NULL WHEN {fits} THEN {encoded} ELSE {on_overflow} END"


def _fit_width(path: str, layout: Layout, on_overflow: str) -> str:
    width = layout.width
    last = f"substring({path}, length({path}) - {width - 1})"
    if layout.low == 0:
        return (
            f"CASE WHEN {path} IS NULL THEN NULL WHEN {path} >= X'80' THEN {on_overflow}"
            f" WHEN length({path}) <= {width} THEN lpad({path}, {width}, X'00')"
            f" WHEN hex({path}) RLIKE '^(00)*.{{{2 * width}}}$' THEN {last} ELSE {on_overflow} END"
        )
    padded = f"lpad({path}, {width}, IF({path} >= X'80', X'FF', X'00'))"
    short, long = (_flip_first_bit(f"hex({value})") for value in (padded, last))
    rest = 2 * width - 1
    return (
        f"CASE WHEN {path} IS NULL THEN NULL WHEN length({path}) <= {width} THEN unhex({short})"
        f" WHEN hex({path}) RLIKE '^((00)*[0-7]|(FF)*[89A-F]).{{{rest}}}$' THEN unhex({long})"
        f" ELSE {on_overflow} END"
    )


def exceeds_precision(path: str, type_: pa.DataType) -> str:
    """Return whether a decimal with the scale of ``type_`` has more digits than its precision."""
    most = f"CAST('{'9' * type_.precision}e-{type_.scale}' AS DECIMAL({type_.precision}, {type_.scale}))"
    return f"{path} NOT BETWEEN -{most} AND {most}"


def has_overflow(path: str, type_: pa.DataType, depth: int = 0) -> str:
    """Return whether a value of ``type_``, in which wide numbers are such bytes and other decimals may be too long,
    contains a number that overflows its type. Never null."""
    layout = layout_of(type_)
    if layout is not None:
        return f"({path} IS NOT NULL AND {from_twos_complement(path, layout, 'NULL')} IS NULL)"
    if pa.types.is_struct(type_):
        members = (has_overflow(f"{path}.{quoted(field.name)}", field.type, depth) for field in type_)
        return f"({' OR '.join(members)})"
    if pa.types.is_decimal(type_):
        return f"coalesce({exceeds_precision(path, type_)}, false)"
    if not pa.types.is_nested(type_):
        return "false"
    item = f"_element{depth}"
    items, kind = (f"map_values({path})", type_.item_type) if pa.types.is_map(type_) else (path, type_.value_type)
    return f"coalesce(exists({items}, {item} -> {has_overflow(item, kind, depth + 1)}), false)"


def from_twos_complements(
    path: str, type_: pa.DataType, on_overflow: Callable[[str, Layout], str], depth: int = 0
) -> str:
    """Return the same for all wide numbers in a value of ``type_``. ``on_overflow`` returns the SQL for the path of
    one."""
    layout = layout_of(type_)
    if layout is not None:
        return from_twos_complement(path, layout, on_overflow(path, layout))
    if not contains_wide(type_):
        return path
    key, item = f"_key{depth}", f"_item{depth}"
    if pa.types.is_struct(type_):
        paths = {field: f"{path}.{quoted(field.name)}" for field in type_}
        members = (
            f"{text_literal(field.name)}, {from_twos_complements(at, field.type, on_overflow, depth)}"
            for field, at in paths.items()
        )
        return f"IF({path} IS NULL, NULL, named_struct({', '.join(members)}))"
    if pa.types.is_map(type_):
        keys = from_twos_complements(key, type_.key_type, on_overflow, depth + 1)
        items = from_twos_complements(item, type_.item_type, on_overflow, depth + 1)
        values = f"transform_values({path}, ({key}, {item}) -> {items})" if items != item else path
        return f"transform_keys({values}, ({key}, {item}) -> {keys})" if keys != key else values
    return f"transform({path}, {item} -> {from_twos_complements(item, type_.value_type, on_overflow, depth + 1)})"


def to_twos_complement(path: str, layout: Layout, size: int | None = None) -> str:
    """Return big-endian bytes: as few as possible, or ``size`` of them, which must be enough."""
    digits = f"concat('00', hex({path}))" if layout.low == 0 else _flip_first_bit(f"hex({path})")
    if size is None:
        return f"unhex(regexp_replace({digits}, '^(00)+(?=[0-7])|^(FF)+(?=[89A-F])', ''))"
    sign = "'0'" if layout.low == 0 else f"IF({path} >= X'80', '0', 'F')"
    return f"unhex(lpad({digits}, {2 * size}, {sign}))"


def needed_bytes(layout: Layout) -> int:
    """Return the number of bytes that hold every number of the type in two's complement."""
    return layout.width + (layout.low == 0)


def from_long(path: str, layout: Layout, on_overflow: str) -> str:
    """Convert BIGINT, for types without fractional digits."""
    if layout.low == 0:
        return f"IF({path} < 0, {on_overflow}, lpad(unhex(hex({path})), {layout.width}, X'00'))"
    rest = f"lpad(unhex(hex({path})), {layout.width - 1}, IF({path} < 0, X'FF', X'00'))"
    return f"concat(IF({path} < 0, X'7F', X'80'), {rest})"


def to_long(path: str, layout: Layout, on_overflow: str) -> str:
    """Convert to BIGINT, for types without fractional digits."""
    low, high = (literal(number, layout) for number in (max(layout.low, -(2**63)), 2**63 - 1))
    last = f"hex(substring({path}, {layout.width - 7}))"
    return (
        f"CASE WHEN {path} IS NULL THEN NULL WHEN {path} BETWEEN {low} AND {high}"
        f" THEN CAST(conv({last}, 16, -10) AS BIGINT) ELSE {on_overflow} END"
    )


def to_bytes(path: str, layout: Layout) -> str:
    """Return all bytes in two's complement, big-endian."""
    return path if layout.low == 0 else f"unhex({_flip_first_bit(f'hex({path})')})"
