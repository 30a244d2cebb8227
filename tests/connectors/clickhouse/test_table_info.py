"""What the descriptions of tables mean."""

from __future__ import annotations

import pytest

from streamling.connectors.clickhouse.table_info import split_list


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        ("id", ["id"]),
        ("id, toDate(ts), f(a, [b, c])", ["id", "toDate(ts)", "f(a, [b, c])"]),
        ("`a, b`, concat(x, ', (')", ["`a, b`", "concat(x, ', (')"]),
        ("'it\\'s, ', `a\\`, b`", ["'it\\'s, '", "`a\\`, b`"]),
    ],
)
def test_a_list_is_split_at_its_own_commas(text: str, parts: list[str]) -> None:
    assert split_list(text) == parts
