"""The change log of a generate source."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from tests.connectors.generate.driver import generate

COLUMNS = {
    "id": "sequence",
    "name": "name",
    "status": {"generator": "choice", "values": ["a", "b", "c", "d", "e", "f", "g", "h"]},
}


def log(rows: int, **changes: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = generate(COLUMNS, rows, primary_key="id", changes=changes).to_pylist()
    return found


@pytest.mark.parametrize("seed", range(20))
def test_only_rows_that_exist_are_changed(seed: int) -> None:
    chance = random.Random(seed)
    deletes = chance.random() * 0.45
    updates = chance.random() * (0.99 - 2 * deletes)
    existing: set[int] = set()
    for row in log(3_000, updates=updates, deletes=deletes):
        if row["_gs_op"] == "i":
            assert row["id"] not in existing
            existing.add(row["id"])
        else:
            assert row["id"] in existing
            if row["_gs_op"] == "d":
                existing.remove(row["id"])


def test_kinds_have_their_shares() -> None:
    counts = Counter(row["_gs_op"] for row in log(10_000, updates=0.3, deletes=0.1))
    assert counts == {"i": 6_000, "u": 3_000, "d": 1_000}
    assert Counter(row["_gs_op"] for row in log(1_000, deletes=0.25)) == {"i": 750, "d": 250}


def test_an_update_changes_the_named_columns_only() -> None:
    names: dict[int, str] = {}
    changed = 0
    statuses: dict[int, str] = {}
    for row in log(2_000, updates=0.5, columns="status"):
        assert names.setdefault(row["id"], row["name"]) == row["name"]
        changed += statuses.get(row["id"], row["status"]) != row["status"]
        statuses[row["id"]] = row["status"]
    assert changed > 500


def test_by_default_an_update_changes_everything_but_the_key() -> None:
    first: dict[int, str] = {}
    rows = log(2_000, updates=0.5)
    assert sum(first.setdefault(row["id"], row["name"]) != row["name"] for row in rows) > 900


def test_without_changes_every_row_is_an_insert() -> None:
    assert "_gs_op" not in generate(COLUMNS, 1).schema.names
