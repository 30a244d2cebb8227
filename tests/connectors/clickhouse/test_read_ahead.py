"""Pages that are read ahead by several threads arrive in order."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from streamling.connectors.clickhouse.pages import Page
from streamling.connectors.clickhouse.read_ahead import PageFeed
from streamling.connectors.clickhouse.sort_key import From


def pages(count: int) -> Iterator[Page]:
    return (Page(From(number), From(number + 1), number) for number in range(count))


def number_of(page: Page) -> int:
    return page.rows


def read_all(feed: PageFeed[int], found: list[int]) -> None:
    while not feed.has_ended:
        fetched = feed.next(1)
        if fetched is not None:
            found.append(fetched.result)


def test_pages_arrive_in_order_however_long_they_take() -> None:
    last = threading.Event()

    def slow(page: Page) -> int:
        if page.rows == 3:
            last.set()
        elif page.rows == 0:
            assert last.wait(10)  # the first page arrives after the fourth
        return page.rows

    feed = PageFeed(pages(20), [slow] * 4, ahead=4)
    found: list[int] = []
    read_all(feed, found)
    feed.close()
    assert found == list(range(20))


def test_no_more_pages_are_read_than_allowed() -> None:
    read: list[int] = []
    feed = PageFeed(pages(100), [lambda page: read.append(page.rows)] * 3, ahead=4)
    while feed.next(0.1) is None:
        pass
    feed.close()
    assert len(read) <= 5


def test_there_is_nothing_to_wait_for_after_the_last_page() -> None:
    feed = PageFeed(pages(0), [number_of], ahead=1)
    assert feed.next(5) is None
    assert feed.has_ended
    feed.close()


def test_an_error_is_raised_when_its_page_is_due() -> None:
    def failing(page: Page) -> int:
        if page.rows == 2:
            raise ValueError("the third")
        return page.rows

    feed = PageFeed(pages(10), [failing] * 2, ahead=5)
    found: list[int] = []
    with pytest.raises(ValueError, match="the third"):
        read_all(feed, found)
    feed.close()
    assert found == [0, 1]


def test_an_error_of_the_plan_follows_the_pages_before_it() -> None:
    def failing() -> Iterator[Page]:
        yield from pages(2)
        raise ValueError("no more")

    feed = PageFeed(failing(), [number_of] * 2, ahead=5)
    found: list[int] = []
    with pytest.raises(ValueError, match="no more"):
        read_all(feed, found)
    feed.close()
    assert found == [0, 1]


def test_a_page_that_has_not_arrived_is_not_waited_for_longer_than_asked() -> None:
    arrived = threading.Event()

    def waiting(page: Page) -> int:
        arrived.wait(30)
        return page.rows

    feed = PageFeed(pages(1), [waiting], ahead=1)
    assert feed.next(0.01) is None
    assert not feed.has_ended
    arrived.set()
    fetched = feed.next(10)
    assert fetched is not None
    assert fetched.result == 0
    feed.close()


def test_closing_waits_for_the_threads() -> None:
    before = threading.active_count()
    feed = PageFeed(pages(1000), [number_of] * 3, ahead=10)
    feed.next(1)
    feed.close()
    assert threading.active_count() == before
