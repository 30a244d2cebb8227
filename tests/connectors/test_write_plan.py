"""Plans against a model that writes rows one at a time. No server: a dictionary replaces the table."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from streamling.connectors.write_plan import (
    WritePlan,
    after_last_delete,
    first_wins,
    in_rounds,
    last_rows,
    last_wins,
)

#: key, value, is_delete
Change = tuple[Any, int, bool]
Table = dict[Any, int]


def update(table: Table, key: Any, value: int) -> None:
    table[key] = value


def keep(table: Table, key: Any, value: int) -> None:
    table.setdefault(key, value)


def update_greater(table: Table, key: Any, value: int) -> None:
    table[key] = max(value, table.get(key, value))


def one_at_a_time(table: Table, changes: Sequence[Change], write: Callable[[Table, Any, int], None]) -> None:
    for key, value, deleted in changes:
        if deleted:
            table.pop(key, None)
        else:
            write(table, key, value)


def by_plan(table: Table, changes: Sequence[Change], write: Callable[[Table, Any, int], None], plan: WritePlan) -> None:
    rows = range(len(changes)) if plan.rows is None else plan.rows.to_pylist()
    steps = [0] * len(rows) if plan.steps_of_rows is None else plan.steps_of_rows.to_pylist()
    assert set(steps) <= {number for number, _ in plan.steps}
    for number, action in plan.steps:
        now = [changes[row] for row, step in zip(rows, steps, strict=True) if step == number]
        keys = [key for key, _, _ in now]
        assert len(keys) == len(set(keys)), "a key came twice in one step"
        one_at_a_time(table, [(key, value, action == "delete") for key, value, _ in now], write)


def plan_for(make: Callable[..., WritePlan], changes: Sequence[Change]) -> WritePlan:
    deleted = [deleted for _, _, deleted in changes]
    return make(key_table(changes), pa.array(deleted, pa.bool_()) if any(deleted) else None)


def key_table(changes: Sequence[Change]) -> pa.Table:
    keys = [key if isinstance(key, tuple) else (key,) for key, _, _ in changes]
    types = (pa.int64(), pa.string())
    return pa.table({f"k{n}": pa.array(column, types[n]) for n, column in enumerate(zip(*keys, strict=True))})


WAYS = [
    pytest.param(last_wins, update, id="last wins"),
    pytest.param(first_wins, keep, id="first wins"),
    pytest.param(in_rounds, update, id="rounds"),
    pytest.param(in_rounds, keep, id="rounds, first wins"),
    pytest.param(in_rounds, update_greater, id="rounds, greater wins"),
]
SEEDS = int(os.environ.get("STREAMLING_TEST_WRITE_PLANS", "15"))
KEYS: list[Callable[[random.Random], Any]] = [
    lambda chance: chance.randrange(4),
    lambda chance: (chance.randrange(2), chance.choice(["", " ", "ü", None])),
]


@pytest.mark.parametrize(("make", "write"), WAYS)
@pytest.mark.parametrize("key", KEYS, ids=["one column", "two columns, nulls"])
@pytest.mark.parametrize("deletes", [0.0, 0.3, 1.0])
def test_a_plan_has_the_result_of_rows_written_one_at_a_time(make, write, key, deletes) -> None:
    for seed in range(SEEDS):
        chance = random.Random(seed)
        expected: Table = {key(chance): -1 for _ in range(2)}
        found = dict(expected)
        for _ in range(3):
            size = chance.randint(1, 12)
            changes = [(key(chance), chance.randrange(9), chance.random() < deletes) for _ in range(size)]
            one_at_a_time(expected, changes, write)
            by_plan(found, changes, write, plan_for(make, changes))
            assert found == expected, f"seed {seed}: {changes}"


@pytest.mark.parametrize("make", [last_wins, first_wins, in_rounds])
def test_rows_with_distinct_keys_are_kept_as_they_are(make) -> None:
    plan = plan_for(make, [(1, 0, False), (2, 0, False)])
    assert plan == WritePlan(None, None, ((0, "write"),))


@pytest.mark.parametrize("make", [last_wins, first_wins])
def test_a_repeated_key_takes_at_most_two_steps(make) -> None:
    changes = [(n % 3, n, n % 7 == 0) for n in range(1000)]
    assert len(plan_for(make, changes).steps) <= 2


@pytest.mark.parametrize("key", KEYS, ids=["one column", "two columns, nulls"])
def test_rows_after_the_last_delete_have_the_result_of_rows_written_one_at_a_time(key) -> None:
    for seed in range(SEEDS):
        chance = random.Random(seed)
        changes = [(key(chance), chance.randrange(9), chance.random() < 0.3) for _ in range(chance.randint(1, 12))]
        expected: dict[Any, list[int]] = {key(chance): [-1] for _ in range(2)}
        found = {key: list(values) for key, values in expected.items()}
        for key_, value, is_delete in changes:
            expected[key_] = [] if is_delete else [*expected.get(key_, []), value]
        deletes, rows = after_last_delete(key_table(changes), pa.array([change[2] for change in changes]))
        for row in deletes.to_pylist():
            found[changes[row][0]] = []
        for row in rows.to_pylist():
            found.setdefault(changes[row][0], []).append(changes[row][1])
        assert found == expected, f"seed {seed}: {changes}"


@pytest.mark.parametrize("key", KEYS, ids=["one column", "two columns, nulls"])
def test_the_last_row_with_the_highest_version_is_kept(key) -> None:
    for seed in range(SEEDS):
        chance = random.Random(seed)
        rows = [(key(chance), chance.randrange(3), False) for _ in range(chance.randint(1, 12))]
        expected: dict[Any, int] = {}
        for number, (key_, version, _) in enumerate(rows):
            kept = expected.get(key_)
            if kept is None or version >= rows[kept][1]:
                expected[key_] = number
        found = last_rows(key_table(rows), pa.array([row[1] for row in rows], pa.int64()))
        assert (list(range(len(rows))) if found is None else found.to_pylist()) == sorted(expected.values()), rows


def test_the_last_row_of_each_key_is_found_in_any_order() -> None:
    assert last_rows(pa.table({"k": pa.array([1, 2, 3])})) is None
    assert last_rows(pa.table({"k": pa.array([1, 2, 2])})).to_pylist() == [0, 2]
    assert last_rows(pa.table({"k": pa.array([3, 1, 3])})).to_pylist() == [1, 2]
    assert last_rows(pa.table({"k": pa.array([1, None, None])})).to_pylist() == [0, 2]
    assert last_rows(pa.table({"k": pa.array([], pa.int64())})) is None
