from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from streamling.errors import StreamlingError
from streamling.observe.row_filter import RowFilter

ROWS = pa.record_batch(
    {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "Name": pa.array(["Ada", "bob", None, "cy%"], pa.string()),
        "price": pa.array([Decimal("1.50"), Decimal("2.50"), None, Decimal("10.00")], pa.decimal128(10, 2)),
        "at": pa.array([datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3, 4)], pa.timestamp("us", "UTC")),
        "address": pa.array([{"city": city} for city in ("Rome", "Bern", "Oslo", None)]),
        "ok": pa.array([True, False, None, True]),
        "_gs_op": pa.array(["i", "u", "d", "i"]),
    }
)


def selected(condition: str | None, kinds: str = "") -> list[int]:
    chosen = RowFilter.of(condition, frozenset(kinds)).apply(ROWS)
    return chosen.column("id").to_pylist()


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("id > 2", [3, 4]),
        ("id = 1 or id = 4", [1, 4]),
        ("id >= 2 and id <= 3", [2, 3]),
        ("not id < 3", [3, 4]),
        ("id <> 2", [1, 3, 4]),
        ("id between 2 and 3", [2, 3]),
        ("id not between 2 and 3", [1, 4]),
        ("id in (1, 3)", [1, 3]),
        ("id not in (1, 3)", [2, 4]),
        ("id % 2 = 0 or id = 1", None),
        ("id * 2 + 1 > 7", [4]),
        ("-id < -3", [4]),
        ("name = 'Ada'", [1]),
        ("lower(name) = 'ada'", [1]),
        ("upper(name) like 'B%'", [2]),
        ("name ilike 'a_a'", [1]),
        ("name not like '%b%'", [1, 4]),
        ("name is null", [3]),
        ("name is not null", [1, 2, 4]),
        ("coalesce(name, 'none') = 'none'", [3]),
        ("length(name) = 3", [1, 2, 4]),
        ("abs(id) = 2", [2]),
        ("price > 2", [2, 4]),
        ("price = 2.5", [2]),
        ("at > '2026-01-02'", [3, 4]),
        ("`at` <= '2026-01-01T00:00:00Z'", [1]),
        ("address.city = 'Oslo'", [3]),
        ("ok", [1, 4]),
        ("ok = false", [2]),
        ("_gs_op = 'u'", [2]),
        ("'Ada' = name", [1]),
        ("null", []),
        ("true", [1, 2, 3, 4]),
        ("", [1, 2, 3, 4]),
        (None, [1, 2, 3, 4]),
    ],
)
def test_conditions(condition, ids):
    if ids is None:
        with pytest.raises(StreamlingError, match="not supported here"):
            selected(condition)
    else:
        assert selected(condition) == ids


def test_row_kinds_are_selected_with_and_without_a_condition():
    assert selected(None, "ud") == [2, 3]
    assert selected("id > 2", "ud") == [3]


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("id >", "cannot be read"),
        ("id = ", "cannot be read"),
        ("select 1", "is not supported here"),
        ("exists(select 1)", "is not supported here"),
        ("nme = 'Ada'", "the column 'nme', which the rows do not have"),
        ("id = 'abc'", "does not fit the rows"),
        ("name > 3", "does not fit the rows"),
        ("id", "does not fit the rows"),
        ("name like name", "must be a quoted text"),
        ("x" * 20_000, "more than 10000 characters"),
        (" and ".join(["id=1"] * 1100), "too many conditions|cannot be read"),
        ("(" * 3000 + "id" + ")" * 3000, "cannot be read"),
    ],
)
def test_what_cannot_be_evaluated_is_one_sentence(condition, message):
    with pytest.raises(StreamlingError, match=message) as error:
        selected(condition)
    assert not error.value.internal
    assert "\n" not in str(error.value)


def test_a_condition_can_be_checked_before_there_are_rows():
    RowFilter.of("price > 2 and at > '2026-01-01'", frozenset()).check(ROWS.schema)
    with pytest.raises(StreamlingError, match="the column 'cost'"):
        RowFilter.of("cost > 2", frozenset()).check(ROWS.schema)


def test_unknown_row_kinds_are_refused():
    with pytest.raises(StreamlingError, match="'x' is not a row kind"):
        selected(None, "ix")


def test_rows_without_row_kinds_are_all_selected():
    plain = pa.record_batch({"id": [1, 2]})
    assert RowFilter.of(None, frozenset("d")).apply(plain).num_rows == 2
