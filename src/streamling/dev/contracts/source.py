"""The contract of sources."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from streamling.dev.contracts.call_log import Call, Fault
from streamling.dev.contracts.contract import (
    OperatorContract,
    describe_difference,
    have_same_columns,
    missing,
    with_operation,
)
from streamling.dev.contracts.harness import NAME, PipelineHarness, eventually, wait_for_end, wait_until_settled
from streamling.engine.dataflow.lane import QUEUE_LENGTH
from streamling.errors import StreamlingError
from streamling.plugins.sources import End, Position, Source, SourceBatch, SparkRead, Wait

#: one batch being written, a full queue, and one that the flow waits to enqueue
_MOST_BATCHES_AHEAD = 1 + QUEUE_LENGTH + 1


#: after this many seconds without a new row, an idle source is taken to have emitted everything
_QUIET = 3.0
#: seconds of a `Wait` when a source is read without a pipeline
_LONGEST_WAIT = 0.05


class SourceContract(OperatorContract):
    """Derive, set ``operator``, implement ``expected`` (and ``options``); use more than five batches, so that a stop
    happens in the middle.

    A source that never ends is stopped as soon as all expected rows have arrived.
    """

    def expected(self) -> Sequence[Mapping[str, Any]]:
        """Return the rows that the source emits, in order."""
        raise NotImplementedError("implement `expected`: the rows that the source emits")

    # ── tests ────────────────────────────────────────────────────────────────────────────────────────────────

    def test_every_row_arrives_once_and_in_order(self) -> None:
        harness = self.harness()
        self.run_once(harness)
        self._check_rows(harness)
        self.check_lifecycle(harness)

    def test_batches_have_the_declared_columns(self) -> None:
        harness = self.harness()
        source = harness.prepare()._sources[NAME]
        declared = source.schema()
        for _, rows in self._read_through({}, len(self._rows())):
            found = rows.schema
            assert have_same_columns(found, declared), f"read returned ({found}), schema declares ({declared})"

    def test_positions_are_json_under_the_name_of_the_node(self) -> None:
        harness = self.harness()
        self.run_once(harness)
        for call in self._batches(harness):
            position = dict(call.result.position)
            assert json.loads(json.dumps(position, allow_nan=False)) == position, "a position must be plain JSON"
            strangers = [key for key in position if key != NAME and not key.startswith(f"{NAME}:")]
            assert not strangers, f"keys {strangers} may clash with another node: start them with the node's name"

    def test_the_same_position_leads_to_the_same_rows(self) -> None:
        """Read again from every position of the source, through the state backend, on a new instance."""
        rows = self._rows()
        start = 0
        for position, batch in self._read_through({}, len(rows)):
            later = self._read_through(position, len(rows) - start)
            read_on = [row for _, table in later for row in table.to_pylist()]
            assert with_operation(read_on) == rows[start:]
            start += batch.num_rows

    def test_a_restart_continues_where_the_last_run_stopped(self) -> None:
        harness = self.harness()
        harness.before_write = lambda _: harness.stop_and_wait()
        harness.finish()
        first = list(harness.written_rows)
        assert first, "nothing had arrived when the pipeline was stopped"
        assert first == self._rows()[: len(first)]
        harness.before_write = lambda _: None
        self.run_once(harness)
        self._check_rows(harness, "rows were lost or duplicated by a clean stop")
        self.check_lifecycle(harness, runs=2)

    def test_a_finished_source_emits_nothing_after_a_restart(self) -> None:
        harness = self.harness()
        self.run_once(harness)
        before = harness.position
        run = harness.start()
        eventually(lambda: harness.over or self._is_idle(harness), "the source reports that there is nothing to read")
        harness.stop()
        wait_for_end(run)
        self._check_rows(harness)
        assert harness.position == before, "the position moved although nothing was read"

    def test_after_a_crash_at_any_flush_no_row_is_lost(self) -> None:
        for flush in (1, 2, 3):
            harness = self.harness()
            self._crash_at_flush(harness, flush)
            harness.before_flush = lambda _: None
            self.run_once(harness)
            assert not missing(self._rows(), harness.written_rows), f"rows were lost after a crash at flush {flush}"

    def test_a_slow_sink_slows_the_source_down(self) -> None:
        harness = self.harness()
        go = threading.Event()
        harness.before_write = lambda _: go.wait()
        harness.start(interval=3600)
        eventually(lambda: harness.over or harness.call_log.count("read"), "the source is read")
        ahead = wait_until_settled(lambda: len(self._batches(harness)))
        go.set()
        self._wait_until_done(harness)
        assert ahead <= _MOST_BATCHES_AHEAD, f"{ahead} batches were read while the sink wrote its first one"
        self._check_rows(harness)

    def test_a_failing_read_stops_the_pipeline_and_keeps_what_was_stored(self) -> None:
        harness = self.harness()
        harness.call_log.fail("read", call=2)
        self.check_names_node(harness.failure(interval=3600))
        assert not harness.position, "a position was stored although the epoch never ended"
        self.check_lifecycle(harness)

    def test_commit_follows_the_stored_position(self) -> None:
        harness = self.harness()
        stored: list[Position] = []
        harness.state.before_store = lambda entries: stored.append(dict(entries))
        self.run_once(harness)
        for call in harness.call_log.of("commit"):
            wanted = {key: value for key, value in call.arguments[0].items() if value is not None}
            known = {key: value for entries in stored for key, value in entries.items()}
            assert set(wanted) <= set(known), f"committed {wanted}, which was never stored"

    def test_everything_is_called_on_one_thread(self) -> None:
        harness = self.harness()
        self.run_once(harness)
        for calls in harness.call_log.instances():
            if calls[0].operator.own_thread:
                assert len({call.thread for call in calls}) == 1

    # ── helpers ──────────────────────────────────────────────────────────────────────────────────────────────────

    def run_once(self, harness: PipelineHarness) -> None:
        harness.start()
        self._wait_until_done(harness)

    def _rows(self) -> list[dict[str, Any]]:
        return with_operation(self.expected())

    def _check_rows(self, harness: PipelineHarness, why: str = "") -> None:
        wrong = describe_difference(self._rows(), harness.written_rows)
        assert not wrong, f"{why}{': ' if why else ''}{wrong}"

    def _wait_until_done(self, harness: PipelineHarness) -> None:
        """Wait until a bounded source has ended; stop another one when all rows have arrived, when an unexpected row
        has arrived, or when it has been idle for a while."""
        assert harness.run is not None
        if not harness.run.bounded:
            quiet = _Quiet(lambda: len(harness.received_rows))
            eventually(
                lambda: harness.over or self._is_settled(harness) or (self._is_idle(harness) and quiet.is_over()),
                "all rows arrive",
            )
            harness.stop()
        wait_for_end(harness.run)

    def _is_settled(self, harness: PipelineHarness) -> bool:
        rows, arrived = self._rows(), harness.received_rows
        # a source that replays rows whose position was not stored may emit a row twice
        known = {repr(sorted(row.items())) for row in rows}
        strange = any(repr(sorted(row.items())) not in known for row in arrived)
        return strange or (len(arrived) >= len(rows) and not missing(rows, arrived))

    def _is_idle(self, harness: PipelineHarness) -> bool:
        """Return whether the source of this run had nothing to read at its last call."""
        assert harness.run is not None
        current = harness.run._sources[NAME]
        answers = [call.result for call in harness.call_log.of("read") if call.operator is current]
        return any(isinstance(answer, Wait | End) for answer in answers)

    def _batches(self, harness: PipelineHarness) -> list[Call]:
        return [call for call in harness.call_log.of("read") if isinstance(call.result, SourceBatch)]

    def _table(self, rows: pa.RecordBatch | pa.Table | SparkRead) -> pa.Table:
        if isinstance(rows, SparkRead):
            return rows.frame(self.session).toArrow()
        return rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])

    def _read_through(self, position: Position, count: int) -> list[tuple[Position, pa.Table]]:
        """Return what a new instance reads that finds ``position`` in the state backend: batches, each with the
        position before it. As in the engine, the rows of a batch are valid only until the next call."""
        harness = self.harness()
        harness.state.put_many(position)
        source = harness.prepare()._sources[NAME]
        assert isinstance(source, Source)
        source.open()
        try:
            return list(_read(source, count, self._table))
        finally:
            source.close()

    def _crash_at_flush(self, harness: PipelineHarness, number: int) -> None:
        """Fail when the sink flushes rows for the nth time; sources with fewer batches end before that."""
        flushes = 0

        def count(rows: int) -> None:
            nonlocal flushes
            flushes += rows > 0
            if flushes == number:
                raise Fault("flush failed on purpose")

        harness.before_flush = count
        harness.start(interval=0.01)
        with suppress(StreamlingError):
            self._wait_until_done(harness)


class _Quiet:
    """Whether a number has been unchanged for long enough."""

    def __init__(self, value: Callable[[], int]) -> None:
        self._value = value
        self._last, self._since = value(), time.monotonic()

    def is_over(self) -> bool:
        now = self._value()
        if now != self._last:
            self._last, self._since = now, time.monotonic()
        return time.monotonic() - self._since > _QUIET


def _read(source: Source[Any], count: int, table: Any) -> Iterator[tuple[Position, pa.Table]]:
    """Yield batches until the end, or until ``count`` rows were read and the source is idle."""
    rows, position = 0, source.restore()
    for _ in range(10_000):
        step = source.read(position)
        if isinstance(step, End) or (rows >= count and not isinstance(step, SourceBatch)):
            return
        if isinstance(step, SourceBatch):
            found = table(step.rows)
            yield position, found
            rows, position = rows + found.num_rows, step.position
        elif isinstance(step, Wait):
            time.sleep(min(step.seconds, _LONGEST_WAIT))
