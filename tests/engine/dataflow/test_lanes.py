import pyarrow as pa

from streamling.engine.dataflow.lanes import Router


def batch(ids, names=None) -> pa.RecordBatch:
    columns = {"id": pa.array(ids, pa.int64())}
    if names is not None:
        columns["name"] = pa.array(names, pa.string())
    return pa.record_batch(columns)


def test_one_instance_gets_the_batch_itself():
    one = batch([1, 2])
    assert list(Router(1, ("id",)).split(one)) == [(0, one)]


def test_without_a_key_batches_take_turns():
    router = Router(2)
    assert [instance for _ in range(4) for instance, _ in router.split(batch([1]))] == [0, 1, 0, 1]


def test_a_key_always_goes_to_the_same_instance():
    first, second = Router(3, ("id",)), Router(3, ("id",))
    owner = {row: i for i, share in first.split(batch(range(100))) for row in share.column("id").to_pylist()}
    for i, share in second.split(batch(reversed(range(100)))):
        assert all(owner[row] == i for row in share.column("id").to_pylist())


def test_every_row_goes_to_exactly_one_instance_and_keeps_its_order():
    shares = dict(Router(4, ("id",)).split(batch(range(1000))))
    assert len(shares) == 4
    assert sorted(row for share in shares.values() for row in share.column("id").to_pylist()) == list(range(1000))
    assert all(share.column("id").to_pylist() == sorted(share.column("id").to_pylist()) for share in shares.values())


def test_null_and_composite_keys_are_routed_too():
    router = Router(2, ("id", "name"))
    rows = [row for _, share in router.split(batch([1, None, 1], ["a", None, "b"])) for row in share.to_pylist()]
    assert len(rows) == 3


def test_a_key_column_that_is_missing_falls_back_to_turns():
    assert [i for i, _ in Router(2, ("other",)).split(batch([1]))] == [0]
