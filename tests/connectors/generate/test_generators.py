"""What the columns of a generate source contain."""

from __future__ import annotations

import re
import uuid
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tests.connectors.generate.driver import generate, make_source, values


def number(low: float, high: float, type: str | None = None) -> dict[str, Any]:
    return {"generator": "number", "min": low, "max": high, **({"type": type} if type else {})}


def test_a_sequence_counts() -> None:
    assert values("sequence", 4) == [1, 2, 3, 4]
    assert values({"generator": "sequence", "start": 100, "step": 5}, 3) == [100, 105, 110]


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (number(1, 6), pa.int64()),
        (number(-3, 3, "int8"), pa.int8()),
        (number(0, 2**64 // 4, "uint64"), pa.uint64()),
        (number(-(2**62), 2**62 - 2), pa.int64()),
        (number(0.5, 2), pa.float64()),
        (number(0, 1, "float32"), pa.float32()),
        (number(0.05, 99.99, "decimal(10,2)"), pa.decimal128(10, 2)),
        (number(1, 9, "decimal(38,0)"), pa.decimal128(38, 0)),
        (number(0, 1, "decimal(38,18)"), pa.decimal128(38, 18)),
        (number(7, 7), pa.int64()),
    ],
    ids=str,
)
def test_numbers_are_inside_their_range_and_have_its_type(column: dict[str, Any], kind: pa.DataType) -> None:
    assert make_source({"value": column}).schema().field("value").type == kind
    found = values(column)
    assert min(found) >= Decimal(str(column["min"]))
    assert max(found) <= Decimal(str(column["max"]))


def test_all_numbers_of_a_range_occur_equally_often() -> None:
    counts = Counter(values(number(1, 6), 60_000))
    assert set(counts) == {1, 2, 3, 4, 5, 6}
    assert all(9_500 < count < 10_500 for count in counts.values())


def test_a_choice_follows_its_weights() -> None:
    column = {"generator": "choice", "values": ["new", "paid", "never", "shipped"], "weights": [7, 2, 0, 1]}
    counts = Counter(values(column, 10_000))
    assert set(counts) == {"new", "paid", "shipped"}
    assert 6_700 < counts["new"] < 7_300
    assert 800 < counts["shipped"] < 1_200


def test_a_choice_has_the_type_of_its_values_or_another_one() -> None:
    choices = {"text": ["a", "b"], "whole": [1, 2], "fraction": [1.5, 2.0], "flag": [True, False]}
    columns = {name: {"generator": "choice", "values": options} for name, options in choices.items()}
    columns["money"] = {"generator": "choice", "values": [0.1, 2], "type": "decimal(4,2)"}
    columns["day"] = {"generator": "choice", "values": ["2026-01-31"], "type": "date32"}
    found = generate(columns, 50)
    assert [str(kind) for kind in found.schema.types[:4]] == ["string", "int64", "double", "bool"]
    assert set(found["money"].to_pylist()) == {Decimal("0.10"), Decimal("2.00")}
    assert found["day"][0].as_py().isoformat() == "2026-01-31"
    for name, options in choices.items():
        assert set(found[name].to_pylist()) == set(options)


def test_text_looks_like_what_it_is_called() -> None:
    columns = {"name": "name", "email": "email", "word": "words", "title": {"generator": "words", "count": 3}}
    for row in generate(columns, 200).to_pylist():
        assert re.fullmatch(r"[A-Z][a-z]+ [A-Z][a-z]+", row["name"])
        assert re.fullmatch(r"[a-z]+\.[a-z]+\.\d{1,3}@example\.com", row["email"])
        assert re.fullmatch(r"[a-z]+", row["word"])
        assert re.fullmatch(r"[a-z]+ [a-z]+ [a-z]+", row["title"])


def test_uuids_are_valid_and_unique() -> None:
    found = values("uuid", 5_000)
    assert len(set(found)) == 5_000
    for text in found:
        assert str(uuid.UUID(text)) == text
        assert (uuid.UUID(text).version, uuid.UUID(text).variant) == (4, uuid.RFC_4122)


def test_a_pattern_keeps_what_is_no_placeholder() -> None:
    found = values({"generator": "pattern", "pattern": "ORD-##/?? é"})
    assert all(re.fullmatch(r"ORD-\d\d/[A-Z][A-Z] é", text) for text in found)
    assert len({text[4:6] for text in found}) == 100


def test_times() -> None:
    start = datetime(2026, 1, 31, 23, tzinfo=UTC)
    sequence = {"generator": "time_sequence", "start": "2026-02-01T00:00:00+01:00", "step": "90s"}
    assert values(sequence, 3) == [start, start + timedelta(seconds=90), start + timedelta(seconds=180)]
    between = values({"generator": "time", "min": "2026-01-31", "max": "2026-02-01T00:00:00Z"})
    assert min(between) >= datetime(2026, 1, 31, tzinfo=UTC)
    assert max(between) <= datetime(2026, 2, 1, tzinfo=UTC)
    assert len(set(between)) > 900
    before = datetime.now(UTC)
    assert before <= values("now", 1)[0] <= datetime.now(UTC)


def test_nulls_have_their_share() -> None:
    found = values({"generator": "name", "nulls": 0.25}, 10_000)
    assert 2_300 < found.count(None) < 2_700
    assert values({"generator": "words", "nulls": 1}, 3) == [None, None, None]
    schema = make_source({"a": "name", "b": {"generator": "name", "nulls": 0.1}}).schema()
    assert [field.nullable for field in schema] == [False, True]
