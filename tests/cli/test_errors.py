"""Errors as text and as exit codes."""

import pytest

from streamling.cli.errors import exit_code, render
from streamling.errors import InvalidPipeline, Problem, StreamlingError


def test_our_errors_are_a_block_of_what_why_and_what_to_do():
    cause = ConnectionRefusedError("connection refused")
    error = StreamlingError("cannot write", cause=cause, remedy="start the server").context("postgres sink 'out'")
    assert render(error, debug=False).splitlines() == [
        "error: postgres sink 'out': cannot write",
        "  caused by: ConnectionRefusedError: connection refused",
        "  help: start the server",
    ]


def test_all_problems_of_a_file_are_reported_with_location_excerpt_and_remedy():
    problems = [
        Problem("there is no column 'b'", "p.yaml", 3, 7, "did you mean 'a'?", "SELECT b\n       ^"),
        Problem("no sinks", "p.yaml"),
    ]
    assert render(InvalidPipeline(problems), debug=False).splitlines() == [
        "error: p.yaml:3:7: there is no column 'b'",
        "  SELECT b",
        "         ^",
        "  help: did you mean 'a'?",
        "error: p.yaml: no sinks",
        "2 problems found",
    ]


def test_a_cause_without_a_message_is_omitted():
    class Mute(Exception):
        def __str__(self) -> str:
            raise AssertionError("the JVM was stopped")

    error = StreamlingError.user("division by zero", cause=Mute())
    assert render(error, debug=False) == "error: division by zero"
    assert "Mute" in render(error, debug=True)


def test_an_error_that_is_its_own_cause_is_printed_once():
    error = StreamlingError.user("no answer").context("kafka source 'orders'")
    error.__cause__ = error  # what `raise error from error` does
    assert render(error, debug=False) == "error: kafka source 'orders': no answer"


def test_an_unexpected_exception_asks_for_a_report_and_debug_gives_the_trace():
    try:
        raise KeyError("lost")
    except KeyError as error:
        short, long = render(error, debug=False), render(error, debug=True)
    assert "Traceback" not in short
    assert "--debug" in short
    assert "Traceback" in long


@pytest.mark.parametrize(
    ("error", "code"),
    [(InvalidPipeline([Problem("x")]), 78), (StreamlingError.user("x"), 1), (StreamlingError("x"), 1), (OSError(), 1)],
)
def test_only_errors_in_user_files_exit_with_78(error, code):
    assert exit_code(error) == code
