"""ILIKE finds the same letters as DataFusion, which compares letter by letter: one that has no lower case of one letter
is only equal to itself, and the place in a word does not matter."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.sql.differential import Case, ask_datafusion, ask_spark

#: Python's version of Unicode, which is older than those of the engines
LETTERS = [
    letter
    for letter in map(chr, range(0x110000))
    if not 0xD800 <= ord(letter) < 0xE000 and len({letter, letter.lower(), letter.upper(), letter.casefold()}) > 1
]
PAIRS = [
    *((letter, form) for letter in LETTERS for form in {letter.lower(), letter.upper(), letter.casefold()}),
    *((one, other) for one in "iIİıſsSΣςσKkµμΜßẞ" for other in "iIİıſsSΣςσKkµμΜßẞ"),
    ("İ", "__"),
    ("ΟΔΟΣ", "%Σ"),
    ("ΟΔΟΣΑ", "οδοσ%"),
    ("ΟΔΟΣΑ", "ΟΔΟΣ%"),
    ("οδός", "%ΌΣ"),
    (None, "ς"),
    ("ς", None),
]
WRITTEN = ("İ", "_", "%Σ", "ΟΔΟΣ%", "ſ", "i", "K")


@pytest.mark.spark
def test_ilike_compares_letters_as_datafusion_does(spark: Any) -> None:
    texts, patterns = zip(*PAIRS, strict=True)
    rows = pa.table({"id": range(len(PAIRS)), "a": pa.array(texts), "b": pa.array(patterns)})
    cases = [Case("column", "a ILIKE b"), Case("escape", r"a ILIKE b ESCAPE '\'")]
    cases += [Case(pattern, f"a ILIKE '{pattern}'") for pattern in WRITTEN]
    ask_datafusion(cases, rows)
    ask_spark(spark, cases, rows)
    assert [(case.expression, case.error) for case in cases if case.expected is None or case.error] == []
    found = [(case.expression, ascii(PAIRS[row]), wanted) for case in cases for row, wanted, _ in case.differences]
    assert found == []
