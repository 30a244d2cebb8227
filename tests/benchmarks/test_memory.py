"""What is made of memory samples."""

from __future__ import annotations

from benchmarks.memory import _smooth


def test_a_sample_that_stands_alone_does_not_count():
    assert _smooth([1044, 1044, 1923, 1044, 1066, 1066]) == [1044, 1044, 1044, 1066, 1066, 1066]
