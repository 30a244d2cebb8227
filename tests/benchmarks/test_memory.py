"""Evaluation of memory samples."""

from __future__ import annotations

from benchmarks.memory import smooth


def test_a_single_outlier_is_ignored():
    assert smooth([1044, 1044, 1923, 1044, 1066, 1066]) == [1044, 1044, 1044, 1066, 1066, 1066]
