from __future__ import annotations

import math
from textwrap import dedent
from typing import Any

import pytest
import yaml

from streamling.errors import InvalidPipeline
from streamling.pipeline.document.loader import Document, load_yaml


def read(text: str) -> Document:
    return load_yaml(dedent(text), "f.yaml")


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("true", True),
        ("False", False),
        ("no", "no"),
        ("on", "on"),
        ("yes", "yes"),
        ("", None),
        ("~", None),
        ("null", None),
        ("12", 12),
        ("-7", -7),
        ("012", 12),
        ("0x1F", 31),
        ("0o17", 15),
        ("1_000", "1_000"),
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", "18446744073709551616"),
        ("1" * 5000, "1" * 5000),
        ("0x" + "ab" * 20, "0x" + "ab" * 20),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        (".inf", math.inf),
        ("-.inf", -math.inf),
        ("2026-01-01", "2026-01-01"),
        ("12:30:45", "12:30:45"),
        ("'12'", "12"),
        ('"true"', "true"),
        ("plain text", "plain text"),
    ],
)
def test_scalars_follow_the_core_schema(written: str, value: Any) -> None:
    assert read(f"a: {written}").data == {"a": value}


def test_not_a_number_is_a_float() -> None:
    assert math.isnan(read("a: .nan").data["a"])


def test_keys_are_text() -> None:
    assert read("{1: a, true: b, null: c}").data == {"1": "a", "true": "b", "null": "c"}


def test_locations_are_those_of_keys_and_values() -> None:
    document = read(
        """\
        sources:
          a:
            type: kafka
            list: [x, {y: z}]
            sql: |

              SELECT 1
            text: 'quoted'
        """
    )
    places = {
        path: (
            entry_location.key.line,
            entry_location.key.column,
            entry_location.value.line,
            entry_location.value.column,
        )
        for path, entry_location in document.entry_locations.items()
    }
    assert places["sources",] == (1, 1, 2, 3)
    assert places["sources", "a", "type"] == (3, 5, 3, 11)
    assert places["sources", "a", "list", 1] == (4, 15, 4, 15)
    assert places["sources", "a", "list", 1, "y"] == (4, 16, 4, 19)
    assert places["sources", "a", "sql"] == (5, 5, 6, 7)
    assert places["sources", "a", "text"] == (8, 5, 8, 12)


def test_the_location_of_an_unknown_path_is_that_of_its_parent() -> None:
    document = read("a:\n  b: 1")
    assert document.entry_location(("a", "b", "c")).key.line == 2
    assert document.entry_location(("x",)).key.line == 0


def test_aliases_are_resolved_and_mappings_merged() -> None:
    document = read(
        """\
        base: &base {topic: a, size: 1}
        copy: *base
        other:
          <<: *base
          size: 2
        both:
          <<: [{x: 1}, {x: 2, y: 3}]
        """
    )
    assert document.data["copy"] == {"topic": "a", "size": 1}
    assert document.data["other"] == {"topic": "a", "size": 2}
    assert document.data["both"] == {"x": 1, "y": 3}
    assert document.entry_location(("other", "topic")).key.line == 4


def test_all_repeated_keys_are_reported() -> None:
    problems = read("a: 1\nb: 1\na: 2\nb: 3").problems
    assert [(problem.line, problem.column) for problem in problems] == [(3, 1), (4, 1)]


def test_a_byte_order_mark_is_skipped() -> None:
    assert load_yaml("\ufeffa: 1".encode(), "f.yaml").data == {"a": 1}


def test_an_empty_file_is_nothing() -> None:
    assert read("# only a comment").data is None


SYNTAX = [
    "a:\n\tb: 1\n",
    "a: b: c\n",
    "a: 1\nb\nc: 2\n",
    'a: "x\nb: 2\n',
    "a: [1, 2\nb: 2\n",
    "a: {x: 1\nb: 2\n",
    "a:\n    b: 1\n  c: 2\n",
    "a: @x\n",
    "a: * b\n",
    'a: "\\q"\n',
    "a:\n  - b\n  c: 1\n",
    "a: - b\n",
    "a: |x\n  s\n",
    "a: ]\n",
    "%YAML 3.0\n---\na: 1\n",
]


@pytest.mark.parametrize("text", SYNTAX)
def test_both_parsers_of_pyyaml_give_our_messages(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidPipeline) as with_c:
        load_yaml(text, "f.yaml")
    monkeypatch.delattr(yaml, "CSafeLoader")
    with pytest.raises(InvalidPipeline) as without:
        load_yaml(text, "f.yaml")
    for raised in (with_c, without):
        (problem,) = raised.value.problems
        assert problem.line
        assert problem.remedy
        assert "cannot be read" not in problem.message
