"""Runs an operator in real pipelines: the engine's flows, lanes, checkpoints and state, without Spark if possible."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from streamling.dev.contracts.call_log import CallLog, record_calls
from streamling.engine.run.run import PipelineRun
from streamling.engine.state.memory import MemoryState
from streamling.errors import StreamlingError
from streamling.pipeline.config import AppConfig
from streamling.pipeline.model import NodeKind, Pipeline
from streamling.pipeline.options import SinkOptions, SourceOptions
from streamling.pipeline.parse import parse_pipeline
from streamling.plugins.loader import kind_of
from streamling.plugins.operators import Operator
from streamling.plugins.registry import Registry
from streamling.plugins.sinks import Sink
from streamling.plugins.sources import END, End, Position, Source, SourceBatch, Wait

#: name and type of the node under test
NAME = "under_test"
TYPE = "contract.under_test"

#: seconds after which a pipeline that does not end fails its test
PATIENCE = 60.0


class NoSpark:
    """Replaces a Spark session in pipelines that never use one."""

    def newSession(self) -> NoSpark:  # noqa: N802 - Spark's name
        return self

    def __getattr__(self, name: str) -> Any:
        raise StreamlingError("this operator needs Spark", remedy="set `session` of the contract to a Spark session")


class WatchedState(MemoryState):
    """Calls ``before_store`` with the entries of a checkpoint before they are stored, on the checkpoint thread."""

    def __init__(self) -> None:
        super().__init__()
        self.before_store: Callable[[Mapping[str, Any]], None] = lambda entries: None

    def put_positions(self, entries: Mapping[str, Any]) -> None:
        self.before_store(entries)
        super().put_positions(entries)


class PipelineHarness:
    """One operator with its state and its external systems, which outlive single runs."""

    def __init__(self, operator: type[Operator[Any]], options: Mapping[str, Any], *, session: Any = None) -> None:
        self.kind = kind_of(operator)
        self.call_log = CallLog()
        self.state = WatchedState()
        self.written_rows: list[dict[str, Any]] = []
        self.pending: list[dict[str, Any]] = []
        self.schemas: list[pa.Schema] = []
        self.options = options
        #: settings that differ from the defaults
        self.config: Mapping[str, Any] = {}
        #: False: the source of the input waits for more instead of ending, and the run must be stopped
        self.ends = True
        self.before_write: Callable[[int], object] = lambda rows: None
        self.before_flush: Callable[[int], object] = lambda rows: None
        self.on_read: Callable[[int], object] = lambda number: None
        self._operator = operator
        self._session: Any = session or NoSpark()
        self.run: PipelineRun | None = None

    def registry(self, batches: Sequence[pa.RecordBatch] = ()) -> Registry:
        registry = Registry.builtin()
        registry.register(self.kind, TYPE, record_calls(self._operator, self.call_log))
        given = {"batches": batches, "on_read": lambda number: self.on_read(number), "bounded": self.ends}
        registry.register(NodeKind.SOURCE, "contract.given", type("Given", (BatchListSource,), given))
        ledger = {
            "written_rows": self.written_rows,
            "pending": self.pending,
            "schemas": self.schemas,
            "before_write": lambda rows: self.before_write(rows),
            "before_flush": lambda rows: self.before_flush(rows),
        }
        registry.register(NodeKind.SINK, "contract.ledger", type("Ledger", (RecordingSink,), ledger))
        return registry

    def pipeline(self, registry: Registry, **more: Any) -> Pipeline:
        """Return the node under test, with a source of the input above it and a recording sink below it if it takes
        them."""
        node = {"type": TYPE, **self.options, **more}
        sections: dict[str, dict[str, Any]] = {"sources": {}, "transforms": {}, "sinks": {}}
        if self.kind is NodeKind.SOURCE:
            sections["sources"][NAME] = node
        else:
            sections["sources"]["given"] = {"type": "contract.given"}
            sections[self.kind.section][NAME] = {**node, "from": "given"}
        if self.kind is not NodeKind.SINK:
            sections["sinks"]["ledger"] = {"type": "contract.ledger", "from": NAME}
        return parse_pipeline(json.dumps(sections), registry=registry)

    # ── running ──────────────────────────────────────────────────────────────────────────────────────────────

    def prepare(self, batches: Sequence[pa.RecordBatch] = (), *, interval: float = 0.05, **more: Any) -> PipelineRun:
        """Return an analysed run that is not started, as with ``--dry-run``."""
        registry = self.registry(batches)
        config = AppConfig.model_validate({**self.config, "checkpoint_interval_sec": interval})
        run = PipelineRun(self.pipeline(registry, **more), config=config, registry=registry, state=self.state)
        run.analyse(self._session)
        self.run = run
        return run

    def start(self, batches: Sequence[pa.RecordBatch] = (), **more: Any) -> PipelineRun:
        run = self.prepare(batches, **more)
        run.start()
        return run

    def finish(self, batches: Sequence[pa.RecordBatch] = (), **more: Any) -> None:
        """Run to the end; raises the error of a failed pipeline."""
        wait_for_end(self.start(batches, **more))

    def failure(self, batches: Sequence[pa.RecordBatch] = (), **more: Any) -> StreamlingError:
        """Run a pipeline that must fail, and return its error."""
        try:
            self.finish(batches, **more)
        except StreamlingError as error:
            return error
        raise AssertionError("the pipeline succeeded although it should have failed")

    def stop(self) -> None:
        """Stop the current run cleanly, as on SIGTERM; can be called from its own threads."""
        assert self.run is not None
        self.run.stop("stopped by the test")

    def stop_and_wait(self) -> None:
        """Call `stop` and return when no further batch will be read."""
        run = self.run
        assert run is not None
        self.stop()
        eventually(lambda: all(flow.has_stopped_reading for flow in run.graph.flows.values()), "the flow stops reading")

    @property
    def over(self) -> bool:
        """Whether the current run has failed, was stopped or has read everything."""
        run = self.run
        return run is not None and (
            run.is_stopping or all(run.has_source_ended(node.name) for node in run.pipeline.sources)
        )

    @property
    def received_rows(self) -> list[dict[str, Any]]:
        """Rows in the recording sink, durable or not."""
        return [*self.written_rows, *self.pending]

    @property
    def position(self) -> dict[str, Any]:
        """The entries of the state backend."""
        return self.state.items()


def wait_for_end(run: PipelineRun) -> None:
    """Wait for the end of a run, with a time limit."""
    outcome: list[BaseException] = []

    def wait() -> None:
        try:
            run.wait()
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive(), f"the pipeline did not end within {PATIENCE:g} s"
    if outcome:
        raise outcome[0]


def eventually(condition: Callable[[], object], what: str) -> None:
    """Wait for a condition that another thread fulfils."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"did not happen within {PATIENCE:g} s: {what}"
        time.sleep(0.01)


