"""How a table is divided into pages, over keys in memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from random import Random

import pytest

from streamling.connectors.clickhouse.key_types import KeyType, KeyValue
from streamling.connectors.clickhouse.pages import BUCKETS, ENDS, Bucket, Page, PagePlan, QueryTooLarge
from streamling.connectors.clickhouse.sort_key import BEGINNING, After, Cut, From, KeyColumn, SortKey
from streamling.connectors.clickhouse.type_text import parse_type

Key = tuple[int, ...]


def sort_key(*types: str) -> SortKey:
    names = tuple(f"k{number}" for number in range(len(types)))
    columns = []
    for name, type_ in zip(names, types, strict=True):
        key_type = KeyType.of(parse_type(type_))
        assert key_type is not None
        columns.append(KeyColumn(name, key_type))
    return SortKey(names, tuple(columns))


class Keys:
    """A table of which only the keys are known."""

    def __init__(self, keys: list[Key], slow_width: int | None = None) -> None:
        self.keys = sorted(keys)
        self.slow_width = slow_width
        self.widths: list[int] = []

    def between(self, start: Cut, end: Cut | None) -> list[Key]:
        return [key for key in self.keys if _is_after(key, start) and (end is None or not _is_after(key, end))]

    def buckets(self, start: int, width: int) -> list[Bucket]:
        if self.slow_width is not None and width > self.slow_width:
            raise QueryTooLarge("too slow")
        self.widths.append(width)
        found = []
        for number in range(BUCKETS):
            first = start + number * width
            inside = [key[0] for key in self.keys if first <= key[0] < first + width]
            if inside:
                found.append(Bucket(number, len(inside), max(inside)))
        return found

    def first_key(self, start: Cut) -> int | None:
        found = self.between(start, None)
        return found[0][0] if found else None

    def page_ends(self, start: Cut, end: Cut | None, rows: int) -> list[tuple[KeyValue, ...]]:
        return list(self.between(start, end)[rows - 1 :: rows][:ENDS])

    def last_row(self, start: Cut, end: Cut | None) -> tuple[tuple[KeyValue, ...], int] | None:
        found = self.between(start, end)
        return (found[-1], len(found)) if found else None


def _is_after(key: Key, cut: Cut) -> bool:
    if isinstance(cut, From):
        return key[0] >= cut.value  # type: ignore[operator, no-any-return]
    return key > cut.values if isinstance(cut, After) else True  # type: ignore[operator, no-any-return]


def pages_of(keys: Keys, page_rows: int, first_range: int = 100, start: Cut = BEGINNING) -> list[Page]:
    key = sort_key(*["Int64"] * len(keys.keys[0]))
    return list(PagePlan(key, keys, lambda: page_rows, first_range).pages(start))


def check(keys: Keys, pages: list[Page], page_rows: int) -> None:
    """Each row is on one page, in order, and pages are as large as intended."""
    found: list[Key] = []
    for page in pages:
        rows = keys.between(page.start, page.end)
        assert len(rows) == page.rows
        assert len(set(rows)) == 1 or len(rows) <= page_rows
        found += rows
    assert found == keys.keys


@pytest.mark.parametrize(
    "numbers",
    [
        range(1000),
        range(-500, 500),
        [n * 10**12 for n in range(-50, 50)],
        [*range(100), *range(10**15, 10**15 + 100)],
        [-(2**63), 0, 2**63 - 1],
        [7] * 500,
        [*range(40), *[40] * 300, *range(41, 60)],
    ],
    ids=["dense", "negative", "sparse", "two clusters", "extremes", "one value", "a hot value"],
)
@pytest.mark.parametrize("page_rows", [1, 7, 100, 10_000])
def test_ranges_of_an_integer_hold_each_row_once(numbers: list[int], page_rows: int) -> None:
    keys = Keys([(number,) for number in numbers])
    check(keys, pages_of(keys, page_rows), page_rows)


def random_keys(random: Random) -> Iterator[Key]:
    for _ in range(random.randint(1, 200)):
        first = random.choice([random.randint(-3, 3), random.randint(-(10**9), 10**9)])
        yield (first, random.randint(0, 20), random.randint(0, 3))


@pytest.mark.parametrize("seed", range(50))
def test_random_keys_are_on_one_page_each(seed: int) -> None:
    random = Random(seed)
    keys, page_rows = Keys(list(random_keys(random))), random.randint(1, 30)
    pages = pages_of(keys, page_rows)
    found = [key for page in pages for key in keys.between(page.start, page.end)]
    assert found == keys.keys
    for page in pages:
        inside = keys.between(page.start, page.end)
        assert len(inside) <= page_rows + inside.count(inside[-1]) - 1
    page = random.choice(pages)
    rest = pages_of(keys, page_rows, start=page.end)
    assert [key for page in rest for key in keys.between(page.start, page.end)] == [
        key for key in keys.keys if _is_after(key, page.end)
    ]


def test_few_queries_find_the_pages_of_many_rows() -> None:
    keys = Keys([(number,) for number in range(5000)])
    pages = pages_of(keys, 100, first_range=100)
    assert len(pages) < 100
    assert len(keys.widths) < 40


def test_ranges_become_narrower_where_rows_are_dense_and_wider_where_they_are_not() -> None:
    keys = Keys([*((number * 1000,) for number in range(100)), *((100_000 + number,) for number in range(1000))])
    check(keys, pages_of(keys, 50, first_range=1_000_000), 50)
    assert keys.widths[0] == 1_000_000 // BUCKETS
    assert min(keys.widths) < 100


def test_the_first_range_is_as_wide_as_configured() -> None:
    keys = Keys([(number,) for number in range(10)])
    pages_of(keys, 100, first_range=3200)
    assert keys.widths == [3200 // BUCKETS]


def test_ranges_that_take_too_long_to_count_become_narrower() -> None:
    keys = Keys([(number,) for number in range(1000)], slow_width=10)
    check(keys, pages_of(keys, 100, first_range=1_000_000), 100)
    assert max(keys.widths) <= 10


def test_a_range_that_cannot_be_narrower_is_an_error() -> None:
    with pytest.raises(QueryTooLarge):
        pages_of(Keys([(1,)], slow_width=0), 100)


def test_pages_inside_of_a_value_end_at_a_tuple() -> None:
    keys = Keys([(7, number) for number in range(30)])
    pages = pages_of(keys, 10)
    assert [page.end.values for page in pages] == [(7, 9), (7, 19), (7, 29)]
    assert all(first.end.values == second.start.values for first, second in pairwise(pages))


def test_keys_that_are_not_integers_are_divided_by_rows() -> None:
    key = sort_key("String", "Int64")
    keys = Keys([(1, number) for number in range(25)])
    pages = list(PagePlan(key, keys, lambda: 10, 100).pages(BEGINNING))
    assert [page.end.values for page in pages] == [(1, 9), (1, 19), (1, 24)]
    assert keys.widths == []


def test_the_number_of_rows_may_change_between_pages() -> None:
    sizes = iter([5, 3, *[2] * 100])
    keys = Keys([(1, number) for number in range(100)])
    pages = list(PagePlan(sort_key("String", "Int64"), keys, lambda: next(sizes), 100).pages(BEGINNING))
    assert [page.rows for page in pages] == [5] * ENDS + [3] * ENDS + [2] * ((100 - 8 * ENDS) // 2)


def test_a_page_can_be_divided() -> None:
    keys = Keys([(number, 0) for number in range(100)])
    plan = PagePlan(sort_key("Int64", "Int64"), keys, lambda: 10, 100)
    parts = list(plan.parts(Page(From(20), From(50), 30)))
    assert [key[0] for part in parts for key in keys.between(part.start, part.end)] == list(range(20, 50))
    assert [part.rows for part in parts] == [10, 10, 10]
