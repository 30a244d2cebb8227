"""A process that dies at any moment, seen from the sink: what it wrote, what of it was stored, what is replayed.
Whatever happens in between, the totals are those of the rows."""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest

from streamling.dev.services.postgres import LocalPostgres
from tests.connectors.postgres.aggregate.driver import Aggregate, Row, Running, transfers

pytestmark = pytest.mark.services

#: enough for every run of the suite; STREAMLING_TEST_AGGREGATE_SEEDS=500 for a longer run
SEEDS = int(os.environ.get("STREAMLING_TEST_AGGREGATE_SEEDS", "12"))
SEED = int(os.environ.get("STREAMLING_TEST_SEED", "20261115"))


@pytest.fixture
def place(postgres: LocalPostgres) -> Aggregate:
    return Aggregate(postgres.dsn)


def test_replayed_rows_count_once_however_slowly_they_are_replayed(place: Aggregate) -> None:
    rows = [transfers(("i", n, "a", 1)) for n in range(6)]
    with place.opened() as running:
        running.write(*rows)
    with place.opened() as running:  # in small epochs: the clean-up must not remove rows that are still to be replayed
        for epoch, row in enumerate(rows, start=1):
            running.write(row)
            running.finish(epoch)

    assert place.totals() == [("a", 6)]
    assert place.landed() == [(5, "i")]


def test_the_landing_table_keeps_two_epochs(place: Aggregate) -> None:
    with place.opened() as running:
        for epoch in (1, 2, 3, 4):
            running.write(transfers(("i", epoch, "a", 1)))
            running.finish(epoch)
            assert place.landed() == [(id, "i") for id in (epoch - 1, epoch) if id][-1:]
        running.finish(5)
        assert place.landed() == []
    assert place.totals() == [("a", 4)]


def test_final_rows_are_not_mistaken_for_replayed_ones(place: Aggregate) -> None:
    """The process dies after the positions were stored, before the landing table is cleaned up."""
    with place.opened() as running:
        running.write(transfers(("i", 1, "a", 10)))
        running.finish(1)
        running.write(transfers(("d", 1, "a", 10), ("i", 2, "a", 5)))
        running.stored(2)
        running.write(transfers(("i", 3, "a", 1)))  # not stored
    with place.opened() as running:
        assert place.landed() == [(3, "i")]
        running.write(transfers(("i", 3, "a", 1), ("i", 1, "a", 70), ("d", 2, "a", 5)))
        running.finish(1)

    assert place.totals() == [("a", 71)]
    assert len(place.state.items()) == 1


def test_an_epoch_that_was_superseded_is_final_with_the_later_one(place: Aggregate) -> None:
    with place.opened() as running:
        running.write(transfers(("i", 1, "a", 10)))
        running.acknowledged(1)
        running.stored(2)
    with place.opened() as running:
        running.write(transfers(("i", 1, "a", 4)))

    assert place.totals() == [("a", 14)]


def test_rows_that_overtake_a_marker_are_not_final_with_it(place: Aggregate) -> None:
    overtaking = transfers(("i", 2, "a", 5))
    with place.opened() as running:
        running.write(transfers(("i", 1, "a", 10)))
        running.sink.on_first_marker(1)
        running.write(overtaking)
        running.finish(1)
    with place.opened() as running:
        running.write(overtaking)
        running.finish(1)

    assert place.totals() == [("a", 15)]


def test_other_processes_on_the_same_tables_keep_their_rows(place: Aggregate) -> None:
    """Each of several instances of a pipeline has its own epochs; one replays what the other did not store."""
    with place.opened() as left, place.opened() as dying:
        dying.write(transfers(("i", 1, "a", 10)))
        for epoch in range(1, 9):
            left.write(transfers(("i", 10 + epoch, "a", 1)))
            left.finish(epoch)
        assert (1, "i") in place.landed()
        dying.crash()
        left.write(transfers(("i", 1, "a", 10)))
        left.finish(9)

    assert place.totals() == [("a", 18)]


