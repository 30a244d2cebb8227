import pytest

from streamling.errors import InvalidPipeline, NodeLabel, Problem, StreamlingError, error_context


def test_context_is_added_outermost_first_and_flags_stay():
    error = StreamlingError.transient("connection refused").context("getting a schema").context("schema registry")
    assert str(error) == "schema registry: getting a schema: connection refused"
    assert (error.internal, error.retriable) == (True, True)


def test_the_node_comes_first_and_the_first_one_stays():
    error = StreamlingError("connection refused").of_node(NodeLabel("kafka", "source", "a"))
    error.context("getting a schema").of_node(NodeLabel("sql", "transform", "b"))
    assert str(error) == "kafka source 'a': getting a schema: connection refused"
    assert error.node == NodeLabel("kafka", "source", "a")


def test_an_instance_of_a_node_has_its_number():
    assert str(NodeLabel("postgres", "sink", "out", 1)) == "postgres sink 'out[1]'"


def test_a_user_error_is_not_internal():
    error = StreamlingError.user("no such column", remedy="name another")
    assert (error.internal, error.retriable, error.remedy) == (False, False, "name another")


@pytest.mark.parametrize(
    ("cause", "retriable"),
    [(ConnectionRefusedError("no"), True), (TimeoutError("late"), True), (ValueError("bad"), False)],
)
def test_wrapping_keeps_whether_a_retry_may_help(cause, retriable):
    error = StreamlingError.wrap(cause, "reading")
    assert (str(error), error.retriable, error.internal) == ("reading", retriable, True)
    assert list(error.causes()) == [f"{type(cause).__name__}: {cause}"]


def test_wrapping_one_of_ours_adds_context_only():
    inner = StreamlingError.user("wrong")
    assert StreamlingError.wrap(inner, "doing") is inner
    assert str(inner) == "doing: wrong"


def test_context_is_added_once_and_an_error_is_never_its_own_cause():
    ours = StreamlingError.user("wrong")
    with pytest.raises(StreamlingError) as raised, error_context("preprocessor 'a'"), error_context("preprocessor 'a'"):
        raise ours
    assert raised.value is ours
    assert (str(ours), ours.__cause__) == ("preprocessor 'a': wrong", None)

    with pytest.raises(StreamlingError, match="preprocessor 'a'") as raised, error_context("preprocessor 'a'"):
        raise TimeoutError("late")
    assert raised.value.retriable
    assert list(raised.value.causes()) == ["TimeoutError: late"]


def test_causes_are_listed_outermost_first_and_never_twice():
    try:
        try:
            raise OSError("disk full")
        except OSError as error:
            raise StreamlingError("cannot write", cause=error) from error
    except StreamlingError as error:
        outer = StreamlingError("cannot finish", cause=error)
    assert list(outer.causes()) == ["cannot write", "OSError: disk full"]
    assert outer.with_causes == "cannot finish: cannot write: OSError: disk full"
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
