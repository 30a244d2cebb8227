import pyarrow as pa
import pytest

from streamling.engine.dataflow.rebatch import Rebatcher


def rows(*ids: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(ids, pa.int64())})


def ids(batches) -> list[list[int]]:
    return [batch.column("id").to_pylist() for batch in batches]


def test_without_settings_batches_pass_as_they_are():
    rebatcher = Rebatcher(None, None)
    assert ids(rebatcher.add(rows(1, 2), now=0)) == [[1, 2]]
    assert rebatcher.due(now=100) is None


def test_rows_wait_until_a_batch_is_full():
    rebatcher = Rebatcher(3, None)
    assert ids(rebatcher.add(rows(1, 2), now=0)) == []
    assert ids(rebatcher.add(rows(3, 4), now=0)) == [[1, 2, 3]]
    assert ids(rebatcher.drain()) == [[4]]


def test_a_large_batch_is_cut_into_full_ones_and_the_rest_waits():
    rebatcher = Rebatcher(2, None)
    assert ids(rebatcher.add(rows(1, 2, 3, 4, 5), now=0)) == [[1, 2], [3, 4]]
    assert ids(rebatcher.drain()) == [[5]]


def test_an_exact_fill_leaves_nothing_waiting():
    rebatcher = Rebatcher(2, 1.0)
    assert ids(rebatcher.add(rows(1, 2), now=0)) == [[1, 2]]
    assert rebatcher.due(now=50) is None
    assert ids(rebatcher.drain()) == []


def test_the_interval_counts_from_the_first_waiting_row():
    rebatcher = Rebatcher(10, 1.0)
    list(rebatcher.add(rows(1), now=5.0))
    list(rebatcher.add(rows(2), now=5.7))
    assert rebatcher.due(now=5.7) == pytest.approx(0.3)
    assert rebatcher.due(now=6.5) == 0.0


def test_only_an_interval_collects_everything_into_one_batch():
    rebatcher = Rebatcher(None, 1.0)
    assert ids(rebatcher.add(rows(1, 2), now=0)) == []
    assert ids(rebatcher.add(rows(3), now=0.5)) == []
    assert ids(rebatcher.drain()) == [[1, 2, 3]]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_every_row_comes_out_once_and_in_order(size):
    rebatcher = Rebatcher(size, None)
    out = []
    for start in range(0, 50, 5):
        out += ids(rebatcher.add(rows(*range(start, start + 5)), now=0))
    out += ids(rebatcher.drain())
    assert [one for batch in out for one in batch] == list(range(50))


def test_batches_of_other_columns_are_not_joined():
    rebatcher = Rebatcher(3, None)
    assert ids(rebatcher.add(rows(1, 2), now=0)) == []
    wider = rows(3).append_column("name", pa.array(["c"]))
    assert ids(rebatcher.add(wider, now=0)) == [[1, 2]]
    (last,) = rebatcher.drain()
    assert last.to_pylist() == [{"id": 3, "name": "c"}]
