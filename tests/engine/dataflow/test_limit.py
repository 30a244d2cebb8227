from streamling.engine.dataflow.limit import RowLimit


def test_without_a_limit_everything_is_allowed_and_counted():
    reached = []
    limit = RowLimit(None, lambda *call: reached.append(call))
    assert limit.take(10) == 10
    assert (limit.taken, reached, limit.is_limited) == (10, [], False)


def test_rows_beyond_the_limit_are_cut_and_their_position_is_kept():
    reached = []
    limit = RowLimit(5, lambda *call: reached.append(call))
    assert limit.take(3) == 3
    assert reached == []
    assert limit.take(3) == 2
    assert reached == [("5 records written", True)]
    assert limit.take(3) == 0


def test_an_exact_fit_lets_the_position_be_stored():
    reached = []
    RowLimit(5, lambda *call: reached.append(call)).take(5)
    assert reached == [("5 records written", False)]
