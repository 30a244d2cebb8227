"""Type names in casts: those of Spark, of DataFusion's SQL, and Arrow's own.

If a name has different meanings, DataFusion's applies: DECIMAL is DECIMAL(38, 10), TIMESTAMP has no zone, INT8 has
eight bytes. Unsigned integers become the next wider signed type, as everywhere (see `types.spark`). For Spark, numbers
wider than its own are bytes; `streamling.sql.wide_operators` casts from and to them.
"""

from __future__ import annotations

import difflib

import pyarrow as pa
from sqlglot import exp

from streamling.spark.sql_text import quoted
from streamling.sql.casts import as_text, from_decimal, from_text, special, time_cast
from streamling.sql.fragments import UnsupportedSql, cast_node, fill, type_of
from streamling.sql.inference import as_single
from streamling.types.wide.layout import I256, MAX_DIGITS, SPARK_DIGITS, U256, decimal_type

_T = exp.DType
_Known = tuple[str, pa.DataType]

_STRING: _Known = ("STRING", pa.string())
_BINARY: _Known = ("BINARY", pa.binary())
_NO_ZONE: _Known = ("TIMESTAMP_NTZ", pa.timestamp("us"))
_UTC: _Known = ("TIMESTAMP_LTZ", pa.timestamp("us", "UTC"))
_BYTE: _Known = ("TINYINT", pa.int8())
_SHORT: _Known = ("SMALLINT", pa.int16())
_INT: _Known = ("INT", pa.int32())
_LONG: _Known = ("BIGINT", pa.int64())
_UNSIGNED_LONG: _Known = ("DECIMAL(20, 0)", pa.decimal128(20, 0))
_DOUBLE: _Known = ("DOUBLE", pa.float64())
_FLOAT: _Known = ("FLOAT", pa.float32())
_DATE: _Known = ("DATE", pa.date32())
_TIME: _Known = ("TIME(6)", pa.time64("us"))
_WIDE_UNSIGNED: _Known = ("BINARY", U256)
_WIDE_SIGNED: _Known = ("BINARY", I256)

_SQL: dict[exp.DType, _Known] = {
    _T.BOOLEAN: ("BOOLEAN", pa.bool_()),
    _T.TINYINT: _BYTE,
    _T.SMALLINT: _SHORT,
    _T.INT: _INT,
    _T.BIGINT: _LONG,
    _T.UTINYINT: _SHORT,
    _T.USMALLINT: _INT,
    _T.UINT: _LONG,
    _T.UBIGINT: _UNSIGNED_LONG,
    _T.UINT256: _WIDE_UNSIGNED,
    _T.INT256: _WIDE_SIGNED,
    _T.FLOAT: _FLOAT,
    _T.DOUBLE: _DOUBLE,
    _T.TEXT: _STRING,
    _T.VARCHAR: _STRING,
    _T.CHAR: _STRING,
    _T.BINARY: _BINARY,
    _T.VARBINARY: _BINARY,
    _T.DATE: _DATE,
    _T.TIME: _TIME,
    _T.DATETIME: _NO_ZONE,
    _T.TIMESTAMP: _NO_ZONE,
    _T.TIMESTAMPNTZ: _NO_ZONE,
    _T.TIMESTAMPTZ: _UTC,
    _T.TIMESTAMPLTZ: _UTC,
}
_ARROW: dict[str, _Known] = {
    "utf8": _STRING,
    "largeutf8": _STRING,
    "utf8view": _STRING,
    "largebinary": _BINARY,
    "binaryview": _BINARY,
    "uint8": _SHORT,
    "uint16": _INT,
    "uint32": _LONG,
    "uint64": _UNSIGNED_LONG,
    "u256": _WIDE_UNSIGNED,
    "i256": _WIDE_SIGNED,
    "float16": _FLOAT,
    "float32": _FLOAT,
    "float64": _DOUBLE,
    "date32": _DATE,
    "date64": _DATE,
    "time32": _TIME,
    "time64": _TIME,
}

#: names that have another meaning, or none, as a SQL type
_ARROW_ONLY: dict[str, _Known] = {
    "int8": _BYTE,
    "int16": _SHORT,
    "int32": _INT,
    "int64": _LONG,
    "boolean": ("BOOLEAN", pa.bool_()),
    "binary": _BINARY,
}


def arrow_name(name: str) -> _Known | None:
    """Return the type for a name in ``arrow_cast``: ``Int64``, ``Timestamp(Microsecond, Some("UTC"))``,
    ``Decimal128(38, 2)``."""
    head, _, rest = name.lower().replace(" ", "").partition("(")
    if head == "timestamp":
        return _NO_ZONE if "none" in rest or "," not in rest else _UTC
    if head in ("decimal128", "decimal256") and rest:
        precision, _, scale = rest.rstrip(")").partition(",")
        return _decimal([precision, scale or "0"])
    return _ARROW.get(head) or _ARROW_ONLY.get(head)


def spark_type_name(type_: pa.DataType) -> str | None:
    """Return Spark's name of an Arrow type; None for one that Spark lacks."""
    if pa.types.is_decimal(type_):
        return f"DECIMAL({type_.precision}, {type_.scale})"
    if pa.types.is_list(type_):
        element = spark_type_name(type_.value_type)
        return f"ARRAY<{element}>" if element else None
    known = [*_SQL.values(), *_ARROW.values()]
    return next((name for name, arrow in known if arrow == type_), None)


#: Spark makes NULL of NaN and infinity, and writes 300 zeros when 1e300 does not fit
_OF_DOUBLE = (
    "if({{0}} IS NULL OR abs({{0}}) < 1e38D, CAST({{0}} AS {0}),"
    " raise_error(concat(CAST({{0}} AS STRING), ' does not fit into {0}')))"
)
_UNITS = {"s": "s", "ms": "ms", "us": "µs", "ns": "ns"}


