"""Finding the bad rows of a batch."""

from __future__ import annotations

import pyarrow as pa
import pytest

from streamling.errors import BadRow
from streamling.plugins.rejects import reject_failing_rows


@pytest.mark.parametrize(
    ("bad", "most_calls"),
    [
        (set(), 1),
        ({0}, 25),
        ({999}, 25),
        ({437}, 35),
        ({1, 2, 500}, 70),
        (set(range(1000)), 1011),
        (set(range(0, 1000, 2)), 2000),
    ],
    ids=["none", "first", "last", "middle", "three", "all", "every other"],
)
def test_all_rows_come_in_order_but_the_bad_ones(bad: set[int], most_calls: int) -> None:
    taken: list[int] = []
    rejected: list[int] = []
    calls = 0

    def call(part: pa.RecordBatch) -> None:
        nonlocal calls
        calls += 1
        ids = part.column("id").to_pylist()
        if bad.intersection(ids):
            raise BadRow.user("no good", remedy="none")
        taken.extend(ids)

    def reject(part: pa.RecordBatch, error: str) -> None:
        assert (part.num_rows, error) == (1, "no good (none)")
        rejected.extend(part.column("id").to_pylist())

    reject_failing_rows(call, pa.record_batch({"id": range(1000)}), reject)
    assert rejected == sorted(bad)
    assert taken == [id for id in range(1000) if id not in bad]
    assert calls <= most_calls


def test_other_errors_do_not_reject_rows() -> None:
    def call(part: pa.RecordBatch) -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        reject_failing_rows(call, pa.record_batch({"id": [1, 2]}), lambda part, error: None)
