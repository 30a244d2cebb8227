"""How many rows a page has."""

from __future__ import annotations

import pytest

from streamling.connectors.clickhouse.page_size import TARGET_BYTES, PageSize


@pytest.mark.parametrize(
    ("most", "row_bytes", "rows"),
    [(10**7, None, 65_536), (100, None, 100), (10**7, 32, TARGET_BYTES // 32), (100, 32, 100), (10**7, 1e12, 1)],
)
def test_the_first_page_is_as_large_as_rows_of_the_known_size_allow(
    most: int, row_bytes: float | None, rows: int
) -> None:
    assert PageSize(most, row_bytes).rows() == rows


def test_pages_grow_to_the_intended_size() -> None:
    size = PageSize(10**7)
    for _ in range(20):
        size.grow(size.rows(), size.rows() * 100)
    assert size.rows() == TARGET_BYTES // 100


def test_pages_never_have_more_rows_than_configured() -> None:
    size = PageSize(1000)
    size.grow(1000, 10)
    assert size.rows() == 1000


def test_pages_of_wider_rows_become_smaller_at_once() -> None:
    size = PageSize(10**7)
    size.grow(1000, 1000 * 1_000_000)
    assert size.rows() == TARGET_BYTES // 1_000_000


def test_a_query_that_was_too_large_is_halved() -> None:
    size = PageSize(1000)
    size.shrink(300)
    assert size.rows() == 150
    size.shrink(10_000)
    assert size.rows() == 75


def test_a_small_page_says_nothing_about_a_larger_one() -> None:
    size = PageSize(1000)
    size.shrink(1000)
    size.grow(5, 50)
    assert size.rows() == 500


def test_a_page_of_one_row_cannot_be_smaller_and_is_read_whatever_its_size_is() -> None:
    size = PageSize(2)
    assert size.most_bytes is not None
    size.shrink(2)
    assert not size.can_shrink
    assert size.most_bytes is None
    size.shrink(1)
    assert size.rows() == 1
