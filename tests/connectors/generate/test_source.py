"""The generate source: positions, batches and its contract."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from streamling.connectors.generate.source import GenerateSource, Pace
from streamling.plugins.sources import End, SourceBatch, Wait
from streamling.testing import SourceContract
from tests.connectors.generate.driver import NAME, generate, make_source

COLUMNS: Mapping[str, Any] = {
    "id": "sequence",
    "customer": {"generator": "name", "nulls": 0.1},
    "email": "email",
    "key": "uuid",
    "code": {"generator": "pattern", "pattern": "##-??"},
    "status": {"generator": "choice", "values": ["new", "paid"], "weights": [3, 1]},
    "amount": {"generator": "number", "min": 1, "max": 100, "type": "decimal(10,2)"},
    "at": {"generator": "time", "min": "2026-01-01", "max": "2026-02-01"},
}
CHANGES = {"primary_key": "id", "changes": {"updates": 0.3, "deletes": 0.1, "columns": "status, amount"}}

EXPECTED = {
    "id": "26",
    "customer": "Samir Schmidt",
    "email": "sofia.yilmaz.656@example.com",
    "key": "9ea11e37-180e-4bb7-83b7-40b9b3da91cd",
    "code": "38-JZ",
    "status": "paid",
    "amount": "77.76",
    "at": "2026-01-23 18:03:17.630581+00:00",
    "_gs_op": "i",
}


@pytest.mark.parametrize("fields", [{}, CHANGES], ids=["inserts", "changes"])
def test_a_row_does_not_depend_on_its_batch(fields: dict[str, Any]) -> None:
    chance = random.Random(7)
    whole = generate(COLUMNS, 500, **fields)
    parts, first = [], 0
    while first < 500:
        rows = min(chance.randint(1, 90), 500 - first)
        parts.append(generate(COLUMNS, rows, first=first, **fields))
        first += rows
    assert pa.concat_tables(parts).equals(whole)
    assert generate(COLUMNS, 5, first=10**12, **fields).num_rows == 5


def test_rows_never_change_with_a_version() -> None:
    """A pipeline that is updated while it is stopped continues with the same rows."""
    (row,) = generate(COLUMNS, 1, first=41, **CHANGES).to_pylist()
    assert {name: str(value) for name, value in row.items()} == EXPECTED


def test_another_seed_gives_other_rows() -> None:
    one, two = generate(COLUMNS, 100, seed=1), generate(COLUMNS, 100, seed=2)
    assert one.equals(generate(COLUMNS, 100, seed=1))
    assert one["id"].equals(two["id"])
    for name in set(COLUMNS) - {"id"}:
        assert not one[name].equals(two[name])


def test_columns_are_independent_of_each_other() -> None:
    number = {"generator": "number", "min": 1, "max": 1_000_000}
    found = generate({"a": number, "b": number}, 100)
    assert not found["a"].equals(found["b"])
    assert found["a"].equals(generate({"b": "name", "a": number}, 100)["a"])


def test_it_ends_after_its_count() -> None:
    source = make_source({"id": "sequence"}, count=3)
    step = source.read(source.restore())
    assert isinstance(step, SourceBatch)
    assert step.position == {NAME: 3}
    assert isinstance(source.read(step.position), End)
    assert source.progress() is not None
    assert source.bounded
    assert not make_source({"id": "sequence"}).bounded


def test_a_slow_source_waits_between_rows() -> None:
    source = make_source({"id": "sequence"}, rows_per_second=0.001)
    step = source.read({})
    assert isinstance(step, SourceBatch)
    assert isinstance(step.rows, pa.RecordBatch)
    assert step.rows.num_rows == 1
    wait = source.read(step.position)
    assert isinstance(wait, Wait)
    assert 900 < wait.seconds <= 1000


class TestContract(SourceContract):
    operator = GenerateSource

    def options(self) -> dict[str, Any]:
        times = {"generator": "time_sequence", "start": "2026-01-01", "step": "1s"}
        return {"columns": {"id": "sequence", "at": times}, "count": 60, "rows_per_second": 500}

    def expected(self) -> list[dict[str, Any]]:
        start = datetime(2026, 1, 1, tzinfo=ZoneInfo("UTC"))
        return [{"id": number + 1, "at": start + timedelta(seconds=number)} for number in range(60)]


def deliver(pace: Pace, until: float, *, now: float = 0.0, most: int = 100_000) -> list[tuple[float, int]]:
    """Ask for rows like the engine; returns when how many were delivered."""
    batches = []
    while now < until:
        if rows := pace.take(now, most):
            batches.append((now, rows))
        now += max(pace.wait(now), 1e-6)
    return batches


@pytest.mark.parametrize("rate", [0.1, 1, 7, 50, 51, 333, 1_000, 250_000])
def test_the_rate_is_kept(rate: float) -> None:
    seconds = 100
    delivered = sum(rows for _, rows in deliver(Pace(rate), seconds))
    assert delivered == pytest.approx(rate * seconds, rel=0.01, abs=1)


def test_slow_rows_come_one_by_one_at_equal_distances() -> None:
    batches = deliver(Pace(4), 3)
    assert [rows for _, rows in batches] == [1] * 12
    assert [now for now, _ in batches] == pytest.approx([number / 4 for number in range(12)])


def test_fast_rows_come_in_small_batches() -> None:
    batches = deliver(Pace(1_000), 1)
    assert max(rows for _, rows in batches) <= 21
    assert len(batches) <= 51


def test_a_short_delay_is_made_up_for() -> None:
    pace = Pace(100)
    pace.take(0.0, 1000)
    assert pace.take(0.5, 1000) == 50


def test_a_long_pause_does_not_end_in_a_flood() -> None:
    pace = Pace(100)
    pace.take(0.0, 1_000_000)
    assert pace.take(3600.0, 1_000_000) == 101
    assert sum(rows for _, rows in deliver(pace, 3610, now=3600.0)) == pytest.approx(1_000, abs=1)


def test_rows_that_do_not_fit_into_a_batch_come_immediately_after_it() -> None:
    pace = Pace(1_000)
    pace.take(0.0, 10)
    assert [pace.take(0.03, 10) for _ in range(4)] == [10, 10, 10, 0]


def test_a_slow_row_that_is_late_does_not_shift_the_next_one() -> None:
    pace = Pace(1)
    pace.take(0.0, 10)
    assert pace.take(1.4, 10) == 1
    assert pace.wait(1.4) == pytest.approx(0.6)
