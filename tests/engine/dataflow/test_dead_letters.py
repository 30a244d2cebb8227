"""Bad rows of sources, transforms and sinks on their way to a dead-letter sink. Without Spark."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.harness.pipelines import LedgerSink, finish, start_run

from streamling.engine.state.memory import MemoryState
from streamling.errors import StreamlingError
from streamling.pipeline.config import AppConfig
from streamling.pipeline.model import NodeKind
from streamling.pipeline.options import DeadLetterOptions
from streamling.plugins import BadRow, ParallelOptions, SinkOptions, SourceOptions, TransformOptions, UpstreamOptions
from streamling.plugins.registry import Registry
from streamling.plugins.sinks import Sink
from streamling.plugins.sources import END, Source, SourceBatch
from streamling.plugins.transforms import Transform

ROWS = 100


class PickyOptions(ParallelOptions, DeadLetterOptions):
    """Rows whose id ends in this digit are bad."""

    digit: int


class PickySourceOptions(PickyOptions, SourceOptions):
    """Counts."""


class PickySource(Source[PickySourceOptions]):
    """Batches of ten; of the second, all are bad."""

    Options = PickySourceOptions
    bounded = True

    def schema(self) -> pa.Schema:
        return pa.schema([("id", pa.int64())])

    def read(self, position):
        at = position.get("numbers", 0)
        if at == ROWS:
            return END
        batch = pa.record_batch({"id": range(at, at + 10)}, schema=self.schema())
        bad = pc.or_(pc.equal(self._digits(batch), self.options.digit), at == 10)
        if batch.filter(bad).num_rows:
            self.context.reject(batch.filter(bad), "not read")
        return SourceBatch(batch.filter(pc.invert(bad)), {"numbers": at + 10})

    @staticmethod
    def _digits(batch: pa.RecordBatch) -> pa.Array:
        ids = batch.column("id")
        return pc.subtract(ids, pc.multiply(pc.divide(ids, 10), 10))


class PickyTransformOptions(PickyOptions, UpstreamOptions, TransformOptions):
    """Passes rows on."""


class PickyTransform(Transform[PickyTransformOptions]):
    Options = PickyTransformOptions

    def output_schema(self) -> pa.Schema:
        return self.context.input_schema

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        _check(batch, self.options.digit, "not processed")
        return batch


class PickySinkOptions(PickyOptions, SinkOptions):
    """Keeps rows."""


class PickySink(Sink[PickySinkOptions]):
    Options = PickySinkOptions
    book: ClassVar[list[int]]

    def open(self) -> None:
        self._rows: list[int] = []

    def write(self, batch: pa.RecordBatch) -> None:
        _check(batch, self.options.digit, "not written")
        self._rows += batch.column("id").to_pylist()

    def flush(self) -> None:
        self.book.extend(self._rows)
        self._rows = []


def _check(batch: pa.RecordBatch, digit: int, error: str) -> None:
    if any(id % 10 == digit for id in batch.column("id").to_pylist()):
        raise BadRow.user(error)


class Shelf:
    """What outlives a run."""

    def __init__(self) -> None:
        self.state = MemoryState()
        self.books: dict[str, list[dict[str, Any]]] = {}
        self.kept: list[int] = []
        self.summary = ""

    def run(self, bad: dict[str, Any] | None, dead_letters: type[Sink[Any]] = LedgerSink, **more: Any) -> None:
        registry = Registry.builtin()
        registry.register(NodeKind.SOURCE, "picky", PickySource)
        registry.register(NodeKind.TRANSFORM, "picky", PickyTransform)
        registry.register(NodeKind.SINK, "picky", type("Picky", (PickySink,), {"book": self.kept}))
        registry.register(NodeKind.SINK, "ledger", type("Ledger", (dead_letters,), {"books": self.books}))
        errors = {"errors": {"to": "bad"}} if bad is not None else {}
        nodes = {
            "sources": {"numbers": {"type": "picky", "primary_key": "id", "digit": 7, **errors}},
            "transforms": {
                "passed": {"type": "picky", "from": "numbers", "primary_key": "id", "digit": 5, **errors, **more}
            },
            "sinks": {"out": {"type": "picky", "from": "passed", "digit": 3, **errors, **more}},
        }
        if bad is not None:
            nodes["sinks"]["bad"] = bad
        config = AppConfig(checkpoint_interval_sec=0.05)
        run = start_run(json.dumps(nodes), registry, config=config, state=self.state)
        finish(run)
        self.summary = run.summary()
        self.rows_out = {node: run.metrics.value("output_rows", node) for node in ("out", "bad")}

    def letters(self) -> dict[str, list[int]]:
        """Ids in payloads, by node."""
        found: dict[str, list[int]] = {}
        for row in self.books["bad"]:
            payload = json.loads(row["payload"])
            assert row["position"] == f"id={payload['id']}"
            assert row["error"] == {"numbers": "not read", "passed": "not processed", "out": "not written"}[row["node"]]
            found.setdefault(row["node"], []).append(payload["id"])
        return {node: sorted(ids) for node, ids in found.items()}


EXPECTED = {
    "numbers": sorted({*range(10, 20), *range(7, ROWS, 10)}),
    "passed": [id for id in range(5, ROWS, 10) if id != 15],
    "out": [id for id in range(3, ROWS, 10) if id != 13],
}


@pytest.mark.parametrize("parallelism", [1, 3])
def test_bad_rows_of_a_source_a_transform_and_a_sink_meet_in_one_sink(parallelism: int) -> None:
    shelf = Shelf()
    shelf.run({"type": "ledger"}, parallelism=parallelism)
    assert shelf.letters() == EXPECTED
    assert sorted(shelf.kept) == sorted(set(range(ROWS)).difference(*EXPECTED.values()))
    assert shelf.state.get("numbers") == ROWS
    rejected = sum(map(len, EXPECTED.values()))
    assert shelf.summary == f"{ROWS - rejected} to out, {rejected} dead letters to bad"
    assert shelf.rows_out == {"out": ROWS - rejected, "bad": rejected}


def test_without_a_dead_letter_sink_the_first_bad_row_is_an_error() -> None:
    with pytest.raises(StreamlingError, match="picky source 'numbers': not read"):
        Shelf().run(None)


class Full(LedgerSink):
    """Has room for no rows."""

    def flush(self) -> None:
        if self._buffer:
            raise RuntimeError("no room")


def test_what_the_dead_letter_sink_could_not_flush_is_replayed() -> None:
    shelf = Shelf()
    with pytest.raises(StreamlingError, match="ledger sink 'bad'"):
        shelf.run({"type": "ledger"}, Full)
    assert shelf.state.get("numbers") in (None, 0)
    shelf.run({"type": "ledger"})
    assert shelf.letters() == EXPECTED
