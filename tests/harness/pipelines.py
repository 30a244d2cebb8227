"""Operators and a runner for engine tests: real protocols, rows that can be counted, faults where a test wants them."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from streamling.dev.contracts.harness import NoSpark
from streamling.engine.run.run import PipelineRun
from streamling.engine.state.memory import MemoryState
from streamling.pipeline.config import AppConfig
from streamling.pipeline.model import NodeKind, Pipeline
from streamling.pipeline.options import (
    BatchOptions,
    ParallelOptions,
    SinkOptions,
    SourceOptions,
    TransformOptions,
    UpstreamOptions,
)
from streamling.pipeline.parse import parse_pipeline
from streamling.plugins.registry import Registry
from streamling.plugins.sinks import Sink
from streamling.plugins.sources import END, Source, SourceBatch, SparkRead, Wait
from streamling.plugins.state_backend import StateBackend
from streamling.plugins.streams import Stream, StreamBatch, StreamedSource
from streamling.plugins.transforms import Transform


class NumbersOptions(SourceOptions):
    rows: int = 100
    batch: int = 10
    first: int = 0
    ends: bool = True
    pause: float = 0.0


class NumbersSource(Source[NumbersOptions]):
    """Counts upwards from where it left off."""

    Options = NumbersOptions
    #: how far it has counted
    rows_read = 0

    @property
    def bounded(self) -> bool:
        return self.options.ends

    def schema(self) -> pa.Schema:
        return pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])

    def read(self, position):
        at = position.get(self.context.name, self.options.first)
        last = self.options.first + self.options.rows
        if at >= last:
            return END if self.options.ends else Wait(0.05)
        time.sleep(self.options.pause)
        ids = list(range(at, min(at + self.options.batch, last)))
        rows = pa.record_batch({"id": pa.array(ids, pa.int64()), "name": [f"n{i}" for i in ids]}, schema=self.schema())
        self.rows_read = ids[-1] + 1
        return SourceBatch(rows, {self.context.name: self.rows_read})


class TickOptions(SourceOptions):
    per_second: int = 100


class TickStream(Stream):
    """Numbers from its position on, which Spark computes: some rows, a pause, and so on."""

    def __init__(self, source: TickSource, position: dict[str, Any], rows: int, pause: float) -> None:
        self.position = position
        self._source = source
        self._at = position.get(source.context.name, 0)
        self._rows = rows
        self._pause = pause
        self._next_at = 0.0
        self._woken = threading.Event()

    def next(self) -> StreamBatch | Wait | None:
        if self._woken.is_set():
            self._woken.clear()
            return None
        if (left := self._next_at - time.monotonic()) > 0:
            return Wait(left)
        self._next_at = time.monotonic() + self._pause
        first, last = self._at, self._at + self._rows
        self._at = last
        rows = SparkRead(lambda spark: self._source.frame(spark, first, last))
        return StreamBatch(rows, {**self.position, self._source.context.name: last}, self._rows)

    def wake(self) -> None:
        self._woken.set()
        self.on_ready()

    def close(self) -> None:
        pass


class TickSource(StreamedSource[TickOptions]):
    """Ten batches a second."""

    Options = TickOptions

    def schema(self) -> pa.Schema:
        return pa.schema([pa.field("timestamp", pa.timestamp("us", "UTC")), pa.field("value", pa.int64())])

    def stream(self, spark, position):
        return TickStream(self, dict(position), max(1, self.options.per_second // 10), 0.1)

    def frame(self, spark, first, last):
        return spark.range(first, last).selectExpr("timestamp_seconds(id) AS timestamp", "id AS value")


class FloodSource(TickSource):
    """Always has more: a batch begins as soon as the one before has ended."""

    def stream(self, spark, position):
        return TickStream(self, dict(position), 100, 0.0)


class DoubleOptions(ParallelOptions, BatchOptions, UpstreamOptions, TransformOptions):
    honest: bool = True
    delay: float = 0.0


class DoubleTransform(Transform[DoubleOptions]):
    """Adds a column with twice the id."""

    Options = DoubleOptions
    calls: list[int]

    def open(self):
        self.calls = []

    def output_schema(self):
        return self.context.input_schema.append(pa.field("double", pa.int64()))

    def process(self, batch):
        import pyarrow.compute as pc

        time.sleep(self.options.delay)
        self.calls.append(batch.num_rows)
        if not self.options.honest:
            return batch
        return batch.append_column(pa.field("double", pa.int64()), pc.multiply(batch.column("id"), 2))


class LedgerOptions(ParallelOptions, BatchOptions, SinkOptions):
    delay: float = 0.0
    fail_at: int | None = None


class LedgerSink(Sink[LedgerOptions]):
    """Buffers rows until flush; what is durable survives in ``books`` under the node's name."""

    Options = LedgerOptions
    books: dict[str, list[dict[str, Any]]]

    def open(self):
        self._buffer: list[dict[str, Any]] = []
        self.calls: list[int] = []
        self.finalized_epochs: list[int] = []

    def write(self, batch):
        time.sleep(self.options.delay)
        self.calls.append(batch.num_rows)
        for row in batch.to_pylist():
            if self.options.fail_at is not None and row["id"] == self.options.fail_at:
                raise RuntimeError(f"row {row['id']} refused")
            self._buffer.append(row)

    def flush(self):
        self.books.setdefault(self.context.name, []).extend(self._buffer)
        self._buffer = []

    def finalized(self, epoch):
        self.finalized_epochs.append(epoch)


