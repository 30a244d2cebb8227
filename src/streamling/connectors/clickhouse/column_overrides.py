"""`schema_override`: types of new columns as users write them, with a codec if they like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streamling.connectors.clickhouse.type_text import ClickHouseType, InvalidTypeError, parse_type, split_type
from streamling.pipeline.document.scalars import BadValueError


@dataclass(frozen=True)
class ColumnOverride:
    """A type, and how the server compresses the column. Both are printed from trees, so nothing else can be part of
    them."""

    type: ClickHouseType
    codec: ClickHouseType | None


def parse_override(text: str) -> ColumnOverride:
    """Parse ``DateTime64(3) CODEC(Delta, ZSTD)``. Raises `InvalidTypeError`."""
    type_, rest = split_type(text)
    if not rest:
        return ColumnOverride(type_, None)
    codec = _codec(rest)
    if codec is None:
        raise InvalidTypeError(f"'{rest}' follows the type {type_}, but only CODEC(…) may follow it")
    return ColumnOverride(type_, codec)


def _codec(text: str) -> ClickHouseType | None:
    try:
        codec = parse_type(text)
    except InvalidTypeError:
        return None
    return ClickHouseType("CODEC", codec.arguments) if codec.name.upper() == "CODEC" and codec.arguments else None


def check_overrides(overrides: Mapping[str, str]) -> Mapping[str, str]:
    """Raise `BadValueError` for the first type that is invalid."""
    for column, text in overrides.items():
        try:
            parse_override(text)
        except InvalidTypeError as error:
            raise BadValueError(f"has an invalid type for the column '{column}': {error}") from None
    return overrides
