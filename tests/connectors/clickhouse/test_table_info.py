"""What the descriptions of tables mean."""

from __future__ import annotations

import pytest

from streamling.connectors.clickhouse.table_info import split_list, version_columns


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


@pytest.mark.parametrize(
    ("engine", "definition", "expected"),
    [
        ("ReplacingMergeTree", "ReplacingMergeTree ORDER BY id", (None, None)),
        ("ReplacingMergeTree", "ReplacingMergeTree() ORDER BY id", (None, None)),
        ("ReplacingMergeTree", "ReplacingMergeTree(v) PARTITION BY f(a, b) ORDER BY (id, v)", ("v", None)),
        (
            "ReplacingMergeTree",
            "ReplacingMergeTree(`v 1`, d) ORDER BY id SETTINGS index_granularity = 8192",
            ("v 1", "d"),
        ),
        (
            "ReplicatedReplacingMergeTree",
            "ReplicatedReplacingMergeTree('/clickhouse/{shard}', '{replica}', v, d) ORDER BY id",
            ("v", "d"),
        ),
        ("SharedReplacingMergeTree", "SharedReplacingMergeTree('/p', 'r', `v`) ORDER BY id", ("v", None)),
        ("MergeTree", "MergeTree ORDER BY id", (None, None)),
        ("CollapsingMergeTree", "CollapsingMergeTree(sign) ORDER BY id", (None, None)),
    ],
)
def test_the_version_columns_of_an_engine(
    engine: str, definition: str, expected: tuple[str | None, str | None]
) -> None:
    assert version_columns(engine, definition) == expected
