"""The contract of Arrow transforms."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from streamling.dataflow.lane import QUEUE_LENGTH
from streamling.plugins.operators import AsyncCalls
from streamling.testing.contract import (
    OperatorContract,
    difference,
    missing,
    same_columns,
    sample_rows,
    with_operation,
)
from streamling.testing.executor import run_on_executor
from streamling.testing.harness import NAME, Bench, eventually, settled, wait_for_end

#: in the sink's hands and its queue, in the transform's and its queue, and one that the flow waits to hand over
_MOST_BATCHES_AHEAD = 2 * (1 + QUEUE_LENGTH) + 1


class TransformContract(OperatorContract):
    """Derive, set ``operator``, write ``input`` and ``expected`` (and ``options``)."""

    def input(self) -> pa.RecordBatch:
        """Rows that reach the transform, a dozen or more."""
        return sample_rows(count=20)

    def expected(self) -> Sequence[Mapping[str, Any]]:
        """What the transform makes of `input`, in order."""
        raise NotImplementedError("write `expected`: the rows that the transform makes of `input`")

    def given(self) -> list[pa.RecordBatch]:
        """`input` in batches of three, with empty ones in between."""
        return _cut(self.input(), 3)

    # ── tests ────────────────────────────────────────────────────────────────────────────────────────────────

    def test_every_row_is_processed_once_and_in_order(self) -> None:
        bench = self.bench()
        bench.finish(self.given())
        wrong = difference(self._rows(), bench.book)
        assert not wrong, wrong
        self.check_lifecycle(bench)

    def test_the_result_does_not_depend_on_how_rows_are_cut_into_batches(self) -> None:
        """After a crash the same rows come again, cut differently."""
        for rows in (1, 7, 1000):
            bench = self.bench()
            bench.finish(self.given(), batch_size=rows)
            wrong = difference(self._rows(), bench.book)
            assert not wrong, f"with batches of {rows} rows the result is another one: {wrong}"

    def test_empty_batches_are_never_delivered(self) -> None:
        bench = self.bench()
        bench.finish(self.given())
        calls = bench.journal.of("process")
        assert calls
        assert all(call.arguments[0].num_rows for call in calls)

    def test_results_have_the_declared_columns(self) -> None:
        bench = self.bench()
        run = bench.start(self.given())
        wait_for_end(run)
        assert run.analysis is not None
        declared = run.analysis.nodes[NAME].schema
        made = [call.result.schema for call in bench.journal.of("process") if isinstance(call.result, pa.RecordBatch)]
        for found in [*made, *bench.schemas]:
            assert same_columns(found, declared), f"process returned ({found}), output_schema declares ({declared})"

    def test_the_marker_of_an_epoch_comes_after_all_its_rows(self) -> None:
        bench = self.bench()
        given = self.given()
        ends = [sum(batch.num_rows for batch in given[: n + 1]) for n in range(len(given))]
        bench.finish(given)
        processed = 0
        for call in bench.journal.of("process", "marker"):
            if call.method == "process":
                processed += call.arguments[0].num_rows
            else:
                assert processed == 0 or processed in ends, "a marker came in the middle of a batch of the source"
        assert bench.journal.of("process", "marker")[-1].method == "marker", "the last rows were never marked"

    def test_several_instances_lose_nothing(self) -> None:
        bench = self.bench()
        bench.finish(self.given(), parallelism=2)
        assert not missing(self._rows(), bench.book)
        assert len(bench.book) == len(self._rows())

    def test_a_failure_stops_the_pipeline_and_stores_nothing(self) -> None:
        bench = self.bench()
        bench.journal.fail("process", call=2)
        self.check_named(bench.failure(self.given(), interval=3600))
        assert not bench.position, "a position was stored although rows were lost on the way"
        self.check_lifecycle(bench)

    def test_after_a_crash_no_row_is_lost(self) -> None:
        for call in (1, 2, 3):
            bench = self.bench()
            bench.journal.fail("process", call=call)
            bench.failure(self.given(), interval=0.01)
            bench.finish(self.given())
            assert not missing(self._rows(), bench.book), f"rows were lost after a crash in call {call}"

    def test_a_slow_sink_holds_the_source_back(self) -> None:
        bench = self.bench()
        go = threading.Event()
        read: list[int] = []
        bench.before_write = lambda _: go.wait()
        bench.asked = read.append
        many = _cut(pa.concat_batches([self.input()] * 10), 3, empty=False)
        run = bench.start(many, interval=3600)
        eventually(lambda: bench.over or bench.journal.count("process"), "the transform is called")
        ahead = settled(lambda: len(read))
        go.set()
        wait_for_end(run)
        if self._all_pass(len(bench.book), many):
            assert ahead <= _MOST_BATCHES_AHEAD + _at_once(bench), (
                f"{ahead} batches were read while the sink wrote its first one"
            )

    def test_everything_is_called_on_one_thread(self) -> None:
        bench = self.bench()
        bench.finish(self.given())
        for calls in bench.journal.instances():
            assert len({call.thread for call in calls}) == 1

    def test_it_runs_on_executors_too(self) -> None:
        """Class and options travel to another process, where the transform gives the same rows."""
        bench = self.bench()
        batches = [batch for batch in self.given() if batch.num_rows]
        made = run_on_executor(bench, self.operator, batches)
        assert [row for batch in made for row in batch.to_pylist()] == self._rows()

    # ── how ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _rows(self) -> list[dict[str, Any]]:
        return with_operation(self.expected())

    def _all_pass(self, out: int, given: Sequence[pa.RecordBatch]) -> bool:
        """A transform that drops rows lets more batches through before its sink is behind."""
        return bool(out >= sum(batch.num_rows for batch in given))


def _at_once(bench: Bench) -> int:
    """Batches that a transform may have under way besides the one in its hands."""
    return max(
        (call.result.max_in_flight for call in bench.journal.of("process") if isinstance(call.result, AsyncCalls)),
        default=0,
    )


def _cut(rows: pa.RecordBatch, size: int, *, empty: bool = True) -> list[pa.RecordBatch]:
    batches = []
    for start in range(0, rows.num_rows, size):
        batches.append(rows.slice(start, size))
        if empty:
            batches.append(rows.slice(0, 0))
    return batches
