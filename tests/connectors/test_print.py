"""The print sink: JSON lines for programs, coloured row kinds for people."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from streamling.connectors.print import PrintSink, PrintSinkOptions
from streamling.errors import InvalidPipeline
from streamling.pipeline.config import AppConfig
from streamling.pipeline.parse import parse_pipeline
from streamling.plugins.context import NodeContext
from streamling.plugins.placeholders import NoopMetrics, UnavailableState
from streamling.plugins.registry import Registry
from streamling.testing import PipelineHarness
from tests.harness.commands import QUICK_JVM
from tests.paths import ROOT

EXAMPLES = ROOT / "examples" / "plugins"


def rows(*ids: int, operation: str = "i") -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(ids, pa.int64()), "_gs_op": [operation] * len(ids)})


def printer(output: Any, config: AppConfig | None = None, **fields: Any) -> PrintSink:
    options = PrintSinkOptions.model_validate({"type": "print", "from": "given", **fields})
    context = NodeContext("out", options, config or AppConfig(), UnavailableState("none"), NoopMetrics())
    sink = PrintSink(context, output)
    sink.open()
    return sink


def printed(*batches: pa.RecordBatch, **fields: Any) -> list[str]:
    output = io.BytesIO()
    sink = printer(output, **fields)
    for batch in batches:
        sink.write(batch)
    sink.flush()
    return output.getvalue().decode().splitlines()


def ids(lines: list[str]) -> list[int]:
    return [json.loads(line)["id"] for line in lines]


def test_each_row_is_a_json_object_on_its_own_line():
    assert printed(rows(1, 2)) == ['{"id":1,"_gs_op":"i"}', '{"id":2,"_gs_op":"i"}']


def test_values_of_all_kinds_are_readable_json():
    batch = pa.record_batch(
        {
            "price": pa.array([Decimal("12.50")], pa.decimal128(10, 2)),
            "day": pa.array([date(2024, 5, 1)]),
            "tags": [["a", "b"]],
            "place": [{"city": "Ulm"}],
            "nothing": pa.array([None], pa.string()),
        }
    )
    (line,) = printed(batch)
    assert json.loads(line) == {
        "price": 12.5,
        "day": "2024-05-01",
        "tags": ["a", "b"],
        "place": {"city": "Ulm"},
        "nothing": None,
    }


def test_text_is_utf_8_and_control_characters_stay_on_the_line():
    text = 'Grüße, 世界 🎉 \n\t"quoted"'
    output = io.BytesIO()
    printer(output).write(pa.record_batch({"text": [text]}))
    line = output.getvalue()
    assert line.count(b"\n") == 1
    assert "Grüße, 世界 🎉".encode() in line
    assert json.loads(line) == {"text": text}


def test_rows_appear_immediately_not_at_the_end():
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as output, os.fdopen(reading, "rb") as seen:
        printer(output).write(rows(1))
        assert seen.readline() == b'{"id":1,"_gs_op":"i"}\n'


# ── on a terminal ────────────────────────────────────────────────────────────────────────────────────────────


def on_terminal(*batches: pa.RecordBatch) -> list[bytes]:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "wb") as output:
        sink = printer(output)
        for batch in batches:
            sink.write(batch)
    seen = b""
    while chunk := _read(ours):
        seen += chunk
    os.close(ours)
    return seen.splitlines()


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1024)
    except OSError:  # how Linux reports that the other end of a terminal is closed
        return b""


def test_on_a_terminal_the_row_kind_precedes_the_row_in_colour(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert on_terminal(rows(1), rows(2, operation="u"), rows(3, operation="d")) == [
        b'\x1b[32m+I\x1b[0m {"id":1,"_gs_op":"i"}',
        b'\x1b[33m+U\x1b[0m {"id":2,"_gs_op":"u"}',
        b'\x1b[31m-D\x1b[0m {"id":3,"_gs_op":"d"}',
    ]


def test_no_color_is_respected_on_a_terminal(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    assert on_terminal(rows(1)) == [b'{"id":1,"_gs_op":"i"}']


def test_rows_without_an_operation_have_no_kind(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert on_terminal(pa.record_batch({"id": [1]})) == [b'{"id":1}']


# ── options ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_sample_every_prints_every_nth_row_across_batches():
    assert ids(printed(rows(0, 1, 2, 3), rows(4, 5), rows(6, 7, 8, 9), sample_every=3)) == [0, 3, 6, 9]


def test_the_configuration_has_the_defaults_of_the_node():
    config = AppConfig.model_validate({"print_sink": {"sample_every": 2, "num_records_before_stop": 7}})
    assert ids(printed(rows(0, 1, 2, 3), config=config)) == [0, 2]
    assert ids(printed(rows(0, 1, 2, 3), config=config, sample_every=3)) == [0, 3]
    assert printer(io.BytesIO(), config).row_limit == 7
    assert printer(io.BytesIO(), config, num_records_before_stop=3).row_limit == 3


def test_zero_is_not_a_valid_sampling_rate():
    text = """