class Bench:
    """Runs pipelines on one Spark session; state and ledger outlive a run, like a database would."""

    def __init__(self, spark) -> None:
        self.spark = spark
        self.state = MemoryState()
        self.books: dict[str, list[dict[str, Any]]] = {}
        #: the source type ``numbers``
        self.numbers: type[NumbersSource] = NumbersSource

    def registry(self) -> Registry:
        registry = Registry.builtin()
        registry.register(NodeKind.SOURCE, "numbers", self.numbers)
        registry.register(NodeKind.SOURCE, "tick", TickSource)
        registry.register(NodeKind.SOURCE, "flood", FloodSource)
        registry.register(NodeKind.TRANSFORM, "double", DoubleTransform)
        registry.register(NodeKind.SINK, "ledger", type("Ledger", (LedgerSink,), {"books": self.books}))
        return registry

    def prepare(
        self,
        text: str,
        *,
        count_in_spark: bool = False,
        spark_settings: Mapping[str, str] | None = None,
        read_only: bool = False,
        **settings: Any,
    ) -> PipelineRun:
        config = AppConfig(**{"checkpoint_interval_sec": 0.2, **settings})
        run = new_run(
            text,
            self.registry(),
            config=config,
            state=self.state,
            count_in_spark=count_in_spark,
            spark_settings=spark_settings,
            read_only=read_only,
        )
        run.analyse(self.spark)
        return run

    def start(self, text: str, **settings: Any) -> PipelineRun:
        run = self.prepare(text, **settings)
        run.start()
        return run

    def run(self, text: str, **settings: Any) -> PipelineRun:
        run = self.start(text, **settings)
        finish(run)
        return run

    def ids(self, sink: str) -> list[int]:
        return [row["id"] for row in self.books.get(sink, [])]


def new_run(
    pipeline: str | Pipeline,
    registry: Registry | None = None,
    *,
    config: AppConfig | None = None,
    state: StateBackend | None = None,
    **options: Any,
) -> PipelineRun:
    """Return the run of a pipeline file, or of one that has been parsed; nothing is analysed."""
    registry, config = registry or Registry.builtin(), config or AppConfig()
    if isinstance(pipeline, str):
        pipeline = parse_pipeline(pipeline, registry=registry, config=config)
    return PipelineRun(pipeline, config=config, registry=registry, state=state or MemoryState(), **options)


def start_run(
    pipeline: str | Pipeline, registry: Registry | None = None, *, spark: Any = None, **options: Any
) -> PipelineRun:
    """Start a run of `new_run`. Without ``spark``, no node may need it."""
    run = new_run(pipeline, registry, **options)
    run.analyse(NoSpark() if spark is None else spark)
    run.start()
    return run


def finish(run: PipelineRun, seconds: float = 60) -> None:
    """Wait for the end of a run, at most ``seconds``."""
    outcome: list[BaseException] = []

    def wait() -> None:
        try:
            run.wait()
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "the pipeline did not end"
    if outcome:
        raise outcome[0]


def eventually(
    condition: Callable[[], Any],
    seconds: float = 20,
    explain: str | Callable[[], str] = "did not happen in time",
    process: subprocess.Popen[Any] | None = None,
) -> Any:
    """Wait for what another thread does, or ``process``, which must not end before. Returns the condition's value."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        has_ended = process is not None and process.poll() is not None
        if has_ended or time.monotonic() > deadline:
            raise AssertionError(explain if isinstance(explain, str) else explain())
        time.sleep(0.02)
    return value
