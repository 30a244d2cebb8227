"""Filters that cannot become anything but a condition."""

from __future__ import annotations

import pytest

from streamling.connectors.clickhouse.filter import QueryFilter
from streamling.errors import StreamlingError


@pytest.mark.parametrize(
    "text",
    [
        "a = 1",
        "a = ')' AND b = \"x)\" AND `c)` = 'it''s \\')'",
        "a = 1 -- )",
        "a = 1 /* ) */",
        "a IN (SELECT b FROM c WHERE d = [1, 2][1])",
        "a = $$)$$",
    ],
)
def test_brackets_in_quotes_and_comments_do_not_count(text: str) -> None:
    assert QueryFilter.parse(text).sql == f"(\n{text}\n)"


@pytest.mark.parametrize(
    "text",
    ["", "-- a", "a)", "(a", "a) OR (b", "f(a]", "a; b", "'a", '"a', "`a", "/* a", "a = 1 /* -- */ )", "a\n) -- ("],
)
def test_what_could_end_the_condition_is_refused(text: str) -> None:
    with pytest.raises(StreamlingError, match="the filter is not a condition"):
        QueryFilter.parse(text)


@pytest.mark.parametrize(
    ("text", "only_keys"),
    [
        ("id = 1", True),
        ("id > 5 AND (day = '2024-01-01' OR NOT id IN (1, 2))", True),
        ("id BETWEEN -1 AND 5 AND day IS NOT NULL", True),
        ("id = 1 AND x = 2", False),
        ("id > rand()", False),
        ("id IN (SELECT id FROM other)", False),
        ("now() > day", False),
        ("id ? 1", False),
    ],
)
def test_a_filter_that_only_depends_on_the_key_is_recognised(text: str, only_keys: bool) -> None:
    assert QueryFilter.parse(text).uses_only({"id", "day"}) is only_keys
