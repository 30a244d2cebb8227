from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from tests.harness.clock import SimulatedClock
from tests.harness.pipelines import eventually

from streamling.engine.checkpoint.checkpointer import Checkpointer
from streamling.engine.state.memory import MemoryState
from streamling.errors import StreamlingError

#: a generous limit for things that happen at once; no test waits that long unless it fails
SOON = 10


class Flow:
    """Remembers what it was asked for."""

    def __init__(self) -> None:
        self.requests: queue.Queue[int] = queue.Queue()

    def request_marker(self, epoch: int) -> None:
        self.requests.put(epoch)

    def next_request(self) -> int:
        return self.requests.get(timeout=SOON)


class FragileState(MemoryState):
    """Fails the given number of times, then works."""

    def __init__(self, *failures: Exception) -> None:
        super().__init__()
        self.failures = list(failures)
        self.writes: list[dict[str, Any]] = []

    def put_many(self, entries: Mapping[str, Any]) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.writes.append(dict(entries))
        super().put_many(entries)


class Pipeline:
    """A checkpointer with two flows and two sinks, and what it reported."""

    def __init__(self, state: MemoryState | None = None, **options: Any) -> None:
        self.clock = SimulatedClock()
        self.flows = {"a": Flow(), "b": Flow()}
        self.state = state or MemoryState()
        self.finalized: queue.Queue[tuple[int, Mapping[str, Any]]] = queue.Queue()
        self.failures: queue.Queue[StreamlingError] = queue.Queue()
        callbacks = {
            "on_finalized": lambda epoch, positions: self.finalized.put((epoch, positions)),
            "on_failure": self.failures.put,
        }
        self.checkpointer = Checkpointer(
            flows=self.flows,
            sinks=["s", "t"],
            state=self.state,
            interval=5,
            timeout=300,
            clock=self.clock,
            **{**callbacks, **options},
        )

    def begin(self) -> int:
        """Let the interval pass; the epoch that both flows were asked for."""
        self.clock.advance(5)
        epochs = {flow.next_request() for flow in self.flows.values()}
        assert len(epochs) == 1
        return epochs.pop()

    def answer(self, epoch: int, a: int, b: int) -> None:
        self.checkpointer.marked("a", epoch, {"a": a})
        self.checkpointer.marked("b", epoch, {"b": b})
        self.checkpointer.acked("s", epoch)
        self.checkpointer.acked("t", epoch)


@contextmanager
def running(*args: Any, **options: Any) -> Iterator[Pipeline]:
    pipeline = Pipeline(*args, **options)
    pipeline.checkpointer.start()
    yield pipeline
    pipeline.checkpointer.stop()


def test_an_epoch_is_stored_and_then_announced() -> None:
    with running() as pipeline:
        pipeline.answer(pipeline.begin(), a=1, b=2)

        assert pipeline.finalized.get(timeout=SOON) == (1, {"a": {"a": 1}, "b": {"b": 2}})
        assert pipeline.state.items() == {"a": 1, "b": 2}


def test_positions_of_all_flows_are_stored_in_one_write() -> None:
    with running(state := FragileState()) as pipeline:
        pipeline.answer(pipeline.begin(), a=1, b=2)
        pipeline.finalized.get(timeout=SOON)

    assert state.writes == [{"a": 1, "b": 2}]


def test_a_position_changed_after_it_was_handed_over_is_stored_as_it_was() -> None:
    with running() as pipeline:
        epoch = pipeline.begin()
        position = {"a": {"files": ["1.csv"]}}
        pipeline.checkpointer.marked("a", epoch, position)
        position["a"]["files"].append("2.csv")
        pipeline.checkpointer.marked("b", epoch, {"b": 1})
        for sink in "st":
            pipeline.checkpointer.acked(sink, epoch)
        pipeline.finalized.get(timeout=SOON)

        assert pipeline.state.get("a") == {"files": ["1.csv"]}


