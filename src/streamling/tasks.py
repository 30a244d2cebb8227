"""Tasks: work in steps that holds a thread only while a step runs.

A pipeline consists of a few tasks (flows, lanes, checkpoints), and most of them wait most of the time. What a task does
is a generator: it yields where it waits, and goes on when `Task.wake` is called or its time has come. All tasks of the
process share a few threads, which run them in the order in which they have something to do.
"""

from __future__ import annotations

import contextvars
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Generator
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from streamling.clock import Clock, RealClock

#: What a task does. It yields the seconds until its next step, unless the task is woken before; None: only then.
Steps = Generator[float | None, None, None]

#: Seconds after which a step is not counted any more: it waits for something, and holds up nobody else.
_LATE: Final = 0.05
#: seconds after which a thread without work ends
_IDLE: Final = 10.0
#: name of a thread without work; otherwise it has that of its task
_IDLE_NAME: Final = "task"
_CLOCK: Final = RealClock()


class _End:
    """There are no more steps."""


class Task:
    """Runs the steps of a generator, one after another, in the context of its creator: each log line of a process with
    several pipelines names its pipeline."""

    def __init__(
        self,
        steps: Callable[[], Steps],
        name: str,
        clock: Clock = _CLOCK,
        *,
        during: Callable[[], AbstractContextManager[object]] = nullcontext,
        own_thread: bool = False,
    ) -> None:
        """Each step runs inside ``during()``. With ``own_thread``, all of them run on one thread, for code that keeps
        something for its thread."""
        self.name = name
        self.context = contextvars.copy_context()
        #: CPU time of all steps; the work may add what others have used for it
        self.cpu_seconds = 0.0
        self._make_steps = steps
        self._clock = clock
        self._during = during
        self._own_thread = own_thread
        self._steps: Steps | None = None
        self._changed = threading.Condition(threading.Lock())
        #: whether the next step follows at once
        self._is_woken = False
        #: whether no step runs, and none is about to
        self._is_waiting = False
        #: when the next step is due, and when the timer that has been set for it calls
        self._due: float | None = None
        self._timer_at: float | None = None
        self._cancel_timer: Callable[[], None] = lambda: None
        #: the thread that runs a step
        self._thread: int | None = None
        self._has_ended = False

    def start(self) -> None:
        self._steps = self._make_steps()
        _running.add(self)
        if self._own_thread:
            threading.Thread(target=self._run_alone, name=self.name, daemon=True).start()
        else:
            _WORKERS.submit(self._run)

    def wake(self) -> None:
        """Run the next step now, or another one after the current one. May be called on any thread, also before the
        start; does not block."""
        with self._changed:
            self._is_woken = True
            if self._own_thread:
                self._changed.notify_all()
            elif self._is_waiting:
                self._resume()

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the end; True if it has ended, or was not started."""
        with self._changed:
            return self._changed.wait_for(lambda: not self.is_alive, timeout)

    @property
    def is_alive(self) -> bool:
        """Whether it has been started and has not ended."""
        return self._steps is not None and not self._has_ended

    @property
    def is_current(self) -> bool:
        """Whether this thread runs a step of it."""
        return self._thread == threading.get_ident()

    @property
    def has_thread(self) -> bool:
        """Whether a thread runs a step of it, or is kept for the next one."""
        return self._thread is not None or (self._own_thread and self.is_alive)

    # ── on a thread ──────────────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        """Run steps until the task waits."""
        threading.current_thread().name = self.name
        while self._step():
            with self._changed:
                if not self._is_woken:
                    self._is_waiting = True
                    self._set_timer()
                    return
                self._is_woken = False
            if _WORKERS.is_crowded:
                _WORKERS.submit(self._run)
                return

    def _run_alone(self) -> None:
        while self._step():
            with self._changed:
                seconds = None if self._due is None else max(0.0, self._due - self._clock.now())
                self._clock.wait_for(self._changed, lambda: self._is_woken, seconds)
                self._is_woken = False

    def _step(self) -> bool:
        """Run a step; False if it was the last one."""
        self._thread = threading.get_ident()
        began = time.thread_time()
        try:
            seconds = self.context.run(self._next)
            if not isinstance(seconds, _End):
                self._due = None if seconds is None else self._clock.now() + seconds
                return True
        except BaseException:  # a defect: the work handles its errors itself
            threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))
        finally:
            self.cpu_seconds += time.thread_time() - began
            self._thread = None
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()
        _running.discard(self)
        return False

    def _next(self) -> float | _End | None:
        assert self._steps is not None
        with self._during():
            return next(self._steps, _End())

    # ── while it waits ───────────────────────────────────────────────────────────────────────────────────────

    def _resume(self) -> None:
        self._is_waiting = self._is_woken = False
        _WORKERS.submit(self._run)

    def _set_timer(self) -> None:
        """Set a timer, unless there is one that calls before. It is not cancelled when the task is woken: one that is
        woken often would leave many behind."""
        if self._due is None or (self._timer_at is not None and self._timer_at <= self._due):
            return
        self._cancel_timer()
        self._timer_at = self._due
        self._cancel_timer = self._clock.call_later(max(0.0, self._due - self._clock.now()), self._on_timer)

    def _on_timer(self) -> None:
        with self._changed:
            self._timer_at = None
            if self._is_waiting and self._due is not None:
                if self._clock.now() >= self._due:
                    self._resume()
                else:
                    self._set_timer()


_running: set[Task] = set()


def running_tasks() -> Collection[Task]:
    """Return the tasks that have been started and have not ended."""
    return list(_running)


def wait_elsewhere() -> None:
    """Do not count the step that this thread runs: it waits for another task."""
    _WORKERS.wait_elsewhere()


class _Workers:
    """Threads that run steps. The one that has just become idle gets the next step: the others end after some time."""

    def __init__(self, most: int) -> None:
        """At most ``most`` threads work, besides those that are late."""
        self._most = most
        self._lock = threading.Lock()
        self._ready: deque[Callable[[], None]] = deque()
        #: the threads that work → since when
        self._working: dict[int, float] = {}
        self._idle: list[_IdleThread] = []
        #: whether `_check` is going to be called
        self._checks = False

    @property
    def is_crowded(self) -> bool:
        """Whether work waits for a thread."""
        return bool(self._ready)

    def submit(self, work: Callable[[], None]) -> None:
        with self._lock:
            self._ready.append(work)
            self._distribute()

    def wait_elsewhere(self) -> None:
        with self._lock:
            if threading.get_ident() in self._working:
                self._working[threading.get_ident()] = float("-inf")
                self._distribute()

    def _distribute(self) -> None:
        """Let threads work if fewer than `most` work in time; otherwise, look again later."""
        now = time.monotonic()
        free = self._most - sum(now - since < _LATE for since in self._working.values())
        while self._ready and free > 0:
            free -= 1
            if self._idle:
                idle = self._idle.pop()
                self._working[idle.ident] = now
                idle.give(self._ready.popleft())
            else:
                thread = threading.Thread(target=self._work, args=(self._ready[0],), name=_IDLE_NAME, daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the system has no thread left: `_check` tries again
                    break
                self._ready.popleft()
                self._working[thread.ident or 0] = now
        if self._ready and not self._checks:
            self._checks = True
            _CLOCK.call_later(_LATE, self._check)

    def _check(self) -> None:
        with self._lock:
            self._checks = False
            self._distribute()

    def _work(self, first: Callable[[], None]) -> None:
        work: Callable[[], None] | None = first
        while work is not None:
            work()
            threading.current_thread().name = _IDLE_NAME
            work = self._next()

    def _next(self) -> Callable[[], None] | None:
        """Wait for work; None if this thread is not needed."""
        idle = _IdleThread()
        with self._lock:
            if self._ready:
                self._working[idle.ident] = time.monotonic()
                return self._ready.popleft()
            del self._working[idle.ident]
            self._idle.append(idle)
        if (work := idle.wait(_IDLE)) is None:
            with self._lock:
                if idle in self._idle:
                    self._idle.remove(idle)
                    return None
            work = idle.wait(_IDLE)  # it has been given some at the last moment
        return work


class _IdleThread:
    """The current thread, and the work that it gets."""

    def __init__(self) -> None:
        self.ident = threading.get_ident()
        self._work: Callable[[], None] | None = None
        self._given = threading.Lock()
        self._given.acquire()

    def give(self, work: Callable[[], None]) -> None:
        self._work = work
        self._given.release()

    def wait(self, seconds: float) -> Callable[[], None] | None:
        """Return the work; None if there is none in this time."""
        return self._work if self._given.acquire(timeout=seconds) else None


_WORKERS: Final = _Workers(max(4, 2 * (os.cpu_count() or 1)))
