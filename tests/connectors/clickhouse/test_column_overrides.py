from __future__ import annotations

import pytest

from streamling.connectors.clickhouse.column_overrides import check_overrides, parse_override
from streamling.connectors.clickhouse.type_text import InvalidTypeError
from streamling.pipeline.document.scalars import BadValueError


@pytest.mark.parametrize(
    ("text", "type_", "codec"),
    [
        ("DateTime64(3)", "DateTime64(3)", None),
        ("DateTime64( 3 ) codec( Delta , ZSTD(1) )", "DateTime64(3)", "CODEC(Delta, ZSTD(1))"),
        ("LowCardinality(Nullable(String)) CODEC(LZ4HC(9))", "LowCardinality(Nullable(String))", "CODEC(LZ4HC(9))"),
    ],
)
def test_a_type_may_have_a_codec(text: str, type_: str, codec: str | None) -> None:
    override = parse_override(text)
    assert str(override.type) == type_
    assert (None if override.codec is None else str(override.codec)) == codec


@pytest.mark.parametrize(
    "text",
    [
        "String DEFAULT now()",
        "String, x Int64",
        "String) ENGINE = Null --",
        "String CODEC(ZSTD); DROP TABLE t",
        "String CODEC()",
        "String CODEC(ZSTD) TTL x",
        "CODEC(ZSTD) String",
        "",
    ],
)
def test_nothing_else_may_follow_a_type(text: str) -> None:
    with pytest.raises(InvalidTypeError):
        parse_override(text)


def test_an_invalid_type_is_named_with_its_column() -> None:
    with pytest.raises(BadValueError) as caught:
        check_overrides({"a": "String", "b": "Decimal(10"})
    assert "for the column 'b'" in str(caught.value)
