"""The log of inserts against a model: a table that remembers tokens. No server: a list replaces it."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest

from streamling.connectors.clickhouse.insert_log import InsertLog, RowsAhead
from streamling.engine.run.contexts import NodeStateView
from streamling.engine.state.memory import MemoryState

SEEDS = int(os.environ.get("STREAMLING_TEST_WRITE_PLANS", "15"))
#: number and key of a row
Row = tuple[int, int]
ROWS: Sequence[Row] = [(number, number % 5) for number in range(60)]


class Crash(Exception):
    """The process ends here."""


class FakeTable:
    """Remembers tokens as ClickHouse does, and in which order rows arrived."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._tokens: set[str] = set()

    def insert(self, token: str, rows: list[Row]) -> None:
        if token not in self._tokens:
            self._tokens.add(token)
            self.rows += rows


class Pipeline:
    """A source, a sink and their state, which survive crashes."""

    def __init__(self, seed: int, *, shuffled: bool = False) -> None:
        self.table = FakeTable()
        self._chance = random.Random(seed)
        self._shuffled = shuffled
        self._state = MemoryState()
        self._epoch = 0

    def run(self, crash_after: float) -> None:
        """Run to the end, or until the process ends after as many steps."""
        self._steps = crash_after
        self._log = opened(self._state, is_empty=not self.table.rows)
        position = self._state.get("in") or 0
        marker: int | None = None
        held = 0
        for part in self._batches(position):
            for block in self._log.cut(pa.record_batch({"n": [n for n, _ in part], "k": [k for _, k in part]})):
                self._insert(block)
                if marker is not None:  # it waited for the first rows of this block
                    self._checkpoint(marker, block.slice(held))
                    marker = None
            position += len(part)
            if marker is None and self._chance.random() < 0.3:
                marker, held = position, self._log.waiting_rows
                if not held:
                    self._checkpoint(marker)
                    marker = None
        for block in self._log.drain():
            self._insert(block)
        self._checkpoint(position)

    def _batches(self, position: int) -> Iterator[list[Row]]:
        while position < len(ROWS):
            size = self._chance.randint(1, 7)
            part = list(ROWS[position : position + size])
            if self._shuffled:  # rows of one key stay in order, as those of a partition do
                ranks = {key: self._chance.random() for key in range(5)}
                part.sort(key=lambda row: ranks[row[1]])
            yield part
            position += size

    def _insert(self, block: pa.RecordBatch) -> None:
        rows = [(row["n"], row["k"]) for row in block.to_pylist()]
        token = self._log.begin(len(rows), _content(block))
        if token is None:
            return
        self._log.store()
        self._step()
        self.table.insert(token, rows)
        if self._chance.random() < 0.2:
            self.table.insert(token, rows)  # the response was lost
        self._step()

    def _checkpoint(self, position: int, after: pa.RecordBatch | None = None) -> None:
        self._epoch += 1
        ahead = RowsAhead(after.num_rows, _content(after)) if after is not None and after.num_rows else None
        entries = self._log.marker(self._epoch, ahead)
        self._step()
        self._state.put_positions({"in": position, **entries})
        self._step()
        if self._chance.random() < 0.8:
            self._log.finalized(self._epoch)

    def _step(self) -> None:
        self._steps -= 1
        if self._steps < 0:
            raise Crash


def _content(block: pa.RecordBatch) -> bytes:
    return repr(block.to_pylist()).encode()


def test_every_row_is_inserted_once_in_order_wherever_the_process_ends() -> None:
    for seed in range(SEEDS):
        crash_after, crashed = 0, True
        while crashed:
            pipeline = Pipeline(seed)
            crashed = False
            try:
                pipeline.run(crash_after)
            except Crash:
                crashed = True
                pipeline.run(float("inf"))
            assert pipeline.table.rows == ROWS, f"seed {seed}, crash after {crash_after} steps"
            crash_after += 1


