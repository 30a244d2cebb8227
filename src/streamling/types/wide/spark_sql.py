"""Spark SQL over wide numbers as they are held (`types/wide/layout.py`): what the JVM can do with them by itself.

``place`` is SQL for the value and may occur several times in the result; ``on_overflow`` is SQL for what a value
becomes that does not fit the type, and is evaluated only then.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from streamling.spark.sql_text import literal as text_literal
from streamling.spark.sql_text import quoted
from streamling.types.wide.layout import Layout, contains_wide, layout_of

_DIGITS, _FLIPPED = "0123456789ABCDEF", "89ABCDEF01234567"


def literal(number: int, layout: Layout) -> str:
    """Raises `OverflowError` when the number is none of the type."""
    return f"X'{layout.encode(number).hex().upper()}'"


def _flipped(hexadecimal: str) -> str:
    """Hexadecimal digits with the first bit turned over."""
    return f"concat(translate(left({hexadecimal}, 1), '{_DIGITS}', '{_FLIPPED}'), substring({hexadecimal}, 2))"


def from_twos_complement(place: str, layout: Layout, on_overflow: str) -> str:
    """Of big-endian bytes of any length, as Avro writes decimals. Decimals end before what their bytes could hold."""
    if layout.low in (0, -layout.bias):
        return _of_width(place, layout, on_overflow)
    encoded = _of_width(place, layout, "NULL")
    low, high = literal(layout.low, layout), literal(layout.high, layout)
    fits = f"{encoded} BETWEEN {low} AND {high}"
    return f"CASE WHEN {place} IS NULL THEN NULL WHEN {fits} THEN {encoded} ELSE {on_overflow} END"


def _of_width(place: str, layout: Layout, on_overflow: str) -> str:
    width = layout.width
    last = f"substring({place}, length({place}) - {width - 1})"
    if layout.low == 0:
        return (
            f"CASE WHEN {place} IS NULL THEN NULL WHEN {place} >= X'80' THEN {on_overflow}"
            f" WHEN length({place}) <= {width} THEN lpad({place}, {width}, X'00')"
            f" WHEN hex({place}) RLIKE '^(00)*.{{{2 * width}}}$' THEN {last} ELSE {on_overflow} END"
        )
    padded = f"lpad({place}, {width}, IF({place} >= X'80', X'FF', X'00'))"
    rest = 2 * width - 1
    return (
        f"CASE WHEN {place} IS NULL THEN NULL WHEN length({place}) <= {width} THEN unhex({_flipped(f'hex({padded})')})"
        f" WHEN hex({place}) RLIKE '^((00)*[0-7]|(FF)*[89A-F]).{{{rest}}}$' THEN unhex({_flipped(f'hex({last})')})"
        f" ELSE {on_overflow} END"
    )


def exceeds_precision(place: str, type_: pa.DataType) -> str:
    """Whether a decimal with the scale of ``type_`` has more digits than that."""
    most = f"CAST('{'9' * type_.precision}e-{type_.scale}' AS DECIMAL({type_.precision}, {type_.scale}))"
    return f"{place} NOT BETWEEN -{most} AND {most}"


def has_overflow(place: str, type_: pa.DataType, depth: int = 0) -> str:
    """Whether a value of ``type_``, in which wide numbers are such bytes and other decimals may be too long, has one
    that is none of its type. Never null."""
    layout = layout_of(type_)
    if layout is not None:
        return f"({place} IS NOT NULL AND {from_twos_complement(place, layout, 'NULL')} IS NULL)"
    if pa.types.is_struct(type_):
        members = (has_overflow(f"{place}.{quoted(field.name)}", field.type, depth) for field in type_)
        return f"({' OR '.join(members)})"
    if pa.types.is_decimal(type_):
        return f"coalesce({exceeds_precision(place, type_)}, false)"
    if not pa.types.is_nested(type_):
        return "false"
    item = f"_misfit{depth}"
    items, kind = (f"map_values({place})", type_.item_type) if pa.types.is_map(type_) else (place, type_.value_type)
    return f"coalesce(exists({items}, {item} -> {has_overflow(item, kind, depth + 1)}), false)"


def from_twos_complements(
    place: str, type_: pa.DataType, on_overflow: Callable[[str, Layout], str], depth: int = 0
) -> str:
    """The same for all wide numbers in a value of ``type_``. ``on_overflow`` makes the SQL of the place of one."""
    layout = layout_of(type_)
    if layout is not None:
        return from_twos_complement(place, layout, on_overflow(place, layout))
    if not contains_wide(type_):
        return place
    key, item = f"_key{depth}", f"_item{depth}"
    if pa.types.is_struct(type_):
        places = {field: f"{place}.{quoted(field.name)}" for field in type_}
        members = (
            f"{text_literal(field.name)}, {from_twos_complements(at, field.type, on_overflow, depth)}"
            for field, at in places.items()
        )
        return f"IF({place} IS NULL, NULL, named_struct({', '.join(members)}))"
    if pa.types.is_map(type_):
        keys = from_twos_complements(key, type_.key_type, on_overflow, depth + 1)
        items = from_twos_complements(item, type_.item_type, on_overflow, depth + 1)
        values = f"transform_values({place}, ({key}, {item}) -> {items})" if items != item else place
        return f"transform_keys({values}, ({key}, {item}) -> {keys})" if keys != key else values
    return f"transform({place}, {item} -> {from_twos_complements(item, type_.value_type, on_overflow, depth + 1)})"


def to_twos_complement(place: str, layout: Layout, size: int | None = None) -> str:
    """Big-endian bytes: as few as possible, or ``size`` of them, which have to be enough."""
    digits = f"concat('00', hex({place}))" if layout.low == 0 else _flipped(f"hex({place})")
    if size is None:
        return f"unhex(regexp_replace({digits}, '^(00)+(?=[0-7])|^(FF)+(?=[89A-F])', ''))"
    sign = "'0'" if layout.low == 0 else f"IF({place} >= X'80', '0', 'F')"
    return f"unhex(lpad({digits}, {2 * size}, {sign}))"


def needed_bytes(layout: Layout) -> int:
    """Bytes that hold every number of the type in two's complement."""
    return layout.width + (layout.low == 0)


def from_long(place: str, layout: Layout, on_overflow: str) -> str:
    """Of BIGINT, for types without digits after the point."""
    if layout.low == 0:
        return f"IF({place} < 0, {on_overflow}, lpad(unhex(hex({place})), {layout.width}, X'00'))"
    rest = f"lpad(unhex(hex({place})), {layout.width - 1}, IF({place} < 0, X'FF', X'00'))"
    return f"concat(IF({place} < 0, X'7F', X'80'), {rest})"


def to_long(place: str, layout: Layout, on_overflow: str) -> str:
    """To BIGINT, for types without digits after the point."""
    low, high = (literal(number, layout) for number in (max(layout.low, -(2**63)), 2**63 - 1))
    last = f"hex(substring({place}, {layout.width - 7}))"
    return (
        f"CASE WHEN {place} IS NULL THEN NULL WHEN {place} BETWEEN {low} AND {high}"
        f" THEN CAST(conv({last}, 16, -10) AS BIGINT) ELSE {on_overflow} END"
    )


def to_bytes(place: str, layout: Layout) -> str:
    """All bytes in two's complement, big-endian."""
    return place if layout.low == 0 else f"unhex({_flipped(f'hex({place})')})"