def test_epochs_follow_each_other() -> None:
    with running() as pipeline:
        for number in (1, 2, 3):
            epoch = pipeline.begin()
            pipeline.answer(epoch, a=number, b=number)
            assert pipeline.finalized.get(timeout=SOON)[0] == epoch == number


def test_the_checkpoint_retries_while_the_state_backend_is_unavailable() -> None:
    failure = StreamlingError.transient("unavailable")
    with running(state := FragileState(failure, failure, failure)) as pipeline:
        pipeline.answer(pipeline.begin(), a=1, b=2)
        while pipeline.finalized.empty():
            assert pipeline.failures.empty()
            pipeline.clock.advance(0.05)
            time.sleep(0.005)  # the other thread keeps up: no wait may be longer than a checkpoint's timeout

    assert state.writes == [{"a": 1, "b": 2}]


def test_a_permanent_failure_of_the_state_backend_ends_the_pipeline() -> None:
    with running(FragileState(StreamlingError("disk full"))) as pipeline:
        pipeline.answer(pipeline.begin(), a=1, b=2)

        assert (
            str(pipeline.failures.get(timeout=SOON)) == "checkpoint 1: storing the positions: state backend: disk full"
        )
        assert not pipeline.checkpointer.terminal(timeout=0)
    assert pipeline.finalized.empty()
    assert pipeline.state.items() == {}


def test_an_unexpected_error_of_the_state_backend_ends_the_pipeline() -> None:
    with running(FragileState(ZeroDivisionError("oops"))) as pipeline:
        pipeline.answer(pipeline.begin(), a=1, b=2)

        assert "state backend" in str(pipeline.failures.get(timeout=SOON))


def test_a_failing_finalizer_ends_the_pipeline() -> None:
    def refuse(epoch: int, positions: object) -> None:
        raise StreamlingError("the broker refused the commit")

    with running(on_finalized=refuse) as pipeline:
        pipeline.answer(pipeline.begin(), a=1, b=2)

        assert "the broker refused the commit" in str(pipeline.failures.get(timeout=SOON))
        assert not pipeline.checkpointer.terminal(timeout=0)


def test_a_stuck_epoch_is_reported_once_and_commits_nothing() -> None:
    with running() as pipeline:
        epoch = pipeline.begin()
        pipeline.checkpointer.acked("s", epoch)
        pipeline.clock.advance(300)

        assert "sink 't'" in str(pipeline.failures.get(timeout=SOON))
        pipeline.answer(epoch, a=1, b=2)
    assert pipeline.failures.empty()
    assert pipeline.state.items() == {}


def test_waiting_is_logged_with_the_missing_sinks() -> None:
    with logged_warnings() as messages, running() as pipeline:
        pipeline.begin()
        pipeline.clock.advance(10)

        assert "sinks 's', 't'" in messages.get(timeout=SOON)


