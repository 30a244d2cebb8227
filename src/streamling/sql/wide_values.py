"""Values of wide number types in Spark SQL: literals, conversions and common types."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

import pyarrow as pa
from sqlglot import exp

from streamling.spark.sql_text import literal as text_literal
from streamling.sql.errors import location_suffix
from streamling.sql.fragments import UnsupportedSql, finished, type_of
from streamling.sql.library.declaration import Kernel
from streamling.sql.library.wide_numbers import (
    CONVERT,
    DOUBLE,
    FROM_DECIMAL,
    FROM_DOUBLE,
    PARSE,
    TEXT,
    call,
    checked,
    failed,
    failure,
)
from streamling.sql.printing import spark_sql
from streamling.types.wide.layout import (
    MAX_DIGITS,
    SPARK_DIGITS,
    U256,
    Layout,
    WideInteger,
    decimal_type,
    is_wide,
    layout_of,
)
from streamling.types.wide.spark_sql import from_long, from_twos_complement, literal, to_bytes, to_long

#: digits of the integers among the wide types, and of those of Spark
_U256_DIGITS, _I256_DIGITS, _LONG_DIGITS = 78, 77, 20
_CAST = "cast one of them, for example CAST(x AS DOUBLE) or CAST(x AS DECIMAL(38, 10))"
#: an expression that may still contain failures, for kernels that pass them on
_UNCHECKED = "unchecked"


def layout(type_: pa.DataType) -> Layout:
    found = layout_of(type_)
    assert found is not None, type_
    return found


def constant(node: exp.Expr) -> str | None:
    """Return the text of a literal number or string."""
    if isinstance(node, exp.Paren):
        return constant(node.this)
    if isinstance(node, exp.Neg):
        inside = constant(node.this)
        return None if inside is None or inside.startswith("-") else f"-{inside}"
    if "exact" in node.meta:
        return str(node.meta["exact"])
    return str(node.name) if isinstance(node, exp.Literal) else None


# ── common types ───────────────────────────────────────────────────────────────────────────


def size(node: exp.Expr) -> tuple[int, int] | None:
    """Return the maximum digits before and after the point of a number; None for texts and for types that only Spark
    knows."""
    type_, text = type_of(node), constant(node)
    if text is not None:
        return _digits(text)
    if type_ is None or pa.types.is_null(type_) or pa.types.is_string(type_):
        return None
    if isinstance(type_, WideInteger):
        return (_U256_DIGITS if type_ == U256 else _I256_DIGITS), 0
    if pa.types.is_integer(type_):
        return _LONG_DIGITS, 0
    if is_wide(type_) or pa.types.is_decimal(type_):
        return type_.precision - type_.scale, type_.scale
    raise UnsupportedSql(str(type_))


def _digits(text: str) -> tuple[int, int]:
    try:
        _, digits, exponent = Decimal(text).as_tuple()
    except InvalidOperation:
        raise UnsupportedSql(f"'{text}' is not a number") from None
    assert isinstance(exponent, int)
    return max(1, len(digits) + exponent), max(0, -exponent)


def wide_decimal(whole: int, scale: int) -> pa.DataType:
    """Return a wide decimal for this many digits."""
    scale = min(scale, MAX_DIGITS)
    return decimal_type(min(max(whole + scale, SPARK_DIGITS + 1), MAX_DIGITS), scale)


def common_type(nodes: Sequence[exp.Expr]) -> pa.DataType:
    """Return the type that all these values are converted to, of which at least one is wide."""
    wide = {type_ for node in nodes if is_wide(type_ := type_of(node))}
    integers = {type_ for type_ in wide if isinstance(type_, WideInteger)}
    if wide == integers:
        if len(integers) > 1:
            raise UnsupportedSql("u256 and i256 cannot be combined", "cast one of them, for example CAST(x AS I256)")
        return integers.pop()
    try:
        sizes = [found for node in nodes if (found := size(node)) is not None]
    except UnsupportedSql as error:
        raise UnsupportedSql(f"{wide.pop()} and {error} cannot be combined", _CAST) from None
    return wide_decimal(max(whole for whole, _ in sizes), max(scale for _, scale in sizes))


def operand_type(node: exp.Expr, other: exp.Expr) -> pa.DataType:
    """Return the wide type of one side of an operator; the other side is wide if this one is not."""
    type_ = type_of(node)
    if is_wide(type_):
        return type_
    beside = type_of(other)
    found = None if isinstance(beside, WideInteger) else size(node)
    return beside if found is None else wide_decimal(*found)


# ── into a wide type ─────────────────────────────────────────────────────────────────────────────────────────


def to_wide(node: exp.Expr, type_: pa.DataType, where: str, *, unchecked: bool = False) -> str:
    """Return ``node`` as a value of the wide type ``type_``, without losing digits. ``where`` is the user's text, for
    errors at run time. ``unchecked``: it may contain failures."""
    found, text = type_of(node), constant(node)
    if text is not None:
        return _literal(text, type_)
    if found is not None and found != type_ and not _is_lossless(found, type_):
        raise UnsupportedSql(f"{type_} and {found} cannot be combined", _CAST)
    return cast(node, type_, where, unchecked=unchecked)


def _is_lossless(found: pa.DataType, type_: pa.DataType) -> bool:
    if pa.types.is_null(found) or pa.types.is_integer(found) or pa.types.is_string(found):
        return True
    if isinstance(type_, WideInteger):
        return pa.types.is_decimal(found) and not is_wide(found) and found.scale == 0
    return pa.types.is_decimal(found) or is_wide(found)


def _literal(text: str, type_: pa.DataType) -> str:
    kept = layout(type_)
    try:
        return literal(kept.parse(text), kept)
    except (ValueError, OverflowError) as error:
        raise UnsupportedSql(str(error)) from None


def cast(node: exp.Expr, type_: pa.DataType, where: str, *, unchecked: bool = False, or_null: bool = False) -> str:
    """Return ``CAST(node AS type_)`` to a wide type."""
    found, kept, sql = type_of(node), layout(type_), spark_sql(node)
    if found == type_:
        return str(node.unnest().meta.get(_UNCHECKED, sql)) if unchecked else sql
    on_overflow = (
        "NULL"
        if or_null
        else _raise_error_sql(f"concat(CAST({sql} AS STRING), ' does not fit into {kept.name}')", where)
    )
    if found is not None and pa.types.is_null(found):
        return "CAST(NULL AS BINARY)"
    if found is not None and pa.types.is_integer(found) and found != pa.uint64() and not kept.scale:
        # as an argument of a kernel it runs for every row, and must not raise
        failure_sql = failed(f"concat(CAST({sql} AS STRING), ' does not fit into {kept.name}')", kept)
        return from_long(f"CAST({sql} AS BIGINT)", kept, failure_sql if unchecked else on_overflow)
    if found is not None and pa.types.is_binary(found):
        return _of_bytes(
            sql, kept, "NULL" if or_null else _raise_error_sql(f"'bytes do not fit into {kept.name}'", where)
        )
    kernel = _kernel(node, found, type_)
    if unchecked:
        return kernel
    return checked(kernel, kept, "NULL" if or_null else _raise_error_sql(failure(kernel), where))


def _kernel(node: exp.Expr, found: pa.DataType | None, type_: pa.DataType) -> str:
    sql = spark_sql(node)
    if found is not None and is_wide(found):
        return call(CONVERT, str(node.unnest().meta.get(_UNCHECKED, sql)), types=[found, type_])
    if found is not None and pa.types.is_floating(found):
        return call(FROM_DOUBLE, f"CAST({sql} AS DOUBLE)", types=[type_])
    if found is not None and (pa.types.is_decimal(found) or pa.types.is_integer(found)):
        return call(FROM_DECIMAL, f"CAST({sql} AS STRING)", types=[type_])
    if found is None or pa.types.is_string(found):
        return call(PARSE, f"CAST({sql} AS STRING)", types=[type_])
    raise UnsupportedSql(f"there is no cast from {found} to {type_}")


def _of_bytes(sql: str, kept: Layout, on_overflow: str) -> str:
    """Convert from big-endian bytes."""
    if kept.low == 0:
        return f"IF(length({sql}) > {kept.width}, {on_overflow}, lpad({sql}, {kept.width}, X'00'))"
    return from_twos_complement(sql, kept, on_overflow)


def _raise_error_sql(message: str, where: str) -> str:
    return f"raise_error(concat({message}, {text_literal(location_suffix(where))}))"


def computed(kernel: str, type_: pa.DataType, where: str) -> exp.Expr:
    """Return the result of a kernel, as a value of ``type_``."""
    sql = checked(kernel, layout(type_), _raise_error_sql(failure(kernel), where))
    return finished(sql, type_, {_UNCHECKED: kernel})


# ── out of a wide type ───────────────────────────────────────────────────────────────────────────────────────


def text_of(node: exp.Expr, where: str) -> str:
    return _through(TEXT, node, where)


def _through(kernel: Kernel, node: exp.Expr, where: str) -> str:
    """Return a kernel that converts a wide number to something else. The error of a failed one stays outside: what is
    inside runs for every row."""
    type_ = type_of(node)
    assert type_ is not None
    value = cast(node, type_, where, unchecked=True)
    made = call(kernel, value, types=[type_])
    if value == spark_sql(node):
        return made
    return f"IF(length({value}) <> {layout(type_).width}, {_raise_error_sql(failure(value), where)}, {made})"


def cast_out(node: exp.Expr, type_: pa.DataType, spelling: str, where: str, *, or_null: bool) -> str:
    """Return ``CAST(node AS type_)`` from a wide type to one of Spark's, which is called ``spelling``."""
    found, sql = type_of(node), spark_sql(node)
    narrow = "TRY_CAST" if or_null else "CAST"
    if pa.types.is_string(type_):
        return text_of(node, where)
    if pa.types.is_decimal(type_):
        return f"{narrow}({text_of(node, where)} AS {spelling})"
    if pa.types.is_floating(type_):
        return f"CAST({_through(DOUBLE, node, where)} AS {spelling})"
    if pa.types.is_integer(type_):
        on_overflow = (
            "NULL"
            if or_null
            else _raise_error_sql(f"concat({text_of(node, where)}, ' does not fit into {spelling}')", where)
        )
        return f"{narrow}({_long(node, on_overflow, where)} AS {spelling})"
    if pa.types.is_binary(type_) and isinstance(found, WideInteger):
        return to_bytes(sql, layout(found))
    raise UnsupportedSql(f"there is no cast from {found} to {spelling}")


def _long(node: exp.Expr, on_overflow: str, where: str) -> str:
    found = type_of(node)
    assert found is not None
    if not layout(found).scale:
        return to_long(spark_sql(node), layout(found), on_overflow)
    whole = wide_decimal(found.precision - found.scale, 0)
    return to_long(cast(node, whole, where), layout(whole), on_overflow)
