"""A pipeline that a program has started."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Literal

import pyarrow as pa

from streamling.api.managed import Managed
from streamling.connectors.memory import MemorySinkOptions, collected_rows
from streamling.engine.run.run import PipelineRun
from streamling.engine.run.status import RunStatus
from streamling.errors import StreamlingError
from streamling.pipeline.document.suggest import listing

_POLL_SECONDS = 0.02


class Run(Managed):
    """A running pipeline, created by `Runtime.start`. Methods may be called from any thread.

    As a context manager, it stops the pipeline at the end of the block.
    """

    def __init__(self, run: PipelineRun, name: str, resources: ExitStack) -> None:
        """``resources`` are closed at its end."""
        self._run = run
        self._resources = resources
        self._ended = threading.Event()
        self._failure: StreamlingError | None = None
        self._was_reported = False
        #: the application id of the pipeline
        self.name = name
        threading.Thread(target=self._finish, name=f"run {name}", daemon=True).start()

    @property
    def state(self) -> Literal["running", "finished", "failed"]:
        """``finished`` also after `stop`."""
        if not self._ended.is_set():
            return "running"
        return "finished" if self._failure is None else "failed"

    @property
    def failure(self) -> StreamlingError | None:
        """Why the pipeline failed; None if it has not."""
        return self._failure

    @property
    def status(self) -> RunStatus:
        """Numbers since the start: rows read and written, dead letters, lag, progress."""
        return self._run.status()

    @property
    def rows(self) -> Mapping[str, int]:
        """Rows written so far, by sink; sinks without rows are missing."""
        return self._run.rows_written()

    def table(self, sink: str) -> pa.Table:
        """Return the rows that the memory sink ``sink`` has received so far."""
        memory = [node.name for node in self._run.pipeline.sinks if isinstance(node.options, MemorySinkOptions)]
        if sink not in memory:
            found = f"memory sinks: {listing(memory)}" if memory else "the pipeline has no memory sink"
            raise StreamlingError.user(
                f"'{sink}' is not a memory sink; {found}", remedy=f"pass capture=['{sink}'] to Runtime.start"
            )
        return collected_rows(self._run, sink)

    def wait_for_rows(self, sink: str, count: int, timeout: float = 30.0) -> pa.Table:
        """Wait until the memory sink ``sink`` has at least ``count`` rows, and return them all. Raises the failure of
        the pipeline, or TimeoutError if it ends or ``timeout`` seconds pass before."""
        deadline = time.monotonic() + timeout
        while (table := self.table(sink)).num_rows < count:
            if self._ended.wait(_POLL_SECONDS) or time.monotonic() > deadline:
                self._raise_failure()
                table = self.table(sink)  # the last rows may have been written just before the end
                if table.num_rows >= count:
                    break
                raise TimeoutError(f"'{sink}' of {self.name} has {table.num_rows} rows, expected {count}")
        return table

    def checkpoint(self, timeout: float = 30.0) -> None:
        """Make everything delivered so far durable and store the positions."""
        if not self._run.checkpoint(timeout):
            self._raise_failure()
            raise TimeoutError(f"no checkpoint of {self.name} was completed within {timeout:g} s")

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the pipeline has ended: its sources have ended, or it was stopped. Raises its failure, or
        TimeoutError if it still runs after ``timeout`` seconds."""
        if not self._ended.wait(timeout):
            raise TimeoutError(f"{self.name} is still running after {timeout:g} s")
        self._raise_failure()

    def stop(self) -> None:
        """Finish the work in progress, store the positions and wait for the end. Raises the failure of the pipeline."""
        self._run.stop("stopped by the program")
        self.wait()

    @property
    def has_unreported_failure(self) -> bool:
        """Whether the pipeline has failed and no call has raised the failure."""
        return self._failure is not None and not self._was_reported

    def _end(self) -> None:
        self.stop()

    def __repr__(self) -> str:
        rows = ", ".join(f"{sink}: {count:,}" for sink, count in self.rows.items())
        return f"<Run {self.name}: {self.state}{f', rows: {rows}' if rows else ''}>"

    def _raise_failure(self) -> None:
        if self._failure is not None:
            self._was_reported = True
            raise self._failure

    def _finish(self) -> None:
        try:
            with self._resources:
                self._run.wait()
        except BaseException as error:
            self._failure = StreamlingError.wrap(error, "")
        finally:
            self._ended.set()
