"""Look-up results for Spark: one byte per row, by partition."""

from __future__ import annotations

import pyarrow as pa

from streamling.transforms.sql.lookup_results import packed

_PARTITION = 1 << 33


def test_results_are_bytes_in_the_order_of_the_rows():
    rows = pa.array([0, 1, 2, _PARTITION, _PARTITION + 1], pa.int64())
    assert packed(rows, pa.array([True, False, None, False, True])) == [b"\x01\x00\x02", b"\x00\x01"]


def test_filtered_rows_are_distinguished_from_null():
    rows = pa.array([1, 4, 2 * _PARTITION + 2], pa.int64())
    assert packed(rows, pa.array([True, False, True])) == [b"\x03\x01\x03\x03\x00", b"", b"\x03\x03\x01"]


def test_a_slice_is_packed_from_its_own_start():
    rows, answers = pa.array([9, 0, 1], pa.int64()).slice(1), pa.array([False, True, True]).slice(1)
    assert packed(rows, answers) == [b"\x01\x01"]


def test_no_rows_are_one_empty_part():
    assert packed(pa.array([], pa.int64()), pa.array([], pa.bool_())) == [b""]
