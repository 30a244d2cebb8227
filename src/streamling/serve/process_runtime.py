"""Runs each pipeline in a process of its own, with heap and cores by size: `isolation: process`.

The child (`worker.py`) runs the pipeline with the shared runtime, alone. Commands go to its standard input, reports
return through a pipe, both as one JSON object per line. The end of one process closes both, and the other one ends too.
What the pipeline shows about itself is served by the child on loopback, with a token that only this process knows.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import IO, TYPE_CHECKING, Any

from streamling.errors import StreamlingError
from streamling.observe.rate_history import Counts, RunCounts
from streamling.observe.telemetry.logging import current_pipeline
from streamling.observe.telemetry.metrics import Series
from streamling.observe.terminal.streams import data_output
from streamling.serve.admin.remote import RemoteAdmin
from streamling.serve.launchers import Launchers
from streamling.serve.model import PipelineRecord
from streamling.serve.runtime import Measures, Phase, Preview, Report
from streamling.threads import ContextThread

if TYPE_CHECKING:
    from starlette.types import ASGIApp

log = logging.getLogger(__name__)

#: time beyond the shutdown budget before a process that does not end is killed
_KILL_SECONDS = 5.0


class ProcessRuntime:
    """The `PipelineRuntime` with one process per pipeline."""

    def __init__(self, launchers: Launchers) -> None:
        self._launchers = launchers
        self._handles: set[ProcessHandle] = set()

    def load(
        self, record: PipelineRecord, on_change: Callable[[], None], preview: Preview | None = None
    ) -> ProcessHandle:
        order = {
            "record": record.model_dump_json(),
            "preview": None if preview is None else asdict(preview),
            "server": self._launchers.as_object(),
        }
        handle = ProcessHandle(self._launchers, record, order, on_change, self._handles.discard)
        self._handles.add(handle)
        return handle

    def close(self) -> None:
        self.kill()

    def kill(self) -> None:
        """Kill all processes without waiting."""
        for handle in list(self._handles):
            handle.kill()


class ProcessHandle:
    """One pipeline in a process of its own."""

    def __init__(
        self,
        launchers: Launchers,
        record: PipelineRecord,
        order: dict[str, Any],
        on_change: Callable[[], None],
        on_end: Callable[[ProcessHandle], None],
    ) -> None:
        self._on_change = on_change
        self._on_end = on_end
        self._budget = launchers.config.shutdown_budget_secs
        self._report = Report(Phase.STARTING)
        self._measures = Measures()
        self._counts: RunCounts | None = None
        self._admin: RemoteAdmin | None = None
        self._answers = threading.Condition()
        #: answers of the child, by number of the question; those that come too late are dropped
        self._answered: dict[int, Any] = {}
        self._expected: set[int] = set()
        self._asked = 0
        self._killer: threading.Timer | None = None
        self._process, events = _start()
        self._send(order)
        self._threads = [
            _in_pipeline(record, lambda: self._read_events(events), f"reports of {record.key}"),
            _in_pipeline(record, self._read_log, f"log of {record.key}"),
        ]

    def report(self) -> Report:
        return self._report

    def measure(self) -> Measures:
        return self._measures

    def counts(self) -> RunCounts | None:
        return self._counts

    def routes(self) -> ASGIApp | None:
        from streamling.serve.forwarding import Forwarding

        admin = self._admin
        return None if admin is None or self._report.phase is Phase.ENDED else Forwarding(admin)

    @property
    def admin(self) -> RemoteAdmin | None:
        """Where the process serves the routes; None before it does."""
        return self._admin

    def unload(self) -> None:
        self._send({"unload": True})
        self._killer = threading.Timer(self._budget + _KILL_SECONDS, self.kill)
        self._killer.daemon = True
        self._killer.start()

    def checkpoint(self, timeout: float) -> bool:
        return bool(self._ask("checkpoint", timeout, patience=1.0))

    def metrics(self, timeout: float) -> Sequence[Series] | None:
        found = self._ask("metrics", timeout)
        return None if found is None else [Series.of_object(each) for each in found]

    def _ask(self, command: str, timeout: float, patience: float = 0.0) -> Any:
        """Return the answer of the child, which has ``timeout`` seconds for it; None if there was none ``patience``
        later."""
        with self._answers:
            self._asked += 1
            number = self._asked
            self._expected.add(number)
        self._send({command: number, "timeout": timeout})
        with self._answers:
            self._answers.wait_for(
                lambda: number in self._answered or self._report.phase is Phase.ENDED, timeout + patience
            )
            self._expected.discard(number)
            return self._answered.pop(number, None)

    def kill(self) -> None:
        """Kill the process; its JVM ends with it."""
        with suppress(OSError):
            self._process.kill()

    def discard(self) -> None:
        """End the process of a preview: there is nothing to store."""
        self._report = Report(Phase.ENDED)
        self.kill()

    def _send(self, command: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        with suppress(OSError, ValueError):  # it has ended, which its reader notices
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
            self._process.stdin.flush()

    def _read_events(self, events: IO[bytes]) -> None:
        with events:
            for line in events:
                self._take(json.loads(line))
        code = self._process.wait()
        if self._report.phase is not Phase.ENDED:
            error = StreamlingError(f"the process of the pipeline ended with exit code {code}", retriable=True)
            log.error("%s", error)
            self._report = Report(Phase.ENDED, error=str(error), retriable=True)
        if self._killer is not None:
            self._killer.cancel()
        self._on_end(self)
        self._notify()

    def _take(self, event: dict[str, Any]) -> None:
        if "admin" in event:
            self._admin = RemoteAdmin(**event["admin"])
            self._notify()
            return
        if "answer" in event:
            with self._answers:
                if event["answer"] in self._expected:
                    self._answered[event["answer"]] = event["value"]
                    self._answers.notify_all()
            return
        if self._report.phase is Phase.ENDED:  # discarded in the meantime
            return
        report = event["report"]
        self._measures = Measures(**event["measures"])
        self._counts = _counts(event["counts"]) or self._counts
        report = Report(Phase(report.pop("phase")), **report)
        if report.phase is not Phase.ENDED:
            self._report = report
            self._notify()
        else:
            # not before the process has ended: it still holds its lock on the state
            self._process.wait()
            self._report = report

    def _notify(self) -> None:
        with self._answers:
            self._answers.notify_all()
        self._on_change()

    def _read_log(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            _log(line.decode(errors="replace").rstrip("\n"))


def _start() -> tuple[subprocess.Popen[bytes], IO[bytes]]:
    """Return the child, and where its reports arrive."""
    reading, writing = os.pipe()
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "streamling.serve.worker", str(writing)],
            stdin=subprocess.PIPE,
            stdout=data_output(),
            stderr=subprocess.PIPE,
            pass_fds=[writing],
            start_new_session=True,  # Ctrl-C is for the server, which drains its children
        )
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    return process, os.fdopen(reading, "rb")


def _in_pipeline(record: PipelineRecord, target: Callable[[], None], name: str) -> ContextThread:
    """Return a thread whose log lines belong to the pipeline."""
    thread = ContextThread(target, name)
    thread.context.run(current_pipeline.set, str(record.key))
    thread.start()
    return thread


def _log(line: str) -> None:
    """Log what the child has logged."""
    try:
        record = json.loads(line)
        logger, level, message = record["target"], record["level"], record["message"]
    except (ValueError, KeyError, TypeError):
        logger, level, message = __name__, "WARN", line
    number = logging.getLevelNamesMapping().get(level, logging.INFO)
    logging.getLogger(logger).log(number, "%s", message)


def _counts(data: dict[str, Any] | None) -> RunCounts | None:
    if data is None:
        return None
    return RunCounts(Counts(**data["total"]), {name: Counts(**each) for name, each in data["nodes"].items()})
