"""Sinks that Spark writes: opened together or not at all, closed once each, named when they fail."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.harness.pipelines import finish, new_run

from streamling.dev.contracts.harness import BatchListSource, NoSpark
from streamling.engine.run.run import PipelineRun
from streamling.errors import StreamlingError
from streamling.pipeline.model import NodeKind
from streamling.pipeline.options import SinkOptions
from streamling.plugins.registry import Registry
from streamling.plugins.sinks import FrameSink

PIPELINE = """
sources:
  given: {type: given}
transforms: {}
sinks:
  first: {type: noting, from: given}
  second: {type: noting, from: given, fails_in: FAILS}
"""


class NotingOptions(SinkOptions):
    fails_in: str = ""


class Noting(FrameSink[NotingOptions]):
    Options = NotingOptions
    calls: list[str]

    def _note(self, method: str) -> None:
        self.calls.append(f"{method} {self.context.name}")
        if self.options.fails_in == method:
            raise ValueError(f"cannot {method}")

    def open(self):
        self._note("open")

    def write_arrow(self, batches):
        self._note("write")
        return True

    def write_frame(self, frame):
        raise AssertionError("the rows are in Python")

    def close(self):
        self._note("close")


def prepared(fails_in: str) -> tuple[PipelineRun, list[str]]:
    calls: list[str] = []
    given: dict[str, Any] = {"batches": [pa.record_batch({"id": [1, 2]})], "on_read": lambda number: None}
    registry = Registry.builtin()
    registry.register(NodeKind.SOURCE, "given", type("Given", (BatchListSource,), given))
    registry.register(NodeKind.SINK, "noting", type("Noting", (Noting,), {"calls": calls}))
    run = new_run(PIPELINE.replace("FAILS", fails_in), registry)
    run.analyse(NoSpark())  # type: ignore[arg-type]
    return run, calls


def test_they_live_from_open_to_close():
    run, calls = prepared("nothing")
    run.start()
    finish(run)
    assert calls == ["open first", "open second", "write first", "write second", "close first", "close second"]


def test_when_one_cannot_open_those_before_it_are_closed_and_nothing_runs():
    run, calls = prepared("open")
    with pytest.raises(StreamlingError, match="noting sink 'second'") as caught:
        run.start()
    assert list(caught.value.causes()) == ["ValueError: cannot open"]
    assert calls == ["open first", "open second", "close first"]


def test_when_one_cannot_write_it_is_named_and_all_are_closed():
    run, calls = prepared("write")
    run.start()
    with pytest.raises(StreamlingError, match="noting sink 'second'"):
        finish(run)
    assert calls[-2:] == ["close first", "close second"]


def test_when_one_cannot_close_it_is_named_and_the_others_are_closed_all_the_same():
    run, calls = prepared("close")
    run.start()
    with pytest.raises(StreamlingError, match="noting sink 'second': closing"):
        finish(run)
    assert calls[-2:] == ["close first", "close second"]
