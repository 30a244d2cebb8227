"""Type names of `schema` maps, as Arrow types."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, WithJsonSchema

from streamling.pipeline.document.scalars import BadValueError
from streamling.pipeline.document.suggest import closest

if TYPE_CHECKING:
    import pyarrow as pa

#: name in the file → pyarrow's factory and its arguments
_FACTORIES: dict[str, tuple[str, tuple[str, ...]]] = {
    "int8": ("int8", ()),
    "int16": ("int16", ()),
    "int32": ("int32", ()),
    "int64": ("int64", ()),
    "uint8": ("uint8", ()),
    "uint16": ("uint16", ()),
    "uint32": ("uint32", ()),
    "uint64": ("uint64", ()),
    "float16": ("float16", ()),
    "float32": ("float32", ()),
    "float64": ("float64", ()),
    "string": ("string", ()),
    "utf8": ("string", ()),
    "binary": ("binary", ()),
    "boolean": ("bool_", ()),
    "date32": ("date32", ()),
    "date64": ("date64", ()),
    # Spark's resolution; finer units would be truncated
    "timestamp": ("timestamp", ("us",)),
    "time32": ("time32", ("ms",)),
    "time64": ("time64", ("us",)),
    "duration": ("duration", ("us",)),
    "interval": ("month_day_nano_interval", ()),
    "null": ("null", ()),
}
_DECIMALS = {
    "decimal": ("decimal128", 38),
    "numeric": ("decimal128", 38),
    "decimal128": ("decimal128", 38),
    "decimal256": ("decimal256", 76),
}
#: SQL spellings → the documented name. Postgres' int8 is missing on purpose: int8 has 8 bits here.
_SQL_SPELLINGS = {
    "tinyint": "int8",
    "smallint": "int16",
    "int2": "int16",
    "int": "int32",
    "integer": "int32",
    "int4": "int32",
    "bigint": "int64",
    "long": "int64",
    "real": "float32",
    "float4": "float32",
    "double": "float64",
    "double precision": "float64",
    "float8": "float64",
    "text": "string",
    "varchar": "string",
    "char": "string",
    "character varying": "string",
    "uuid": "string",
    "bytea": "binary",
    "bytes": "binary",
    "blob": "binary",
    "varbinary": "binary",
    "bool": "boolean",
    "date": "date32",
    "time": "time64",
    "datetime": "timestamp",
    # a time zone in the value is respected: the time is stored in UTC
    "timestamptz": "timestamp",
    "timestamp with time zone": "timestamp",
    "timestamp without time zone": "timestamp",
}
#: 256-bit integers, which only Streamling has
_WIDE = ("u256", "i256")
_NESTED = ("list", "array", "struct", "map", "[", "{")
_BARE_DECIMAL = (38, 9)
_DECIMAL_NAMES = ("decimal", "numeric")
_DECIMAL = re.compile(r"(decimal(?:128|256)?|numeric)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?", re.ASCII)

SUPPORTED = (*_FACTORIES, *_WIDE, "decimal(p,s)", "decimal128(p,s)", "decimal256(p,s)")


def parse_type(name: str) -> pa.DataType:
    """Return the Arrow type called ``name``; raises `BadValueError`.

    >>> parse_type("Decimal(20)")
    Decimal128Type(decimal128(20, 0))
    """
    import pyarrow as pa

    folded = " ".join(name.lower().split())
    folded = _SQL_SPELLINGS.get(folded, folded)
    if folded in _FACTORIES:
        factory, arguments = _FACTORIES[folded]
        return getattr(pa, factory)(*arguments)
    if folded.startswith(_DECIMAL_NAMES):
        factory, precision, scale = _decimal(name, folded)
        return getattr(pa, factory)(precision, scale)
    if folded in _WIDE:
        from streamling.types.wide.layout import WideInteger

        return WideInteger(folded)
    raise BadValueError(
        f"is '{name}', which is not a supported type; supported types: {', '.join(SUPPORTED)}", _hint(folded)
    )


def _hint(folded: str) -> str | None:
    if folded.startswith(_NESTED):
        return "lists, structs and maps have no type names; a script without 'schema' passes them on unchanged"
    if folded == "float":
        return "databases disagree on its width: write float32 (real) or float64 (double)"
    bare, length, _ = folded.partition("(")
    if length and bare.strip() in _SQL_SPELLINGS:
        return f"write '{bare.strip()}' without a length: lengths are not checked"
    match = closest(folded, [*_FACTORIES, *_SQL_SPELLINGS, *_WIDE, *_DECIMALS])
    return f"did you mean '{match}'?" if match else None


def _decimal(name: str, folded: str) -> tuple[str, int, int]:
    match = _DECIMAL.fullmatch(folded)
    if match is None:
        raise BadValueError(f"is '{name}', which is not a decimal type", "write it as decimal(38, 9)")
    factory, most = _DECIMALS[match[1]]
    precision, scale = (int(match[2]), int(match[3] or 0)) if match[2] else _BARE_DECIMAL
    if not 1 <= precision <= most or scale > precision:
        raise BadValueError(
            f"is '{name}', which is not a valid {factory}",
            f"the precision must be between 1 and {most}, and the scale at most the precision",
        )
    return factory, precision, scale


def _check(name: str) -> str:
    parse_type(name)
    return name


#: the name of a column type
TypeName = Annotated[str, AfterValidator(_check), WithJsonSchema({"type": "string", "examples": ["string", "int64"]})]