def wait_until_settled(value: Callable[[], int], seconds: float = 0.5) -> int:
    """Return ``value`` when it has not changed for a while."""
    last, since = value(), time.monotonic()
    while time.monotonic() - since < seconds:
        time.sleep(0.02)
        if value() != last:
            last, since = value(), time.monotonic()
    return last


# ── the ends of the pipeline under test ──────────────────────────────────────────────────────────────────────────


class BatchListOptions(SourceOptions):
    """The source of prepared batches has no options."""


class BatchListSource(Source[BatchListOptions]):
    """Emits prepared batches in order, including empty ones; its position is the number emitted."""

    Options = BatchListOptions
    batches: ClassVar[Sequence[pa.RecordBatch]]
    #: called with the number of the batch that is about to be emitted
    on_read: ClassVar[Callable[[int], object]]
    bounded = True

    def schema(self) -> pa.Schema:
        return self.batches[0].schema

    def read(self, position: Position) -> SourceBatch | Wait | End:
        at = position.get(self.context.name, 0)
        if at >= len(self.batches):
            return END if self.bounded else Wait(0.02)
        type(self).on_read(at)
        return SourceBatch(self.batches[at], {self.context.name: at + 1})


class RecordingSinkOptions(SinkOptions):
    """The recording sink has no options."""


class RecordingSink(Sink[RecordingSinkOptions]):
    """Keeps rows in ``pending`` until ``flush``, then in its ``written_rows``, which outlives the run."""

    Options = RecordingSinkOptions
    pending: ClassVar[list[dict[str, Any]]]
    written_rows: ClassVar[list[dict[str, Any]]]
    schemas: ClassVar[list[pa.Schema]]
    #: called before each write with the number of rows so far, and before each flush with the number of pending rows
    before_write: ClassVar[Callable[[int], object]]
    before_flush: ClassVar[Callable[[int], object]]

    def open(self) -> None:
        self.pending.clear()

    def write(self, batch: pa.RecordBatch) -> None:
        type(self).before_write(len(self.written_rows) + len(self.pending))
        self.schemas.append(batch.schema)
        self.pending.extend(batch.to_pylist())

    def flush(self) -> None:
        type(self).before_flush(len(self.pending))
        self.written_rows.extend(self.pending)
        self.pending.clear()
