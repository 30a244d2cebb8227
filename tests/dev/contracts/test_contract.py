"""The contract suite detects operators with one fault each."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
import pytest

from streamling.dev.contracts import harness as bench
from streamling.errors import StreamlingError
from streamling.pipeline.options import SinkOptions, SourceOptions, TransformOptions
from streamling.plugins.sinks import Sink
from streamling.plugins.sources import END, Source, SourceBatch, Wait
from streamling.plugins.transforms import Transform
from streamling.testing import SinkContract, SourceContract, TransformContract

ROWS = [{"id": id} for id in range(36)]


class Numbers(Source[SourceOptions]):
    """36 rows in batches of three; without a fault."""

    Options = SourceOptions
    bounded = True

    def schema(self):
        return pa.schema([("id", pa.int64())])

    def read(self, position):
        at = position.get(self.context.name, 0)
        return self.batch(at) if at < len(ROWS) else END

    def batch(self, at):
        return SourceBatch(pa.RecordBatch.from_pylist(ROWS[at : at + 3]), {self.context.name: at + 3})


class Forgetful(Numbers):
    def restore(self):
        return {}


class Counting(Numbers):
    """Keeps its position in the instance instead of in the position."""

    at = 0

    def read(self, position):
        self.at += 3
        return super().batch(self.at - 3) if self.at <= len(ROWS) else END


class Skipping(Numbers):
    def restore(self):
        stored = super().restore()
        return {self.context.name: stored[self.context.name] + 3} if stored else {}


class Unwritable(Numbers):
    def read(self, position):
        step = super().read({key: value[0] for key, value in position.items()})
        return SourceBatch(step.rows, {key: (at,) for key, at in step.position.items()}) if step is not END else END


class Nameless(Numbers):
    def restore(self):
        stored = self.context.state.get("position")
        return {"position": stored} if stored else {}

    def read(self, position):
        at = position.get("position", 0)
        return SourceBatch(self.batch(at).rows, {"position": at + 3}) if at < len(ROWS) else END


class Hasty(Numbers):
    """Writes although it is only described."""

    def schema(self):
        self.context.state.put("seen", True)
        return super().schema()


class Liar(Numbers):
    def schema(self):
        return pa.schema([("id", pa.string())])


class Wandering(Numbers):
    """Calls itself from another thread."""

    def read(self, position):
        thread = threading.Thread(target=self.commit, args=({},))
        thread.start()
        thread.join()
        return super().read(position)


@pytest.mark.parametrize(
    ("operator", "test"),
    [
        (Forgetful, "test_a_restart_continues_where_the_last_run_stopped"),
        (Forgetful, "test_a_finished_source_emits_nothing_after_a_restart"),
        (Forgetful, "test_the_same_position_leads_to_the_same_rows"),
        (Counting, "test_the_same_position_leads_to_the_same_rows"),
        (Counting, "test_a_restart_continues_where_the_last_run_stopped"),
        (Skipping, "test_a_restart_continues_where_the_last_run_stopped"),
        (Skipping, "test_the_same_position_leads_to_the_same_rows"),
        (Unwritable, "test_positions_are_json_under_the_name_of_the_node"),
        (Nameless, "test_positions_are_json_under_the_name_of_the_node"),
        (Hasty, "test_a_dry_run_changes_nothing"),
        (Liar, "test_batches_have_the_declared_columns"),
        (Wandering, "test_an_instance_is_never_called_by_two_threads_at_once"),
        (Wandering, "test_everything_is_called_on_one_thread"),
    ],
)
def test_a_faulty_source_is_detected(operator, test):
    assert_fails(SourceContract, operator, test, expected=lambda self: ROWS)


@pytest.mark.parametrize("test", [name for name in dir(SourceContract) if name.startswith("test_")])
def test_a_source_without_fault_passes(test):
    run(SourceContract, Numbers, test, expected=lambda self: ROWS)


class Tailing(Numbers):
    bounded = False

    def read(self, position):
        step = super().read(position)
        return Wait(0.01) if step is END else step


@pytest.mark.parametrize("test", [name for name in dir(SourceContract) if name.startswith("test_")])
def test_a_source_without_end_passes(test):
    run(SourceContract, Tailing, test, expected=lambda self: ROWS)


@pytest.mark.parametrize("operator", [Numbers, Tailing])
@pytest.mark.parametrize(
    ("expected", "shown"),
    [
        ([*ROWS[:-1], {"id": 77}], ["missing: 1", "{'id': 77, '_gs_op': 'i'}", "not expected: 1", "{'id': 35, "]),
        ([*ROWS, {"id": 77}], ["36 rows arrived, 37 were expected", "missing: 1", "{'id': 77, "]),
        ([ROWS[1], ROWS[0], *ROWS[2:]], ["in another order; row 0 is {'id': 0, "]),
    ],
)
def test_wrong_rows_of_a_source_are_shown_without_waiting(monkeypatch, operator, expected, shown):
    monkeypatch.setattr(bench, "PATIENCE", 3600.0)
    with pytest.raises(AssertionError) as caught:
        run(SourceContract, operator, "test_every_row_arrives_once_and_in_order", expected=lambda self: expected)
    assert all(part in str(caught.value) for part in shown), str(caught.value)


# ── transforms ───────────────────────────────────────────────────────────────────────────────────────────────


class Copying(Transform[TransformOptions]):
    Options = TransformOptions

    def output_schema(self):
        return self.context.input_schema

    def process(self, batch):
        return batch


class FirstOfBatch(Copying):
    """Depends on batch boundaries."""

    def process(self, batch):
        return batch.slice(0, 1)


class Undeclared(Copying):
    def process(self, batch):
        return batch.drop_columns(["name"])


@pytest.mark.parametrize(
    ("operator", "test"),
    [
        (FirstOfBatch, "test_the_result_does_not_depend_on_batch_boundaries"),
        (Undeclared, "test_results_have_the_declared_columns"),
    ],
)
def test_a_faulty_transform_is_detected(operator, test):
    def expected(self):
        return [
            row
            for batch in self.input_batches()
            for row in batch.to_pylist()[: 1 if operator is FirstOfBatch else None]
        ]

    assert_fails(TransformContract, operator, test, expected=expected)


def test_wrong_rows_of_a_transform_are_shown(monkeypatch):
    monkeypatch.setattr(bench, "PATIENCE", 3600.0)
    expected = lambda self: [{**row, "name": "x"} for row in self.input().to_pylist()]  # noqa: E731
    with pytest.raises(AssertionError, match=r"missing: 20\n    \{'id': 0, 'name': 'x'"):
        run(TransformContract, Copying, "test_every_row_is_processed_once_and_in_order", expected=expected)


@pytest.mark.parametrize("test", [name for name in dir(TransformContract) if name.startswith("test_")])
def test_a_transform_without_fault_passes(test):
    run(TransformContract, Copying, test, expected=lambda self: self.input().to_pylist())


# ── sinks ────────────────────────────────────────────────────────────────────────────────────────────────────


class Writing(Sink[SinkOptions]):
    """Buffers rows, and makes them durable on flush; without a fault."""

    Options = SinkOptions
    disk: list[dict[str, Any]]

    def open(self):
        self.buffer: list[dict[str, Any]] = []

    def write(self, batch):
        self.buffer += batch.to_pylist()

    def flush(self):
        self.disk += self.buffer
        self.buffer = []


class NeverFlushing(Writing):
    def flush(self):
        pass


class FlushingAtTheEnd(Writing):
    """Correct in the end, but acknowledges too early."""

    def flush(self):
        pass

    def close(self):
        super().flush()


class Doubling(Writing):
    def write(self, batch):
        self.buffer += batch.to_pylist()
        self.disk += batch.to_pylist()


class Swallowing(Writing):
    """Treats an error as a success."""

    def write(self, batch):
        if batch.column("id")[0].as_py() != 10:
            super().write(batch)


class Creating(Writing):
    def __init__(self, context):
        super().__init__(context)
        self.disk.append({"created": True})


@pytest.mark.parametrize(
    ("operator", "test"),
    [
        (NeverFlushing, "test_every_row_is_durable_at_the_end"),
        (FlushingAtTheEnd, "test_a_position_is_stored_only_when_everything_before_it_is_durable"),
        (Doubling, "test_every_row_is_durable_at_the_end"),
        (Doubling, "test_a_restart_continues_after_the_acknowledged_rows"),
        (Swallowing, "test_every_row_is_durable_at_the_end"),
        (Swallowing, "test_several_instances_lose_nothing"),
        (Creating, "test_a_dry_run_changes_nothing"),
    ],
)
def test_a_faulty_sink_is_detected(operator, test):
    assert_fails(SinkContract, with_disk(operator), test, durable=lambda self: list(self.operator.disk))


@pytest.mark.parametrize("test", [name for name in dir(SinkContract) if name.startswith("test_")])
def test_a_sink_without_fault_passes(test):
    run(SinkContract, with_disk(Writing), test, durable=lambda self: list(self.operator.disk))


def test_wrong_rows_of_a_sink_are_shown(monkeypatch):
    monkeypatch.setattr(bench, "PATIENCE", 3600.0)
    hooks = {
        "durable": lambda self: [{**row, "name": "x"} for row in self.operator.disk],
    }
    for test in ("test_every_row_is_durable_at_the_end", "test_after_a_crash_at_any_moment_no_row_is_lost"):
        with pytest.raises(AssertionError, match=r"40 rows are not durable: .*\n  missing: 40\n    \{'id': 0, 'name'"):
            run(SinkContract, with_disk(Writing), test, **hooks)


def with_disk(operator: type[Writing]) -> type[Writing]:
    return type(operator.__name__, (operator,), {"disk": []})


# ── how ──────────────────────────────────────────────────────────────────────────────────────────────────────


def run(contract: type, operator: type, test: str, **hooks: Any) -> None:
    made = type("Contract", (contract,), {"operator": operator, **hooks})
    getattr(made(), test)()


def assert_fails(contract: type, operator: type, test: str, **hooks: Any) -> None:
    with pytest.raises((AssertionError, StreamlingError)):
        run(contract, operator, test, **hooks)
