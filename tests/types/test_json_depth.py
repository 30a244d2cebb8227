"""The maximum nesting of JSON, whatever Python's current recursion limit is."""

from __future__ import annotations

import sys

import pytest

from streamling.recursion import recursion_limit
from streamling.types.from_json import parse_json
from streamling.types.json_depth import MAX_DEPTH, is_too_deep
from streamling.types.strict_json import parse_object


def arrays(levels: int) -> str:
    return "[" * levels + "]" * levels


@pytest.mark.parametrize(
    ("text", "is_deep"),
    [
        (arrays(MAX_DEPTH), False),
        (arrays(MAX_DEPTH + 1), True),
        ("[" + ",".join(["[]"] * 10_000) + "]", False),
        ("[" + ",".join(["{}"] * 10_000) + "," + arrays(MAX_DEPTH) + "]", True),
        (f'["{"[" * 10_000}"]', False),
        (f'["\\"{"[" * 10_000}"]', False),
        (f'["a\\\\", {arrays(MAX_DEPTH)}, "b"]', True),
        ("", False),
    ],
    ids=["most", "too deep", "wide", "wide and deep", "in a string", "behind a quote", "behind a backslash", "empty"],
)
def test_levels_are_counted_outside_of_strings(text, is_deep):
    assert is_too_deep(text) is is_deep


def test_a_raised_recursion_limit_does_not_matter():
    with recursion_limit(100_000):
        with pytest.raises(ValueError, match="nested too deeply"):
            parse_json(arrays(50_000))
        assert parse_object(b'{"a":' + arrays(50_000).encode() + b"}") == "is nested too deeply"


def test_the_recursion_limit_is_the_highest_requested_and_then_the_usual_one():
    usual = sys.getrecursionlimit()
    with recursion_limit(usual + 200):
        with recursion_limit(usual + 100):
            assert sys.getrecursionlimit() == usual + 200
        with recursion_limit(usual + 300):
            assert sys.getrecursionlimit() == usual + 300
        assert sys.getrecursionlimit() == usual + 200
    assert sys.getrecursionlimit() == usual
