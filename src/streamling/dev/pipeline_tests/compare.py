"""Compares what a case expects with what its nodes have emitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streamling.dev.pipeline_tests.endpoints import contains, show
from streamling.dev.pipeline_tests.model import Expectation, Row
from streamling.dev.pipeline_tests.rows import normalized, plain_rows
from streamling.dev.pipeline_tests.written_rows import write_row, write_value
from streamling.pipeline.model import Pipeline
from streamling.types.row_kind import OP_COLUMN

if TYPE_CHECKING:
    from streamling.dev.pipeline_tests.load import LoadedCase
    from streamling.dev.pipeline_tests.substitutes import Substitutes


@dataclass(frozen=True)
class Difference:
    """What differs. Lines begin with ``-`` (expected), ``+`` (found), ``~`` (differs) or a space."""

    subject: str
    lines: list[str]
    #: the node whose rows differ; None if something else does
    node: str | None = None


def compare_case(case: LoadedCase, pipeline: Pipeline, substitutes: Substitutes) -> list[Difference]:
    """Return all differences of a case that has ended as expected."""
    found: list[Difference] = []
    for name, expectation in case.case.expect.items():
        table = substitutes.rows(pipeline, name)
        if table is None:  # the pipeline failed before the node was created
            table = pa.table({})
        lines = compare_rows(expectation or Expectation(), table)
        found += [Difference(str(pipeline[name].label), lines, name)] if lines else []
    for name, endpoint in substitutes.endpoints.items():
        lines = [f"+ {show(row)} has no answer in `http`" for row in endpoint.unanswered]
        expected = case.case.expect_requests.get(name)
        lines += [] if expected is None else _compare_requests(expected, endpoint.requests)
        found += [Difference(f"requests of {pipeline[name].label}", lines)] if lines else []
    for name, values in case.case.expect_tables.items():
        wanted, actual = set(values), substitutes.tables.get(name, set())
        lines = [f"- {value}" for value in sorted(wanted - actual)] + [
            f"+ {value}" for value in sorted(actual - wanted)
        ]
        found += [Difference(f"values of {pipeline[name].label}", lines)] if lines else []
    return found


def compare_rows(expectation: Expectation, table: pa.Table) -> list[str]:
    """Return the lines of the difference; none if the rows are as expected."""
    exact = expectation.columns == "exact"
    expected = [normalized(_with_kind(row, exact), table.schema) for row in expectation.rows]
    actual = plain_rows(table)
    pairs = (_in_order if expectation.ordered else _in_any_order)(expected, actual, exact)
    lines = [line for one, other in pairs for line in _pair_lines(one, other, exact)]
    if lines and len(expected) != len(actual):
        lines.insert(0, f"  {_count(len(expected))} expected, {_count(len(actual))} found")
    return lines


def _with_kind(row: Row, exact: bool) -> Row:
    """Add the expected kind. A row without a kind is expected to be an insert; of a subset, the kind is ignored like
    any other column."""
    return {**row, OP_COLUMN: row.get(OP_COLUMN, "i")} if exact else row


def _count(rows: int) -> str:
    return "1 row" if rows == 1 else f"{rows} rows"


# ── which rows belong together ───────────────────────────────────────────────────────────────────────────────

Pair = tuple[Row | None, Row | None]


def _matches(expected: Row, actual: Row, exact: bool) -> bool:
    if exact and _without_kind(expected).keys() != _without_kind(actual).keys():
        return False
    return all(name in actual and actual[name] == value for name, value in expected.items() if _counts(name, actual))


def _without_kind(row: Row) -> Row:
    return {name: value for name, value in row.items() if name != OP_COLUMN}


def _counts(name: str, actual: Row) -> bool:
    """Return whether a column is compared; rows of a sink may come without a kind."""
    return name != OP_COLUMN or OP_COLUMN in actual


def _in_any_order(expected: Sequence[Row], actual: Sequence[Row], exact: bool) -> list[Pair]:
    """Return the rows that differ, each with the row that is most similar."""
    left = list(actual)
    missing = []
    for row in expected:
        match = next((place for place, other in enumerate(left) if _matches(row, other, exact)), None)
        if match is None:
            missing.append(row)
        else:
            del left[match]
    pairs: list[Pair] = []
    for row in missing:
        place = max(range(len(left)), key=lambda place: _similarity(row, left[place]), default=None)
        similar = place is not None and _similarity(row, left[place]) > 0
        pairs.append((row, left.pop(place) if similar and place is not None else None))
    return [*pairs, *((None, row) for row in left)]


def _in_order(expected: Sequence[Row], actual: Sequence[Row], exact: bool) -> list[Pair]:
    """Return the rows that differ, aligned with those that do not."""
    # rows that match get the same number
    numbers = [next((n for n, row in enumerate(expected) if _matches(row, other, exact)), -1) for other in actual]
    first = [next(n for n, row in enumerate(expected) if row == one) for one in expected]
    pairs: list[Pair] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, first, numbers, autojunk=False).get_opcodes():
        if tag != "equal":
            ones: list[Row | None] = [*expected[i1:i2], *[None] * (j2 - j1 - i2 + i1)]
            others: list[Row | None] = [*actual[j1:j2], *[None] * (i2 - i1 - j2 + j1)]
            pairs += zip(ones, others, strict=True)
    return pairs


def _similarity(expected: Row, actual: Row) -> int:
    return sum(name in actual and actual[name] == value for name, value in _without_kind(expected).items())


# ── what is shown ────────────────────────────────────────────────────────────────────────────────────────────


def _pair_lines(expected: Row | None, actual: Row | None, exact: bool) -> list[str]:
    if actual is None:
        return [f"- {write_row(expected or {})}"]
    if expected is None:
        return [f"+ {write_row(actual)}"]
    differing = [
        name
        for name in dict.fromkeys([*expected, *(actual if exact else ())])
        if _counts(name, actual) and (name not in actual or name not in expected or expected[name] != actual[name])
    ]
    if not differing:
        return [f"~ {write_row(actual)} is at another position"]
    same = {name: value for name, value in actual.items() if name not in differing and name in expected}
    head = f"~ {write_row(same)}" if same else "~"
    return [head, *(_column_line(name, expected, actual) for name in differing)]


def _column_line(name: str, expected: Row, actual: Row) -> str:
    return f"~     {name}: expected {_value(name, expected)}, found {_value(name, actual)}"


def _value(name: str, row: Row) -> str:
    return write_value(row[name]) if name in row else "no such column"


def _compare_requests(expected: Sequence[Any], found: Sequence[Any]) -> list[str]:
    left, lines = list(found), []
    for body in expected:
        match = next((place for place, other in enumerate(left) if contains(other, body)), None)
        if match is None:
            lines.append(f"- {show(body)}")
        else:
            del left[match]
    return lines + [f"+ {show(body)}" for body in left]