def test_rows_without_a_run_stay_until_they_are_replayed(place: Aggregate) -> None:
    """Rows of the Rust implementation have small epochs."""
    place.write(transfers(("i", 1, "a", 10)))
    place.execute("UPDATE {log} SET _gs_checkpoint_epoch = 3")
    place.state = type(place.state)()
    with place.opened() as running:
        for epoch in range(1, 9):
            running.write(transfers(("i", 100 + epoch, "b", 1)))
            running.finish(epoch)
        running.write(transfers(("i", 1, "a", 10)))
        running.finish(9)

    assert place.totals() == [("a", 10), ("b", 8)]


def test_an_idle_sink_stores_nothing_in_the_state(place: Aggregate) -> None:
    with place.opened() as running:
        assert running.acknowledged(1) == {}
        running.write(transfers(("i", 1, "a", 10)))
        assert list(running.acknowledged(2).values()) == [2]
        running.sink.finalized(2)
        assert running.acknowledged(3) == {}


def test_cleaning_up_may_fail(place: Aggregate) -> None:
    with place.opened() as running:
        running.write(transfers(("i", 1, "a", 10)))
        running.finish(1)
        place.execute("ALTER TABLE {log} RENAME TO elsewhere")
        running.finish(2)
        place.execute("ALTER TABLE {s}.elsewhere RENAME TO log")
        assert place.landed() == [(1, "i")]
        running.finish(3)
        assert place.landed() == []


# ── any moment ──────────────────────────────────────────────────────────────────────────────────────────────


class Stream:
    """A source: rows in a fixed order, and the stored position."""

    def __init__(self, chance: random.Random, first: int) -> None:
        self.rows: list[Row] = []
        alive: list[Row] = []
        for id in range(first, first + chance.randrange(20, 80)):
            row = (id, chance.choice("abc"), chance.randrange(-100, 100))
            self.rows.append(("i", *row))
            alive.append(row)
            if chance.random() < 0.3:
                self.rows.append(("d", *alive.pop(chance.randrange(len(alive)))))
        self.stored = self.at = self.marked = 0


def one_life(place: Aggregate, streams: list[Stream], chance: random.Random) -> None:
    """Run a process from its start to its end, which comes at any moment, or when everything is stored."""
    for stream in streams:
        stream.at = stream.stored
    with place.opened() as running:
        for epoch in range(1, 1000):
            if not _epoch(running, place, streams, epoch, chance):
                return
            if all(stream.stored == len(stream.rows) for stream in streams) and epoch > 2:
                return


def _epoch(running: Running, place: Aggregate, streams: list[Stream], epoch: int, chance: random.Random) -> bool:
    """Write rows with a marker of each stream among them, store positions, clean up; return False if the process
    died."""
    _some_rows(running, streams, chance)
    for number, stream in enumerate(chance.sample(streams, len(streams))):
        stream.marked = stream.at
        if number < len(streams) - 1:
            running.sink.on_first_marker(epoch)
            _some_rows(running, [other for other in streams if chance.random() < 0.7] or streams, chance)
    entries = running.acknowledged(epoch)
    if chance.random() < 0.1:
        return False
    if chance.random() < 0.1:  # superseded by the next one
        return True
    place.state.put_many(entries)
    for stream in streams:
        stream.stored = stream.marked
    if chance.random() < 0.1:
        return False
    if chance.random() < 0.5:  # notified later, or never
        running.sink.finalized(epoch)
    return chance.random() > 0.05


def _some_rows(running: Running, streams: list[Stream], chance: random.Random) -> None:
    for _ in range(chance.randrange(3)):
        stream = chance.choice(streams)
        rows = stream.rows[stream.at : stream.at + chance.randrange(1, 12)]
        if rows:
            running.write(transfers(*rows))
            stream.at += len(rows)


@pytest.mark.parametrize("number", range(SEEDS))
def test_totals_are_exact_whenever_the_process_dies(place: Aggregate, number: int) -> None:
    print(f"seed {SEED + number}")
    chance = random.Random(SEED + number)
    streams = [Stream(chance, 1000 * n) for n in range(chance.choice((1, 2, 3)))]
    for _ in range(200):
        one_life(place, streams, chance)
        if all(stream.stored == len(stream.rows) for stream in streams):
            break
    expected: Counter[str] = Counter()
    for operation, _, account, amount in (row for stream in streams for row in stream.rows):
        expected[account] += -amount if operation == "d" else amount
    assert place.totals() == sorted(expected.items())
