import pytest

from streamling.errors import InvalidPipeline, Problem, StreamlingError, error_context


def test_context_is_added_outermost_first_and_flags_stay():
    error = StreamlingError.transient("connection refused").context("asking the registry").context("kafka source 'a'")
    assert str(error) == "kafka source 'a': asking the registry: connection refused"
    assert (error.internal, error.retriable) == (True, True)


def test_a_user_error_is_not_internal():
    error = StreamlingError.user("no such column", remedy="name another")
    assert (error.internal, error.retriable, error.remedy) == (False, False, "name another")


@pytest.mark.parametrize(
    ("cause", "retriable"),
    [(ConnectionRefusedError("no"), True), (TimeoutError("late"), True), (ValueError("bad"), False)],
)
def test_wrapping_tells_what_may_be_tried_again(cause, retriable):
    error = StreamlingError.wrap(cause, "reading")
    assert (str(error), error.retriable, error.internal) == ("reading", retriable, True)
    assert list(error.causes()) == [f"{type(cause).__name__}: {cause}"]


def test_wrapping_one_of_ours_adds_context_only():
    inner = StreamlingError.user("wrong")
    assert StreamlingError.wrap(inner, "doing") is inner
    assert str(inner) == "doing: wrong"


def test_what_is_raised_inside_says_what_it_was_about_once_and_is_never_its_own_cause():
    ours = StreamlingError.user("wrong")
    with pytest.raises(StreamlingError) as raised, error_context("sink 'a'"), error_context("sink 'a'"):
        raise ours
    assert raised.value is ours
    assert (str(ours), ours.__cause__) == ("sink 'a': wrong", None)

    with pytest.raises(StreamlingError, match="sink 'a'") as raised, error_context("sink 'a'"):
        raise TimeoutError("late")
    assert raised.value.retriable
    assert list(raised.value.causes()) == ["TimeoutError: late"]


def test_causes_are_told_outermost_first_and_never_twice():
    try:
        try:
            raise OSError("disk full")
        except OSError as error:
            raise StreamlingError("cannot write", cause=error) from error
    except StreamlingError as error:
        outer = StreamlingError("cannot finish", cause=error)
    assert list(outer.causes()) == ["cannot write", "OSError: disk full"]
    outer.__cause__ = outer
    assert list(outer.causes()) == []


def test_a_problem_shows_its_place_remedy_and_excerpt():
    problem = Problem("unknown field 'tabel'", "p.yaml", 3, 5, "did you mean 'table'?", "  tabel: x\n  ^^^^^")
    assert str(problem) == "p.yaml:3:5: unknown field 'tabel' (did you mean 'table'?)\n  tabel: x\n  ^^^^^"
    assert str(Problem("not readable", "p.yaml")) == "p.yaml: not readable"


def test_all_problems_of_a_file_come_together():
    error = InvalidPipeline([Problem("one"), Problem("two")])
    assert str(error) == "one\ntwo"
    assert not error.internal
