"""Operators in messages keep the contract of all others, and a sink may acknowledge when it knows."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
import pytest

from streamling.errors import StreamlingError
from streamling.plugins import SinkOptions, SourceOptions, TransformOptions
from streamling.plugins.messages import (
    CheckpointAck,
    CheckpointFinalizer,
    CheckpointMarker,
    Error,
    Init,
    MessageSink,
    MessageSource,
    MessageTransform,
    NextBatch,
    Pull,
    Terminate,
)
from streamling.testing import PipelineHarness, SinkContract, SourceContract, TransformContract

ROWS = pa.record_batch({"id": [1, 2, 3]})


class Counting(MessageSource[SourceOptions]):
    """Twenty numbers, two at a time."""

    Options = SourceOptions
    bounded = True

    def schema(self):
        return pa.schema([("id", pa.int64())])

    def handle(self, message):
        if isinstance(message, Pull):
            at = message.position.get(self.context.name, 0)
            if at == 20:
                return [Terminate()]
            return [NextBatch(pa.record_batch({"id": [at, at + 1]}), {self.context.name: at + 2})]
        return []


class TestSource(SourceContract):
    operator = Counting

    def expected(self):
        return [{"id": number, "_gs_op": "i"} for number in range(20)]


class Twice(MessageTransform[TransformOptions]):
    """Every row twice, as two batches; rows below zero vanish."""

    Options = TransformOptions

    def output_schema(self):
        return self.context.input_schema

    def handle(self, message):
        match message:
            case NextBatch(rows) if rows.column("id")[0].as_py() >= 0:
                return [NextBatch(row) for i in range(rows.num_rows) for row in [rows.slice(i, 1)] * 2]
        return []


class TestTransform(TransformContract):
    operator = Twice

    def input(self):
        return pa.record_batch({"id": list(range(20)), "_gs_op": ["i"] * 20})

    def expected(self):
        return [{"id": number, "_gs_op": "i"} for number in range(20) for _ in range(2)]


def test_a_batch_of_which_nothing_is_left():
    bench = PipelineHarness(Twice, {})
    bench.finish([pa.record_batch({"id": [-1]}), pa.record_batch({"id": [5]})])
    assert [row["id"] for row in bench.written_rows] == [5, 5]


class Keeping(MessageSink[SinkOptions]):
    """Keeps the messages it received, and rows before a marker as durable."""

    Options = SinkOptions
    received: list[Any]
    kept: list[dict[str, Any]]

    def handle(self, message):
        self.received.append(message)
        if isinstance(message, Init):
            self._held: list[dict[str, Any]] = []
        if isinstance(message, NextBatch):
            self._held += message.rows.to_pylist()
        if isinstance(message, CheckpointMarker):
            self.kept += self._held
            self._held = []
            return [CheckpointAck(message.epoch)]
        return []


def keeping() -> Any:
    return type("Keeping", (Keeping,), {"received": [], "kept": []})


def test_a_sink_receives_everything_in_order():
    kind = keeping()
    PipelineHarness(kind, {}).finish([ROWS], interval=60)
    assert [type(message) for message in kind.received] == [
        Init,
        NextBatch,
        CheckpointMarker,
        CheckpointFinalizer,
        Terminate,
    ]
    assert kind.received[0].schema.names == ["id", "_gs_op"]
    assert [row["id"] for row in kind.kept] == [1, 2, 3]


def test_an_epoch_is_complete_when_the_sink_says_so_on_a_thread_of_its_own():
    class Later(Keeping):
        received, kept = [], []
        release = threading.Event()

        def handle(self, message):
            if isinstance(message, CheckpointMarker):
                threading.Thread(target=self._later, args=(message.epoch,)).start()
                return []
            return super().handle(message)

        def _later(self, epoch):
            self.release.wait(30)
            self.emit(CheckpointAck(epoch))

    bench = PipelineHarness(Later, {})
    stored = []
    bench.state.before_store = lambda entries: stored.append(Later.release.is_set())
    threading.Timer(0.5, Later.release.set).start()
    bench.finish([ROWS])
    assert stored
    assert all(stored)


def test_an_acknowledgement_without_a_marker_or_a_second_one_changes_nothing():
    class Eager(Keeping):
        received, kept = [], []

        def handle(self, message):
            answers = super().handle(message)
            return [CheckpointAck(1), CheckpointAck(2), *answers, *answers]

    bench = PipelineHarness(Eager, {})
    bench.finish([ROWS])
    assert bench.position == {"given": 1}


@pytest.mark.parametrize("moment", [Init, NextBatch, CheckpointMarker])
def test_an_error_fails_the_pipeline_and_names_the_node(moment):
    class Failing(Keeping):
        received, kept = [], []

        def handle(self, message):
            return [Error("the disk is full")] if isinstance(message, moment) else super().handle(message)

    with pytest.raises(StreamlingError, match="'under_test': the disk is full"):
        PipelineHarness(Failing, {}).finish([ROWS])


def test_an_unexpected_response_is_named():
    class Odd(Twice):
        def handle(self, message):
            return [Terminate()] if isinstance(message, NextBatch) else []

    with pytest.raises(StreamlingError, match="Odd returned Terminate, which is not expected here"):
        PipelineHarness(Odd, {}).finish([ROWS])


class TestSink(SinkContract):
    operator = Keeping

    @pytest.fixture(autouse=True)
    def _fresh(self):
        self.operator = keeping()

    def durable(self):
        return list(self.operator.kept)
