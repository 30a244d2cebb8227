"""Rows through an HTTP endpoint, compared with a bare client that sends the same requests."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pyarrow as pa

from benchmarks.figures import Figure, Goal, Unit
from benchmarks.plugins import DropSink
from benchmarks.sizes import Sizes
from benchmarks.workbench import Scenario
from streamling.connectors.http.payload import Payload
from streamling.engine.run.run import PipelineRun
from streamling.engine.state.memory import MemoryState
from streamling.errors import StreamlingError
from streamling.pipeline.config import AppConfig
from streamling.pipeline.model import NodeKind
from streamling.pipeline.options import SourceOptions
from streamling.pipeline.parse import parse_pipeline
from streamling.plugins.registry import Registry
from streamling.plugins.sources import END, End, Position, Source, SourceBatch

_AT_ONCE = 25
#: rows per batch of the source
_BATCH = 1000
_ROWS_PER_REQUEST = 100
_GOAL = Goal(ratio=0.8)


class Handler(Scenario):
    """Both clients run in this process, the server in another one."""

    title = "handler"
    needs_aiohttp = True

    @staticmethod
    def steps(sizes: Sizes, has_pyspark: bool) -> int:
        return 2 * 2 * sizes.rounds

    def figures(self) -> list[Figure]:
        sizes = self._bench.sizes
        with _server() as url:
            return [self._one_row(url, _rows(sizes.requests)), self._many_rows(url, _rows(10 * sizes.requests))]

    def _one_row(self, url: str, rows: list[pa.RecordBatch]) -> Figure:
        from benchmarks.twins import http_client

        bodies = [body.text for batch in rows for body in Payload(0, True, 1, 1 << 20).bodies(batch)]
        return self._figure(
            "one row per request",
            "bare aiohttp",
            len(bodies),
            lambda: _through_handler(url, rows, {"one_row_per_request": True}),
            lambda: http_client.bare(url, bodies, _AT_ONCE),
            goal=_GOAL,
        )

    def _many_rows(self, url: str, rows: list[pa.RecordBatch]) -> Figure:
        from benchmarks.twins import http_client

        return self._figure(
            f"{_ROWS_PER_REQUEST} rows per request",
            "aiohttp + json",
            sum(batch.num_rows for batch in rows) // _ROWS_PER_REQUEST,
            lambda: _through_handler(url, rows, {"batch_size": _ROWS_PER_REQUEST}),
            lambda: http_client.with_json(url, rows, _ROWS_PER_REQUEST, _AT_ONCE),
        )

    def _figure(
        self,
        name: str,
        compared_with: str,
        requests: int,
        ours: Callable[[], float],
        other: Callable[[], float],
        goal: Goal | None = None,
    ) -> Figure:
        found = self._bench.alternate(
            ours=partial(self._measured, f"{name}, ours", requests, ours),
            other=partial(self._measured, f"{name}, {compared_with}", requests, other),
        )
        what = f"{name}, {_AT_ONCE} in flight"
        return Figure(
            self.title, what, Unit.REQUESTS, found["ours"], found["other"], compared_with=compared_with, goal=goal
        )

    def _measured(self, name: str, requests: int, work: Callable[[], float]) -> float:
        """Return requests per second."""
        self._bench.step(f"handler: {name}")
        return requests / work()


def _rows(count: int) -> list[pa.RecordBatch]:
    made = []
    for start in range(0, count, _BATCH):
        ids = range(start, min(count, start + _BATCH))
        made.append(
            pa.record_batch(
                {
                    "id": pa.array(ids, pa.int64()),
                    "name": pa.array([f"customer {id}" for id in ids]),
                    "amount": pa.array([id / 7 for id in ids]),
                    "active": pa.array([id % 3 == 0 for id in ids]),
                    "_gs_op": pa.array(["i"] * len(ids)),
                }
            )
        )
    return made


def _through_handler(url: str, rows: list[pa.RecordBatch], options: dict[str, Any]) -> float:
    """Return the seconds from the start of the pipeline to its last checkpoint."""
    registry = Registry.builtin()
    registry.register(NodeKind.SOURCE, "bench.given", type("Given", (_GivenSource,), {"batches": rows}))
    registry.register(NodeKind.SINK, "bench.drop", DropSink)
    sections = {
        "sources": {"rows": {"type": "bench.given", "primary_key": "id"}},
        "transforms": {"asked": {"type": "handler", "from": "rows", "primary_key": "id", "url": url, **options}},
        "sinks": {"nowhere": {"type": "bench.drop", "from": "asked"}},
    }
    config = AppConfig()
    run = PipelineRun(
        parse_pipeline(json.dumps(sections), registry=registry), config=config, registry=registry, state=MemoryState()
    )
    run.analyse(_NoSpark())  # type: ignore[arg-type]
    began = time.monotonic()
    run.start()
    run.wait()
    return time.monotonic() - began


class _GivenSource(Source[SourceOptions]):
    """Emits rows that are already in memory."""

    Options = SourceOptions
    batches: list[pa.RecordBatch]
    bounded = True

    def schema(self) -> pa.Schema:
        return self.batches[0].schema

    def read(self, position: Position) -> SourceBatch | End:
        at = position.get(self.context.name, 0)
        return SourceBatch(self.batches[at], {self.context.name: at + 1}) if at < len(self.batches) else END


class _NoSpark:
    """Nothing here needs a session."""

    def newSession(self) -> _NoSpark:  # noqa: N802 - Spark's name
        return self

    def __getattr__(self, name: str) -> Any:
        raise StreamlingError("this benchmark runs without Spark")


@contextmanager
def _server() -> Iterator[str]:
    command = [sys.executable, "-m", "benchmarks.http_server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/rows"
        finally:
            process.stdin.close()
