"""Types of text values."""

from __future__ import annotations

import pyarrow as pa
import pytest

from streamling.connectors.file.formats import text_types as text


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "-2", "+3", "007"], text.INT),
        (["9223372036854775807"], text.INT),
        (["9223372036854775808"], text.STRING),
        (
            ["1", "115792089237316195423570985008687907853269984665640564039457584007913129639935"],
            text.STRING,
        ),
        (["1", "2.5"], text.DOUBLE),
        (["1e5", ".5", "-1.", "NaN"], text.DOUBLE),
        (["1.5", "123456789012345678901"], text.STRING),
        (["true", "False", "TRUE"], text.BOOLEAN),
        (["true", "1"], text.STRING),
        (["2024-02-29"], text.DATE),
        (["2024-02-30"], text.STRING),
        (["2024-13-01"], text.STRING),
        (["2024-02-29", "2024-02-29 10:00"], text.TIMESTAMP),
        (["9999-12-31 23:59:59.123456789"], text.TIMESTAMP),
        (["2024-02-29T25:00:00"], text.STRING),
        (["2024-02-29T10:00:00Z", "2024-02-29 10:00:00.5+02:00"], text.INSTANT),
        (["2024-02-29T10:00:00Z", "2024-02-29T10:00:00"], text.STRING),
        (["12:30:00"], text.STRING),
        (["x"], text.STRING),
        ([], text.NULL),
    ],
)
def test_the_narrowest_type_that_fits_all(values: list[str], expected: pa.DataType) -> None:
    assert text.type_of_texts(pa.array(values, pa.string())) == expected


def test_one_late_value_widens_the_column() -> None:
    assert text.type_of_texts(pa.array(["1"] * 1000 + ["x"])) == text.STRING


def test_columns_of_several_files_are_merged() -> None:
    one = [pa.field("a", text.INT), pa.field("b", text.DATE), pa.field("c", text.NULL)]
    other = [pa.field("d", text.STRING), pa.field("b", text.TIMESTAMP), pa.field("a", text.DOUBLE)]
    assert text.common_fields([one, other]) == [
        pa.field("a", text.DOUBLE),
        pa.field("b", text.TIMESTAMP),
        pa.field("c", text.NULL),
        pa.field("d", text.STRING),
    ]
    assert text.common_type(text.INT, text.DATE) == text.STRING
    assert text.replace_null_types(pa.list_(text.NULL)) == pa.list_(text.STRING)
