"""The process of one pipeline, started by `process_runtime.py`: ``python -m streamling.serve.worker FD``.

Standard input: first a line with the pipeline, then commands. The file descriptor: reports. Standard error: the log as
JSON. Standard output: rows of print sinks.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import threading
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from typing import IO, TYPE_CHECKING, Any

from streamling.engine.launch.spark import start_spark
from streamling.observe.telemetry.logging import configure_logging
from streamling.observe.terminal.streams import safe_streams, stdout_for_data
from streamling.pipeline.config import AppConfig
from streamling.serve.fleet_metrics import MOST_PER_PIPELINE
from streamling.serve.launchers import Launchers
from streamling.serve.model import PipelineRecord
from streamling.serve.runtime import Phase, PipelineHandle, Preview
from streamling.serve.shared_runtime import SharedRuntime
from streamling.serve.sizes import SIZES, SizeLimits
from streamling.serve.warm_spark import WarmSpark, start_shared_spark

if TYPE_CHECKING:
    from starlette.types import ASGIApp

#: seconds between two reports of a pipeline that runs
_REPORT_SECONDS = 1.0
#: more are neither sent nor counted as left out
_MOST_SERIES = 10 * MOST_PER_PIPELINE


class Worker:
    """Runs one pipeline as the server commands."""

    def __init__(self, commands: IO[bytes], reports: IO[bytes]) -> None:
        self._commands = commands
        self._reports = reports
        self._writing = threading.Lock()
        self._changed = threading.Event()
        order = json.loads(commands.readline())
        record = PipelineRecord.model_validate_json(order["record"])
        launchers = Launchers.of_object(order["server"])
        preview = None if order["preview"] is None else Preview(**order["preview"])
        self._is_preview = preview is not None
        config = launchers.config
        configure_logging("json", config.log_level)
        if preview is not None and record.is_trusted:  # of a pipeline file: with Spark as `streamling run` has it
            start = partial(start_spark, config, frozenset(preview.spark_packages))
        else:
            start = partial(start_shared_spark, _sized(config, SIZES[record.size]), debug=False)
        if self._is_preview:
            os.nice(5)  # before the JVM starts: pipelines come first
        self._spark = WarmSpark(start, stays_up=False)
        self._runtime = SharedRuntime(launchers, self._spark)
        self._handle: PipelineHandle = self._runtime.load(record, self._changed.set, preview)

    def run(self) -> None:
        """Report until the pipeline has ended."""
        threading.Thread(target=self._read_commands, name="commands", daemon=True).start()
        last, routes = None, None
        while True:
            self._changed.clear()
            if routes is None and (routes := self._handle.routes()) is not None:
                threading.Thread(target=self._serve, args=(routes,), name="admin api", daemon=True).start()
            report = replace(self._handle.report(), jvm_death=None)  # no other pipeline has lost it
            if report.phase is Phase.ENDED and self._is_preview and routes is not None:
                threading.Event().wait()  # its rows and its error are still to be read; the server kills this process
            counts = self._handle.counts()
            event = {
                "report": asdict(report),
                "measures": asdict(self._handle.measure()),
                "counts": None if counts is None else asdict(counts),
            }
            if report.phase is Phase.ENDED:
                self._runtime.close()
            if event != last:
                self._write(event)
                last = event
            if report.phase is Phase.ENDED:
                return
            self._changed.wait(_REPORT_SECONDS)

    def _serve(self, routes: ASGIApp) -> None:
        """Serve what the pipeline shows about itself, to the server only."""
        from streamling.serve.admin.guard import guarded_by_token
        from streamling.serve.admin.server import bound, create_server

        token = secrets.token_urlsafe(32)
        with bound("127.0.0.1", 0) as listening:
            self._write({"admin": {"port": listening.getsockname()[1], "token": token}})
            create_server(guarded_by_token(routes, token)).run(sockets=[listening])

    def _read_commands(self) -> None:
        for line in self._commands:
            command = json.loads(line)
            if "unload" in command:
                self._handle.unload()
            elif "checkpoint" in command:
                threading.Thread(target=self._checkpoint, args=(command,), daemon=True).start()
            elif "metrics" in command:
                threading.Thread(target=self._metrics, args=(command,), daemon=True).start()
        # The server has ended without draining us, and another one may already wait for our state.
        self._spark.kill()
        os._exit(1)

    def _checkpoint(self, command: dict[str, Any]) -> None:
        complete = self._handle.checkpoint(command["timeout"])
        self._write({"answer": command["checkpoint"], "value": complete})

    def _metrics(self, command: dict[str, Any]) -> None:
        series = self._handle.metrics(command["timeout"]) or ()
        self._write({"answer": command["metrics"], "value": [asdict(each) for each in series[:_MOST_SERIES]]})

    def _write(self, event: dict[str, Any]) -> None:
        with self._writing, suppress(OSError):
            self._reports.write(json.dumps(event).encode() + b"\n")
            self._reports.flush()


def _sized(config: AppConfig, limits: SizeLimits) -> AppConfig:
    """Return ``config`` with the heap and the cores of a size."""
    conf = {**config.spark.conf, "spark.driver.memory": limits.heap}
    spark = config.spark.model_copy(update={"master": f"local[{limits.cores}]", "conf": conf})
    return config.model_copy(update={"spark": spark})


def main() -> None:
    with safe_streams(), stdout_for_data(), os.fdopen(int(sys.argv[1]), "wb") as reports:
        Worker(sys.stdin.buffer, reports).run()
        reports.flush()
        # The thread that reads commands holds the lock of standard input, for which Python's own exit would abort.
        os._exit(0)


if __name__ == "__main__":
    main()