def arrow_spelling(type_: pa.DataType) -> str:
    """Return an Arrow type as DataFusion shows it: ``Int64``, ``Utf8``, ``List(Int64)``, ``Timestamp(µs)``."""
    if pa.types.is_timestamp(type_):
        zone = f', "{type_.tz}"' if type_.tz else ""
        return f"Timestamp({_UNITS[type_.unit]}{zone})"
    if pa.types.is_time(type_):
        return f"Time{type_.bit_width}({_UNITS[type_.unit]})"
    if pa.types.is_decimal(type_):
        return f"Decimal128({type_.precision}, {type_.scale})"
    if pa.types.is_list(type_):
        return f"List({arrow_spelling(type_.value_type)})"
    if pa.types.is_struct(type_):
        return "Struct(" + ", ".join(f'"{field.name}": {arrow_spelling(field.type)}' for field in type_) + ")"
    names = {"bool": "Boolean", "string": "Utf8", "double": "Float64", "float": "Float32", "date32[day]": "Date32"}
    return names.get(str(type_), str(type_).capitalize())


def rewrite_cast(node: exp.Cast) -> exp.Expr:
    """Return a cast to a type that Spark knows. Raises `UnsupportedSql`."""
    known = spark_type(node.to)
    if known is None:
        raise _unknown(node)
    spelling, arrow = known
    try:
        return converted(node.this, spelling, arrow, "TRY_CAST" if isinstance(node, exp.TryCast) else "CAST")
    except UnsupportedSql as error:
        raise UnsupportedSql(str(error), error.remedy, node.this) from None


def converted(value: exp.Expr, spelling: str, type_: pa.DataType, cast: str = "CAST") -> exp.Expr:
    """Return ``cast(value AS spelling)`` with DataFusion's result. Raises `UnsupportedSql`."""
    if spelling == "STRING" and special(type_of(value)):
        return as_text(value, cast)
    own = from_text(value, spelling, type_, cast) or from_decimal(value, spelling, type_, cast)
    if made := own or time_cast(value, type_, cast):
        return made
    if type_ == pa.float32():
        return as_single(value, cast)
    if cast == "CAST" and pa.types.is_decimal(type_) and pa.types.is_floating(type_of(value) or pa.null()):
        return fill(_OF_DOUBLE.format(spelling), [value], type_)
    return _list_cast(value, type_, cast) or cast_node(value, spelling, type_, cast)


def _list_cast(value: exp.Expr, type_: pa.DataType, cast: str) -> exp.Expr | None:
    """Return a cast of every element, if it differs from Spark's own."""
    source = type_of(value)
    if source is None or not pa.types.is_list(source) or not pa.types.is_list(type_):
        return None
    depth, inner = 0, type_
    while pa.types.is_list(inner):
        depth, inner = depth + 1, inner.value_type
    element = exp.Var(this=f"__c{depth}")
    element.meta["arrow"] = source.value_type
    spelling = spark_type_name(type_.value_type)
    made = converted(element, spelling, type_.value_type, cast) if spelling is not None else None
    if made is None or isinstance(made, exp.Cast):
        return None
    return fill(f"transform({{0}}, {element.name} -> {{1}})", [value, made], type_)


def spark_type(type_: exp.DataType) -> tuple[str, pa.DataType] | None:
    """Return Spark's name for a type name and the Arrow type of its values."""
    if type_.this is _T.USERDEFINED:
        return _ARROW.get(str(type_.args.get("kind")).lower())
    if type_.this in (_T.DECIMAL, _T.BIGDECIMAL):
        return _decimal([size.name for size in type_.expressions])
    if type_.this is _T.ARRAY and (element := spark_type(type_.expressions[0])):
        return f"ARRAY<{element[0]}>", pa.list_(element[1])
    if type_.this is _T.MAP:
        key, value = (spark_type(part) for part in type_.expressions)
        return (f"MAP<{key[0]}, {value[0]}>", pa.map_(key[1], value[1])) if key and value else None
    if type_.this is _T.STRUCT:
        return _struct(type_)
    return _SQL.get(type_.this)


def _decimal(written: list[str]) -> tuple[str, pa.DataType] | None:
    if len(written) > 2 or not all(size.isascii() and size.isdigit() and len(size) < 5 for size in written):
        return None
    sizes = [int(size) for size in written] or [38, 10]
    precision, scale = sizes[0], sizes[1] if len(sizes) > 1 else 0
    if not 1 <= precision <= MAX_DIGITS or not 0 <= scale <= precision:
        return None
    spelling = f"DECIMAL({precision}, {scale})" if precision <= SPARK_DIGITS else "BINARY"
    return spelling, decimal_type(precision, scale)


def _struct(type_: exp.DataType) -> tuple[str, pa.DataType] | None:
    spellings, fields = [], []
    for field in type_.expressions:
        known = spark_type(field.args["kind"]) if isinstance(field, exp.ColumnDef) else None
        if known is None:
            return None
        spellings.append(f"{quoted(field.name)}: {known[0]}")
        fields.append(pa.field(field.name, known[1]))
    return f"STRUCT<{', '.join(spellings)}>", pa.struct(fields)


def _unknown(node: exp.Cast) -> UnsupportedSql:
    written = str(node.to.args.get("kind") or node.to.sql("spark"))
    names = [*(kind.value.lower() for kind in _SQL), *_ARROW]
    close = difflib.get_close_matches(written.lower(), names, 1)
    remedy = (
        f"did you mean {close[0].upper()}?" if close else "such as BIGINT, DOUBLE, DECIMAL(38, 10), TEXT, TIMESTAMP"
    )
    return UnsupportedSql(f"the type {written} is unknown", remedy, node.this)
