"""Tasks share a few threads, whatever their steps do."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from streamling.tasks import Steps, Task, running_tasks
from tests.harness.clock import SimulatedClock
from tests.harness.pipelines import eventually

#: a generous limit for things that happen at once
SOON = 10


class Counter:
    """A task that counts its steps, and waits after each of them."""

    def __init__(self, seconds: float | None = None, clock: SimulatedClock | None = None, **settings) -> None:
        self.steps = 0
        self.ends = False
        self.threads: set[int] = set()
        self._seconds = seconds
        self.task = Task(self._run, "counter", *([clock] if clock else []), **settings)
        self.task.start()

    def _run(self) -> Steps:
        while not self.ends:
            self.steps += 1
            self.threads.add(threading.get_ident())
            yield self._seconds

    def reaches(self, steps: int) -> bool:
        eventually(lambda: self.steps >= steps)
        return self.steps == steps

    def end(self) -> None:
        self.ends = True
        self.task.wake()
        assert self.task.join(SOON)


def threads() -> int:
    return sum(thread.is_alive() for thread in threading.enumerate())


def test_a_task_waits_until_it_is_woken() -> None:
    counter = Counter()
    assert counter.reaches(1)
    counter.task.wake()
    assert counter.reaches(2)
    assert counter.task.is_alive
    assert counter.task in running_tasks()
    counter.end()
    assert not counter.task.is_alive
    assert counter.task not in running_tasks()


def test_a_task_goes_on_when_its_time_has_come() -> None:
    clock = SimulatedClock()
    counter = Counter(5, clock)
    assert counter.reaches(1)
    clock.advance(4)
    assert not eventually_more(counter, 1)
    clock.advance(1)
    assert counter.reaches(2)
    counter.end()


def test_time_counts_from_the_last_step() -> None:
    clock = SimulatedClock()
    counter = Counter(5, clock)
    assert counter.reaches(1)
    clock.advance(3)
    counter.task.wake()
    assert counter.reaches(2)
    clock.advance(3)
    assert not eventually_more(counter, 2)
    clock.advance(2)
    assert counter.reaches(3)
    counter.end()


def eventually_more(counter: Counter, steps: int) -> bool:
    time.sleep(0.05)
    return counter.steps > steps


def test_who_is_woken_during_a_step_runs_another_one() -> None:
    go, inside, seen = threading.Event(), threading.Event(), []

    def run() -> Steps:
        seen.append(1)
        inside.set()
        assert go.wait(SOON)
        yield None
        seen.append(2)

    task = Task(run, "woken")
    task.start()
    assert inside.wait(SOON)
    for _ in range(3):
        task.wake()
    go.set()
    assert task.join(SOON)
    assert seen == [1, 2]


def test_hundreds_of_waiting_tasks_need_no_threads() -> None:
    before = threads()
    counters = [Counter() for _ in range(500)]
    for counter in counters:
        assert counter.reaches(1)
    assert threads() - before < 50
    for counter in counters:
        counter.end()


def test_steps_that_hang_do_not_hold_up_others() -> None:
    go = threading.Event()

    def hang() -> Steps:
        go.wait(SOON)
        yield None

    hanging = [Task(hang, "hangs") for _ in range(40)]
    for task in hanging:
        task.start()
    counter = Counter()
    assert counter.reaches(1)
    assert not go.is_set()
    go.set()
    counter.end()
    for task in hanging:
        task.wake()
        assert task.join(SOON)


def test_a_task_may_have_a_thread_of_its_own() -> None:
    counter, shared = Counter(own_thread=True), Counter()
    assert shared.reaches(1)
    eventually(lambda: not shared.task.has_thread)
    shared.end()
    for steps in range(1, 20):
        assert counter.reaches(steps)
        assert counter.task.has_thread
        counter.task.wake()
    counter.end()
    assert len(counter.threads) == 1
    assert not counter.task.has_thread


def test_steps_run_in_the_context_of_the_creator_and_inside_its_block() -> None:
    name: ContextVar[str] = ContextVar("name", default="nobody")
    seen: list[object] = []

    @contextmanager
    def block() -> Iterator[None]:
        seen.append("in")
        try:
            yield
        finally:
            seen.append("out")

    def run() -> Steps:
        seen.append(name.get())
        yield 0.0
        seen.append(name.get())

    token = name.set("creator")
    task = Task(run, "context", during=block)
    name.reset(token)
    task.start()
    assert task.join(SOON)
    assert seen == ["in", "creator", "out", "in", "creator", "out"]


def test_a_thread_has_the_name_of_its_task_only_during_a_step() -> None:
    names: list[str] = []

    def run() -> Steps:
        names.append(threading.current_thread().name)
        yield None

    task = Task(run, "named")
    task.start()
    eventually(lambda: names == ["named"])
    eventually(lambda: "named" not in {thread.name for thread in threading.enumerate()})
    task.wake()
    assert task.join(SOON)


def test_the_time_of_the_steps_is_counted() -> None:
    def work() -> Steps:
        until = time.thread_time() + 0.05
        while time.thread_time() < until:
            pass
        yield None

    task = Task(work, "works")
    task.start()
    task.wake()
    assert task.join(SOON)
    assert task.cpu_seconds >= 0.05
