from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from streamling.pipeline.labels import MAX_LABELS, MAX_VALUE_BYTES, RESERVED, Labels, reserved_by_type

LABELS: TypeAdapter[dict[str, str]] = TypeAdapter(Labels)


@pytest.mark.parametrize("key", ["team", "_x", "Team2", "a" * 300])
def test_label_names_are_taken(key: str) -> None:
    assert LABELS.validate_python({key: "x"}) == {key: "x"}


@pytest.mark.parametrize("key", ["", "2x", "my-team", "té", "a b", "__x", *sorted(RESERVED)])
def test_other_names_are_refused(key: str) -> None:
    with pytest.raises(ValidationError):
        LABELS.validate_python({key: "x"})


def test_length_of_values_counts_in_bytes() -> None:
    LABELS.validate_python({"a": "x" * MAX_VALUE_BYTES})
    LABELS.validate_python({"a": "é" * (MAX_VALUE_BYTES // 2)})
    with pytest.raises(ValidationError, match="258 bytes"):
        LABELS.validate_python({"a": "é" * (MAX_VALUE_BYTES // 2 + 1)})


@pytest.mark.parametrize("char", ["\n", "\r", "\0", "\x1b", "\x7f", "\x85"])
def test_control_characters_are_refused(char: str) -> None:
    with pytest.raises(ValidationError, match="control characters"):
        LABELS.validate_python({"a": f"x{char}y"})


def test_tab_is_not_a_control_character() -> None:
    assert LABELS.validate_python({"a": "x\ty"}) == {"a": "x\ty"}


def test_twenty_labels_are_allowed() -> None:
    LABELS.validate_python({f"l{n}": "x" for n in range(MAX_LABELS)})
    with pytest.raises(ValidationError, match="21 entries"):
        LABELS.validate_python({f"l{n}": "x" for n in range(MAX_LABELS + 1)})


def test_labels_of_a_type_are_found() -> None:
    assert reserved_by_type({"team": "a", "topic": "b"}, frozenset({"topic", "table"})) == ["topic"]