def test_every_row_is_inserted_once_in_order_however_often_the_process_ends() -> None:
    for seed in range(5 * SEEDS):
        pipeline, chance = Pipeline(seed), random.Random(seed)
        for crash_after in [*(chance.randrange(15) for _ in range(12)), float("inf")]:
            try:
                pipeline.run(crash_after)
                break
            except Crash:
                continue
        assert pipeline.table.rows == ROWS, f"seed {seed}"


@pytest.mark.parametrize("shuffled", [False, True], ids=["same order", "other order"])
def test_the_last_row_of_every_key_is_the_newest_however_often_the_process_ends(shuffled: bool) -> None:
    for seed in range(5 * SEEDS):
        pipeline, chance = Pipeline(seed, shuffled=shuffled), random.Random(seed)
        for crash_after in [*(chance.randrange(30) for _ in range(8)), float("inf")]:
            try:
                pipeline.run(crash_after)
                break
            except Crash:
                continue
        assert {key: number for number, key in pipeline.table.rows} == {key: number for number, key in ROWS}, seed


def test_blocks_after_one_that_differs_are_not_skipped() -> None:
    """If the second block was inserted again and the third was not, an old row would replace a newer one."""
    state = MemoryState()
    first = opened(state)
    for content in (b"a", b"b", b"c", b"d"):
        assert begin(first, content) is not None
    again = opened(state)
    assert begin(again, b"a") is None
    assert begin(again, b"x") is not None
    assert begin(again, b"c") is not None


def test_the_last_block_is_sent_again_with_the_same_token() -> None:
    state = MemoryState()
    first = opened(state)
    tokens = [begin(first, content) for content in (b"a", b"b")]
    again = opened(state)
    assert [begin(again, content) for content in (b"a", b"b")] == [None, tokens[1]]


def test_equal_blocks_of_one_run_have_different_tokens() -> None:
    log = opened(MemoryState())
    assert begin(log, b"a") != begin(log, b"a")


def test_runs_without_a_state_have_different_tokens() -> None:
    assert begin(InsertLog(None, "key"), b"a") != begin(InsertLog(None, "key"), b"a")


@pytest.mark.parametrize(
    ("table", "is_empty"), [("another", False), ("t", True)], ids=["created again", "emptied by the user"]
)
def test_blocks_in_a_table_that_no_longer_has_them_are_inserted_again(table: str, is_empty: bool) -> None:
    state = MemoryState()
    first = opened(state)
    for content in (b"a", b"b"):
        begin(first, content)
    again = opened(state, table, is_empty=is_empty)
    assert begin(again, b"a") is not None


def test_a_final_checkpoint_forgets_its_blocks() -> None:
    state = MemoryState()
    log = opened(state)
    begin(log, b"a")
    state.put_positions(log.marker(1))
    begin(log, b"b")
    state.put_positions(log.marker(2))
    log.finalized(1)
    begin(log, b"c")
    stored = state.get("out:inserts:0/1:blocks")
    assert stored is not None
    assert len(stored["blocks"]) == 2
    assert begin(opened(state), b"c") is not None, "it is in doubt"


def test_the_log_does_not_grow_without_bounds() -> None:
    state = MemoryState()
    log = opened(state)
    for _ in range(1100):
        begin(log, b"a")
    stored = state.get("out:inserts:0/1:blocks")
    assert stored is not None
    assert len(stored["blocks"]) == 1000


def test_a_log_of_another_number_of_instances_is_removed() -> None:
    state = MemoryState()
    begin(opened(state), b"a")
    log = InsertLog(NodeStateView(state, "out", ()), "out", 1, 2)
    log.open("t", is_empty=False)
    assert state.get_prefix("out:") == {}
    begin(log, b"a")
    other = InsertLog(NodeStateView(state, "out", ()), "out", 0, 2)
    other.open("t", is_empty=False)
    assert list(state.get_prefix("out:")) == ["out:inserts:1/2:blocks"]


def opened(state: MemoryState, table: str = "t", *, is_empty: bool = False) -> InsertLog:
    log = InsertLog(NodeStateView(state, "out", ()), "out")
    log.open(table, is_empty=is_empty)
    return log


def begin(log: InsertLog, content: bytes) -> str | None:
    token = log.begin(1, content)
    if token is not None:
        log.store()
    return token