sources: {s: {type: file, path: x, format: csv}}
transforms: {}
sinks: {p: {type: print, from: s, sample_every: 0}}
"""
    with pytest.raises(InvalidPipeline, match="sample_every"):
        parse_pipeline(text, registry=Registry.builtin())


class TestRecordLimit:
    @pytest.fixture(autouse=True)
    def _output(self) -> None:
        output = self.output = io.BytesIO()

        class Printing(PrintSink):
            def __init__(self, context):
                super().__init__(context, output)

        self.operator = Printing

    def run(self, *batches: pa.RecordBatch, **more: Any) -> PipelineHarness:
        bench = PipelineHarness(self.operator, {"num_records_before_stop": 7})
        bench.finish(batches, **more)
        return bench

    def printed(self) -> list[int]:
        return ids(self.output.getvalue().decode().splitlines())

    def test_the_pipeline_stops_after_the_row_limit(self):
        self.run(*[rows(first, first + 1, first + 2) for first in range(0, 300, 3)])
        assert self.printed() == list(range(7))

    def test_a_position_after_unprinted_rows_is_never_stored(self):
        bench = self.run(*[rows(first, first + 1, first + 2) for first in range(0, 300, 3)])
        assert bench.position.get("given", 0) <= 2

    def test_parallel_instances_share_one_limit(self):
        self.run(*[rows(first, first + 1) for first in range(0, 200, 2)], parallelism=3)
        assert len(self.printed()) == 7

    def test_it_counts_rows_not_lines(self):
        bench = PipelineHarness(self.operator, {"num_records_before_stop": 7, "sample_every": 5})
        bench.finish([rows(*range(first, first + 2)) for first in range(0, 200, 2)])
        assert self.printed() == [0, 5]


# ── a reader that leaves ─────────────────────────────────────────────────────────────────────────────────────


def test_a_closed_pipe_requests_a_stop_that_keeps_the_position():
    reading, writing = os.pipe()
    asked: list[tuple[str, bool]] = []
    with os.fdopen(writing, "wb") as output:
        sink = printer(output)
        object.__setattr__(sink.context, "request_stop", lambda *reason: asked.append(reason))
        os.close(reading)
        sink.write(rows(1))
        sink.write(rows(2))
    assert asked == [("the reader of standard output has closed the pipe", True)]


@pytest.mark.spark
@pytest.mark.slow
def test_head_ends_the_command_quietly_with_success(tmp_path):
    (tmp_path / "pipeline.yaml").write_text(
        """
sources:
  numbers: {type: basic_plugin.random_source, max_rows: 1000000, batch_sleep_ms: 1}
transforms: {}
sinks:
  out: {type: print, from: numbers}
"""
    )
    running = subprocess.Popen(
        [sys.executable, "-m", "streamling", "run", "pipeline.yaml"],
        cwd=tmp_path,
        env={**os.environ, **QUICK_JVM, "STREAMLING__PLUGIN__PATH": str(EXAMPLES / "basic_plugin.py")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert running.stdout is not None
    first = running.stdout.readline()
    running.stdout.close()
    assert running.stderr is not None
    errors = running.stderr.read().decode()
    running.stderr.close()
    assert running.wait(60) == 0, errors
    assert set(json.loads(first)) == {"num_field", "alphanumeric_field", "_gs_op"}
    assert "Traceback" not in errors
    assert "BrokenPipe" not in errors
