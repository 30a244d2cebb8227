"""The contract of sinks, both for Arrow batches and for those written by Spark."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from streamling.dev.contracts.contract import (
    OperatorContract,
    describe_difference,
    missing,
    run_on_executor,
    sample_rows,
    with_operation,
)
from streamling.dev.contracts.harness import NAME, eventually, wait_for_end, wait_until_settled
from streamling.engine.dataflow.lane import QUEUE_LENGTH
from streamling.plugins.delivery import Delivery
from streamling.plugins.sinks import Sink

#: one batch being written, a full queue, and one that the flow waits to enqueue
_MOST_BATCHES_AHEAD = 1 + QUEUE_LENGTH + 1


class SinkContract(OperatorContract):
    """Derive, set ``operator``, implement ``durable`` (and ``options``).

    Each test has a new instance of the class: ``durable`` and ``options`` must use the same location within a test,
    such as a folder of ``tmp_path`` from an autouse fixture.
    """

    def durable(self) -> Sequence[Mapping[str, Any]] | None:
        """Return the rows that would survive a crash now, read independently of the sink. None if the sink keeps
        nothing."""
        raise NotImplementedError("implement `durable`: the rows that survive a crash, read independently of the sink")

    def expected(self, rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        """Return ``rows`` as they appear in `durable`; unchanged by default."""
        return rows

    def input_batches(self) -> list[pa.RecordBatch]:
        """Return batches for the sink, with empty ones in between."""
        batches = [sample_rows(first, 5) for first in range(0, 40, 5)]
        return [part for batch in batches for part in (batch, batch.slice(0, 0))]

    def external_state(self) -> object:
        return self.durable()

    # ── tests ────────────────────────────────────────────────────────────────────────────────────────────────

    def test_every_row_is_durable_at_the_end(self) -> None:
        harness = self.harness()
        harness.finish(self.input_batches())
        self._check_durable(len(self.input_batches()), exactly=True)
        self.check_lifecycle(harness)

    def test_a_position_is_stored_only_when_everything_before_it_is_durable(self) -> None:
        harness = self.harness()
        stored: list[int] = []

        def check(entries: Mapping[str, Any]) -> None:
            stored.append(entries["given"])
            self._check_durable(entries["given"])

        harness.state.before_store = check
        harness.finish(self.input_batches(), interval=0.005)
        assert stored, "nothing was ever stored"
        assert stored[-1] == len(self.input_batches())

    def test_each_acknowledgement_follows_a_flush(self) -> None:
        harness = self.harness()
        input_batches = self.input_batches()

        def check(entries: Mapping[str, Any]) -> None:
            flushed = written = 0
            for call in harness.call_log.of("write", *_SETTLES):
                if call.method == "write":
                    written += call.arguments[0].num_rows
                else:
                    flushed = written
            before = sum(batch.num_rows for batch in input_batches[: entries["given"]])
            assert flushed >= before, f"{before} rows are acknowledged, {flushed} were flushed"

        if self._flushes:
            harness.state.before_store = check
        harness.finish(input_batches, interval=0.005)

    def test_rows_arrive_in_source_order(self) -> None:
        harness = self.harness()
        harness.finish(self.input_batches())
        if self._flushes:
            written = [row for call in harness.call_log.of("write") for row in call.arguments[0].to_pylist()]
            assert written == self._rows(len(self.input_batches()))

    def test_empty_batches_are_never_delivered(self) -> None:
        harness = self.harness()
        harness.finish(self.input_batches())
        for call in harness.call_log.of("write"):
            assert call.arguments[0].num_rows, "an empty batch was written"

    def test_every_row_is_counted_once(self) -> None:
        """Count each row once as delivered, deduplicated or skipped (`NodeContext.count_delivered`)."""
        harness = self.harness()
        harness.finish(self.input_batches())
        assert harness.run is not None
        counted, rows = harness.run.graph.deliveries(NAME), len(self._rows(len(self.input_batches())))
        assert counted.rows == rows, f"{counted} are counted, {rows} rows were written"

    def test_a_failing_write_stops_the_pipeline_and_stores_nothing(self) -> None:
        harness = self.harness()
        harness.call_log.fail(*_WRITES, call=2)
        self.check_names_node(harness.failure(self.input_batches(), interval=3600))
        assert "given" not in harness.position, "a position was stored although rows were lost"
        self.check_lifecycle(harness)

    def test_a_failing_flush_acknowledges_nothing(self) -> None:
        if not self._flushes:
            return  # what Spark writes is durable when the call returns
        harness = self.harness()
        harness.call_log.fail(*_SETTLES)
        self.check_names_node(harness.failure(self.input_batches(), interval=0.005))
        assert "given" not in harness.position, "a position was stored although its rows are not durable"
        assert not harness.call_log.count("finalized"), "an epoch was finalized although its flush failed"
        self.check_lifecycle(harness)

    def test_after_a_crash_at_any_moment_no_row_is_lost(self) -> None:
        harness = self.harness()
        for number in (1, 2, 3):
            harness.call_log.fail(*_WRITES, call=number)
            harness.failure(self.input_batches(), interval=0.005)
        harness.finish(self.input_batches())
        self._check_durable(len(self.input_batches()))
        self.check_lifecycle(harness, runs=4)

    def test_a_restart_continues_after_the_acknowledged_rows(self) -> None:
        harness = self.harness()
        input_batches = self.input_batches()
        harness.on_read = lambda number: harness.stop_and_wait() if number == 3 else None
        harness.finish(input_batches)
        first = harness.position["given"]
        assert first < len(input_batches)
        self._check_durable(first, exactly=True)
        harness.on_read = lambda number: None
        harness.finish(input_batches)
        self._check_durable(len(input_batches), exactly=True)

    def test_a_slow_sink_slows_the_source_down(self) -> None:
        harness = self.harness()
        gates = [harness.call_log.hold(method) for method in _WRITES]
        read: list[int] = []
        harness.on_read = read.append
        many = [batch for batch in self.input_batches() * 2 if batch.num_rows]
        run = harness.start(many, interval=3600)
        eventually(lambda: harness.over or read, "the source is read")
        ahead = wait_until_settled(lambda: len(read))
        for gate in gates:
            gate.set()
        wait_for_end(run)
        assert ahead <= _MOST_BATCHES_AHEAD, f"{ahead} batches were read while the sink wrote its first one"

    def test_several_instances_lose_nothing(self) -> None:
        harness = self.harness()
        harness.finish(self.input_batches(), parallelism=2)
        self._check_durable(len(self.input_batches()))

    def test_finalized_epochs_are_reported_in_order(self) -> None:
        harness = self.harness()
        slow = threading.Event()
        harness.on_read = lambda number: slow.wait(0.02)
        harness.finish(self.input_batches(), interval=0.005)
        epochs = [call.arguments[0] for call in harness.call_log.of("finalized")]
        assert epochs == sorted(epochs)

    def test_it_also_runs_on_executors(self) -> None:
        """Run on executors; only for sinks that declare that they can be distributed."""
        if getattr(self.operator, "distributable", False):
            batches = [batch for batch in self.input_batches() if batch.num_rows]
            (count,) = run_on_executor(self.harness(), self.operator, batches)
            (delivery,) = count.to_pylist()
            assert Delivery(**delivery).rows == sum(batch.num_rows for batch in batches)
            self._check_durable(len(self.input_batches()), exactly=True)

    # ── helpers ──────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def _flushes(self) -> bool:
        """False for a sink written by Spark: its rows are durable when the call returns."""
        return issubclass(self.operator, Sink)

    def _rows(self, batches: int) -> list[dict[str, Any]]:
        return with_operation([row for batch in self.input_batches()[:batches] for row in batch.to_pylist()])

    def _check_durable(self, batches: int, *, exactly: bool = False) -> None:
        """Check that the rows of the first ``batches`` of the source are durable now."""
        durable = self.durable()
        if durable is None:
            return
        expected = self.expected(self._rows(batches))
        lost = missing(expected, durable)
        assert not lost, f"{len(lost)} rows are not durable: {describe_difference(expected, durable)}"
        if exactly:
            assert len(durable) == len(expected), f"rows are duplicated: {describe_difference(expected, durable)}"


_WRITES = ("write", "write_arrow", "write_frame")
#: methods that make rows durable: `flush`, or the `marker` of a sink that acknowledges epochs itself
_SETTLES = ("flush", "marker")