@contextmanager
def logged_warnings() -> Iterator[queue.Queue[str]]:
    """Messages as they are logged; unlike ``caplog``, a test can wait for one."""
    messages: queue.Queue[str] = queue.Queue()
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: messages.put(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("streamling.engine.checkpoint")
    logger.addHandler(handler)
    yield messages
    logger.removeHandler(handler)


def terminal(pipeline: Pipeline, timeout: float) -> Callable[[], bool]:
    """Start the terminal checkpoint on another thread; its result when it is there."""
    return ThreadPoolExecutor(1).submit(pipeline.checkpointer.terminal, timeout).result


def test_the_terminal_epoch_is_waited_for() -> None:
    with running() as pipeline:
        result = terminal(pipeline, timeout=12)
        epochs = {flow.next_request() for flow in pipeline.flows.values()}
        pipeline.answer(epochs.pop(), a=7, b=8)

        assert result()
        assert pipeline.state.items() == {"a": 7, "b": 8}
        assert pipeline.finalized.get(timeout=SOON)[0] == 1


def test_a_terminal_epoch_not_in_time_is_never_committed() -> None:
    with running() as pipeline:
        result = terminal(pipeline, timeout=9)
        epoch = pipeline.flows["b"].next_request()
        pipeline.checkpointer.acked("s", epoch)
        pipeline.clock.advance(9)

        assert not result()
        assert "sink 't'" in (pipeline.checkpointer.missing() or "")
        pipeline.answer(epoch, a=7, b=8)
    assert pipeline.state.items() == {}
    assert pipeline.finalized.empty()


def test_the_terminal_epoch_replaces_the_one_in_flight() -> None:
    with running() as pipeline:
        first = pipeline.begin()
        result = terminal(pipeline, timeout=12)
        last = {flow.next_request() for flow in pipeline.flows.values()}.pop()
        pipeline.answer(first, a=1, b=1)
        pipeline.answer(last, a=2, b=2)

        assert result()
        assert pipeline.finalized.get(timeout=SOON) == (last, {"a": {"a": 2}, "b": {"b": 2}})
        assert pipeline.finalized.empty()


def test_several_callers_share_one_terminal_epoch() -> None:
    with running() as pipeline:
        results = [terminal(pipeline, timeout=12), terminal(pipeline, timeout=12)]
        pipeline.answer({flow.next_request() for flow in pipeline.flows.values()}.pop(), a=1, b=1)

        assert all(result() for result in results)
        assert pipeline.flows["a"].requests.empty()


def test_nothing_happens_after_stop() -> None:
    with running() as pipeline:
        epoch = pipeline.begin()
        pipeline.checkpointer.stop()
        pipeline.answer(epoch, a=1, b=2)
        pipeline.clock.advance(100)

        assert not pipeline.checkpointer.terminal(timeout=0)
    assert pipeline.state.items() == {}
    assert pipeline.failures.empty()


def test_a_pipeline_may_stop_its_checkpoints_from_within_the_failure_report() -> None:
    stopped = threading.Event()

    def give_up(error: StreamlingError) -> None:
        pipeline.checkpointer.stop()
        stopped.set()

    with running(FragileState(StreamlingError("disk full")), on_failure=give_up) as pipeline:
        pipeline.answer(pipeline.begin(), a=1, b=2)

        assert stopped.wait(SOON)


def test_a_checkpointer_that_never_started_stops_and_has_no_terminal_epoch() -> None:
    pipeline = Pipeline()

    assert not pipeline.checkpointer.terminal(timeout=0)
    pipeline.checkpointer.stop()


def test_a_checkpoint_can_be_had_at_once() -> None:
    with running() as pipeline, ThreadPoolExecutor() as threads:
        waiting = threads.submit(pipeline.checkpointer.checkpoint, SOON)
        epochs = {flow.next_request() for flow in pipeline.flows.values()}
        pipeline.answer(epochs.pop(), a=1, b=2)

        assert waiting.result(SOON)
        assert pipeline.state.items() == {"a": 1, "b": 2}


def test_a_checkpoint_that_began_before_the_wish_does_not_count() -> None:
    with running() as pipeline, ThreadPoolExecutor() as threads:
        before = pipeline.begin()
        waiting = threads.submit(pipeline.checkpointer.checkpoint, SOON)
        eventually(lambda: pipeline.clock.waiting_threads == 1, explain="the request has been sent")
        assert not waiting.done()
        pipeline.answer(before, a=1, b=1)
        after = {flow.next_request() for flow in pipeline.flows.values()}.pop()
        assert not waiting.done()
        pipeline.answer(after, a=2, b=2)

        assert waiting.result(SOON)
        assert pipeline.state.items() == {"a": 2, "b": 2}


def test_who_waits_for_a_checkpoint_hears_of_the_end() -> None:
    with running() as pipeline, ThreadPoolExecutor() as threads:
        waiting = threads.submit(pipeline.checkpointer.checkpoint, SOON)
        for flow in pipeline.flows.values():
            flow.next_request()
        pipeline.checkpointer.stop()

        assert not waiting.result(SOON)
