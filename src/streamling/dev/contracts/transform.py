"""The contract of Arrow transforms."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from streamling.dev.contracts.contract import (
    OperatorContract,
    describe_difference,
    have_same_columns,
    missing,
    run_on_executor,
    sample_rows,
    with_operation,
)
from streamling.dev.contracts.harness import NAME, PipelineHarness, eventually, wait_for_end, wait_until_settled
from streamling.engine.dataflow.lane import QUEUE_LENGTH
from streamling.plugins.transforms import AsyncCalls

#: in the sink and its queue, in the transform and its queue, and one that the flow waits to enqueue
_MOST_BATCHES_AHEAD = 2 * (1 + QUEUE_LENGTH) + 1


class TransformContract(OperatorContract):
    """Derive, set ``operator``, implement ``input`` and ``expected`` (and ``options``)."""

    def input(self) -> pa.RecordBatch:
        """Return the rows for the transform, a dozen or more."""
        return sample_rows(count=20)

    def expected(self) -> Sequence[Mapping[str, Any]]:
        """Return the result of the transform for `input`, in order."""
        raise NotImplementedError("implement `expected`: the rows that the transform returns for `input`")

    def input_batches(self) -> list[pa.RecordBatch]:
        """Return `input` in batches of three, with empty ones in between."""
        return _cut(self.input(), 3)

    # ── tests ────────────────────────────────────────────────────────────────────────────────────────────────

    def test_every_row_is_processed_once_and_in_order(self) -> None:
        harness = self.harness()
        harness.finish(self.input_batches())
        wrong = describe_difference(self._rows(), harness.written_rows)
        assert not wrong, wrong
        self.check_lifecycle(harness)

    def test_the_result_does_not_depend_on_batch_boundaries(self) -> None:
        """Compare results of different batches: after a crash the same rows are replayed in different batches."""
        for rows in (1, 7, 1000):
            harness = self.harness()
            harness.finish(self.input_batches(), batch_size=rows)
            wrong = describe_difference(self._rows(), harness.written_rows)
            assert not wrong, f"with batches of {rows} rows the result differs: {wrong}"

    def test_empty_batches_are_never_delivered(self) -> None:
        harness = self.harness()
        harness.finish(self.input_batches())
        calls = harness.call_log.of("process")
        assert calls
        assert all(call.arguments[0].num_rows for call in calls)

    def test_results_have_the_declared_columns(self) -> None:
        harness = self.harness()
        run = harness.start(self.input_batches())
        wait_for_end(run)
        assert run.analysis is not None
        declared = run.analysis.nodes[NAME].schema
        made = [
            call.result.schema for call in harness.call_log.of("process") if isinstance(call.result, pa.RecordBatch)
        ]
        for found in [*made, *harness.schemas]:
            assert have_same_columns(found, declared), (
                f"process returned ({found}), output_schema declares ({declared})"
            )

    def test_the_marker_of_an_epoch_follows_its_rows(self) -> None:
        harness = self.harness()
        input_batches = self.input_batches()
        ends = [sum(batch.num_rows for batch in input_batches[: n + 1]) for n in range(len(input_batches))]
        harness.finish(input_batches)
        processed = 0
        for call in harness.call_log.of("process", "marker"):
            if call.method == "process":
                processed += call.arguments[0].num_rows
            else:
                assert processed == 0 or processed in ends, "a marker arrived in the middle of a batch of the source"
        assert harness.call_log.of("process", "marker")[-1].method == "marker", "the last rows were never marked"

    def test_several_instances_lose_nothing(self) -> None:
        harness = self.harness()
        harness.finish(self.input_batches(), parallelism=2)
        assert not missing(self._rows(), harness.written_rows)
        assert len(harness.written_rows) == len(self._rows())

    def test_a_failure_stops_the_pipeline_and_stores_nothing(self) -> None:
        harness = self.harness()
        harness.call_log.fail("process", call=2)
        self.check_names_node(harness.failure(self.input_batches(), interval=3600))
        assert not harness.position, "a position was stored although rows were lost"
        self.check_lifecycle(harness)

    def test_after_a_crash_no_row_is_lost(self) -> None:
        for call in (1, 2, 3):
            harness = self.harness()
            harness.call_log.fail("process", call=call)
            harness.failure(self.input_batches(), interval=0.01)
            harness.finish(self.input_batches())
            assert not missing(self._rows(), harness.written_rows), f"rows were lost after a crash in call {call}"

    def test_a_slow_sink_slows_the_source_down(self) -> None:
        harness = self.harness()
        go = threading.Event()
        read: list[int] = []
        harness.before_write = lambda _: go.wait()
        harness.on_read = read.append
        many = _cut(pa.concat_batches([self.input()] * 10), 3, empty=False)
        run = harness.start(many, interval=3600)
        eventually(lambda: harness.over or harness.call_log.count("process"), "the transform is called")
        ahead = wait_until_settled(lambda: len(read))
        go.set()
        wait_for_end(run)
        if self._all_pass(len(harness.written_rows), many):
            assert ahead <= _MOST_BATCHES_AHEAD + _at_once(harness), (
                f"{ahead} batches were read while the sink wrote its first one"
            )

    def test_everything_is_called_on_one_thread(self) -> None:
        harness = self.harness()
        harness.finish(self.input_batches())
        for calls in harness.call_log.instances():
            if calls[0].operator.own_thread:
                assert len({call.thread for call in calls}) == 1

    def test_it_also_runs_on_executors(self) -> None:
        """Send class and options to another process, where the transform must return the same rows."""
        harness = self.harness()
        batches = [batch for batch in self.input_batches() if batch.num_rows]
        made = run_on_executor(harness, self.operator, batches)
        assert [row for batch in made for row in batch.to_pylist()] == self._rows()

    # ── helpers ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _rows(self) -> list[dict[str, Any]]:
        return with_operation(self.expected())

    def _all_pass(self, out: int, input_batches: Sequence[pa.RecordBatch]) -> bool:
        """Return whether all rows pass. A transform that drops rows lets more batches through before its sink is
        behind."""
        return bool(out >= sum(batch.num_rows for batch in input_batches))


def _at_once(harness: PipelineHarness) -> int:
    """Return batches that a transform may process concurrently besides the current one."""
    return max(
        (call.result.max_in_flight for call in harness.call_log.of("process") if isinstance(call.result, AsyncCalls)),
        default=0,
    )


def _cut(rows: pa.RecordBatch, size: int, *, empty: bool = True) -> list[pa.RecordBatch]:
    batches = []
    for start in range(0, rows.num_rows, size):
        batches.append(rows.slice(start, size))
        if empty:
            batches.append(rows.slice(0, 0))
    return batches
