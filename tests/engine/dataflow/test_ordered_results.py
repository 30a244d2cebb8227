"""Results that depend on calls come out in the order of their batches."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from tests.harness.pipelines import eventually

from streamling.engine.dataflow.ordered_results import OrderedResults
from streamling.plugins.transforms import AsyncCalls


def rows(*ids: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(ids, pa.int64())})


def later(id: int, seconds: float) -> int:
    time.sleep(seconds)
    return id


def ids(results: Any) -> list[list[int]]:
    return [batch.column("id").to_pylist() for batch in results]


class Asking:
    """A transform that makes one call per row; a test answers them."""

    def __init__(self, at_once: int = 10) -> None:
        self.calls: dict[int, Future[int]] = {}
        self._at_once = at_once

    def __call__(self, batch: pa.RecordBatch) -> AsyncCalls[int]:
        return AsyncCalls(self._start(batch), lambda answers: rows(*answers), self._at_once)

    def _start(self, batch: pa.RecordBatch):
        for id in batch.column("id").to_pylist():
            yield partial(self._started, id)

    def _started(self, id: int) -> Future[int]:
        self.calls[id] = Future()
        return self.calls[id]

    def answer(self, *numbers: int) -> None:
        for id in numbers:
            self.calls[id].set_result(id)


def test_a_result_that_is_there_is_passed_on_at_once():
    results = OrderedResults(lambda batch: batch)
    assert ids(results.add(rows(1, 2))) == [[1, 2]]
    assert ids(results.drain()) == []


def test_responses_wait_for_those_before_them():
    asking = Asking()
    results = OrderedResults(asking)
    assert ids(results.add(rows(1, 2))) == []
    assert ids(results.add(rows(3))) == []
    asking.answer(3, 2)
    assert ids(results.ready()) == []
    asking.answer(1)
    assert ids(results.ready()) == [[1, 2], [3]]


def test_those_who_wait_are_woken_when_the_first_batch_is_complete_or_a_call_fails():
    asking, woken = Asking(), []
    results = OrderedResults(asking, lambda: woken.append(True))
    list(results.add(rows(1, 2)))
    list(results.add(rows(3)))
    asking.answer(3, 1)
    assert not woken
    asking.answer(2)
    assert len(woken) == 1
    list(results.add(rows(4)))
    asking.calls[4].set_exception(OSError("no"))
    assert len(woken) == 2


def test_a_call_that_failed_is_raised_even_behind_one_that_waits():
    asking = Asking()
    results = OrderedResults(asking)
    list(results.add(rows(1)))
    list(results.add(rows(2)))
    asking.calls[2].set_exception(OSError("broken"))
    with pytest.raises(OSError, match="broken"):
        list(results.drain())


def test_no_more_calls_are_started_than_allowed():
    asking = Asking(at_once=2)
    results = OrderedResults(asking)
    out: list[list[int]] = []
    thread = threading.Thread(target=lambda: out.extend(ids(results.add(rows(1, 2, 3, 4)))), daemon=True)
    thread.start()
    for done, started in [(1, {1, 2, 3}), (2, {1, 2, 3, 4})]:
        eventually(lambda done=done: len(asking.calls) >= done + 1)
        assert len(asking.calls) <= done + 1
        asking.answer(done)
        eventually(lambda started=started: set(asking.calls) == started)
    asking.answer(3, 4)
    thread.join(10)
    assert [*out, *ids(results.drain())] == [[1, 2, 3, 4]]


def test_batches_after_a_slow_response_do_not_pile_up():
    asking = Asking(at_once=3)
    results = OrderedResults(asking)
    for id in (1, 2, 3):
        list(results.add(rows(id)))
    asking.answer(2, 3)
    thread = threading.Thread(target=lambda: list(results.add(rows(4))), daemon=True)
    thread.start()
    thread.join(0.2)
    assert 4 not in asking.calls
    asking.answer(1)
    eventually(lambda: 4 in asking.calls)
    thread.join(10)


@pytest.mark.parametrize("seed", range(20))
def test_every_row_comes_out_once_and_in_order(seed):
    """Answers come from several threads in any order; batches with and without calls, also without rows."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    at_once = chance.randint(1, 8)
    with ThreadPoolExecutor(4) as pool:

        def process(batch: pa.RecordBatch) -> pa.RecordBatch | AsyncCalls[int]:
            numbers = batch.column("id").to_pylist()
            if chance.random() < 0.2:
                return batch
            starts = (partial(pool.submit, later, id, chance.random() / 500) for id in numbers)
            return AsyncCalls(starts, lambda answers: rows(*answers), at_once)

        results, seen, next_id = OrderedResults(process), [], 0
        for _ in range(40):
            count = chance.randint(0, 6)
            seen += ids(results.add(rows(*range(next_id, next_id + count))))
            next_id += count
            if chance.random() < 0.1:
                seen += ids(results.drain())
                assert sum(map(len, seen)) == next_id
        seen += ids(results.drain())
    assert [id for batch in seen for id in batch] == list(range(next_id))
