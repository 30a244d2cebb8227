"""Log records by pipeline."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from streamling.observe.telemetry.log_book import CAPACITY, LogBook
from streamling.observe.telemetry.logging import current_pipeline
from streamling.redaction import MASK, add_secrets
from streamling.threads import ContextThread

log = logging.getLogger("streamling.node.orders")


@pytest.fixture
def book() -> Iterator[LogBook]:
    logger, handler = logging.getLogger("streamling"), LogBook()
    before = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(before)


def log_as(pipeline: str, message: str) -> None:
    token = current_pipeline.set(pipeline)
    try:
        log.warning(message)
    finally:
        current_pipeline.reset(token)


def test_records_belong_to_the_pipeline_of_their_thread(book):
    log_as("default/a", "one")
    log_as("default/b", "two")
    log.warning("of no pipeline")
    (record,) = book.tail("default/a", 10)
    assert (record.level, record.node, record.message) == ("WARN", "orders", "one")


def test_threads_belong_to_the_pipeline_that_started_them(book):
    token = current_pipeline.set("default/a")
    thread = ContextThread(lambda: log.warning("from a thread"), "test")
    current_pipeline.reset(token)
    thread.start()
    thread.join()
    assert [record.message for record in book.tail("default/a", 10)] == ["from a thread"]


def test_secrets_are_masked_and_control_characters_escaped(book):
    add_secrets(["log-test-4711"])
    log_as("default/a", "password log-test-4711 \x1b[31m")
    assert book.tail("default/a", 1)[0].message == f"password {MASK} \\x1b[31m"


def test_only_the_last_records_are_kept(book):
    for number in range(CAPACITY + 10):
        log_as("default/a", str(number))
    assert len(book.tail("default/a", CAPACITY * 2)) == CAPACITY
    assert [record.message for record in book.tail("default/a", 2)] == [str(CAPACITY + 8), str(CAPACITY + 9)]
    assert [record.number for record in book.after("default/a", CAPACITY + 9)] == [CAPACITY + 10]
    assert book.tail("default/a", 0) == []


def test_records_of_deleted_pipelines_are_dropped_after_many_deletions(book):
    log_as("default/a", "last words")
    book.retire("default/a")
    assert book.tail("default/a", 1)
    for number in range(100):
        book.retire(f"default/{number}")
    assert book.tail("default/a", 1) == []
