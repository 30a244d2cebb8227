"""The file source as the engine drives it."""

from __future__ import annotations

import os
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.sources.file_driver import NAME, Run, StoredState, make_source, read_all

pytestmark = pytest.mark.spark


def write(path: Path, content: str, mtime: float | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, newline="")
    if mtime is not None:
        os.utime(path, (mtime, mtime))
    return path


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return sorted(row["id"] for row in rows)


def test_csv_values_come_out_in_the_types_of_the_schema(spark: Any, tmp_path: Path) -> None:
    write(
        tmp_path / "a.csv",
        "id,price,paid,day,at,seen,name\n"
        '1,2.5,true,2024-01-31,2024-01-31 10:00:00.5,2024-01-31T10:00:00+02:00,"Grüße, ""du"""\n'
        '2,,false,,,,"two\nlines"\n'
        '3,1e3,True,2024-02-29,2024-02-29T00:00,2024-02-29T00:00:00Z,""\n',
    )
    source = make_source(tmp_path)
    first, second, third = Run(spark, source).rows()
    assert source.schema() == pa.schema(
        {
            "id": pa.int64(),
            "price": pa.float64(),
            "paid": pa.bool_(),
            "day": pa.date32(),
            "at": pa.timestamp("us"),
            "seen": pa.timestamp("us", "UTC"),
            "name": pa.string(),
        }
    )
    assert first["name"] == 'Grüße, "du"'
    assert first["at"] == datetime(2024, 1, 31, 10, 0, 0, 500_000)
    assert first["seen"].isoformat() == "2024-01-31T08:00:00+00:00"
    assert second == {
        "id": 2, "price": None, "paid": False, "day": None, "at": None, "seen": None, "name": "two\nlines"
    }  # fmt: skip
    assert (third["price"], third["day"], third["name"]) == (1000.0, date(2024, 2, 29), "")


def test_json_lines_with_nested_values(spark: Any, tmp_path: Path) -> None:
    write(
        tmp_path / "a.jsonl",
        '{"id": 1, "tags": ["x"], "at": "2024-01-01T00:00:00", "o": {"k": 1}}\n\n{"id": 2}\n',
    )
    write(tmp_path / "b.ndjson", '{"id": 3, "price": 2.5, "o": {"k": 1, "l": true}}\r\n{"price": 3, "id": 4}')
    rows = sorted(read_all(spark, tmp_path, format="json"), key=lambda row: row["id"])
    assert rows[0] == {
        "id": 1, "tags": ["x"], "at": datetime(2024, 1, 1), "o": {"k": 1, "l": None}, "price": None
    }  # fmt: skip
    assert [row["price"] for row in rows] == [None, None, 2.5, 3.0]


def test_parquet_with_differing_columns(spark: Any, tmp_path: Path) -> None:
    at = datetime(2024, 1, 1, 12, 0, 0, 123456)
    pq.write_table(
        pa.table({"id": pa.array([1], pa.int32()), "at": pa.array([at], pa.timestamp("ns"))}),
        tmp_path / "a.parquet",
    )
    pq.write_table(pa.table({"id": pa.array([2], pa.int64()), "n": ["x"]}), tmp_path / "b.parquet")
    source = make_source(tmp_path, format="parquet")
    rows = sorted(Run(spark, source).rows(), key=lambda row: row["id"])
    assert source.schema() == pa.schema({"id": pa.int64(), "at": pa.timestamp("us"), "n": pa.string()})
    assert rows == [{"id": 1, "at": at, "n": None}, {"id": 2, "at": None, "n": "x"}]


def test_rerunning_a_finished_bounded_job_reads_nothing_until_its_state_is_cleared(
    spark: Any, tmp_path: Path
) -> None:
    write(tmp_path / "b.csv", "id\n1\n")
    write(tmp_path / "d.csv", "id\n2\n")
    state = StoredState()
    assert ids(read_all(spark, tmp_path, state)) == [1, 2]
    key = f"{NAME}:bounded_progress"
    first, last = str(tmp_path / "b.csv").lstrip("/"), str(tmp_path / "d.csv").lstrip("/")
    assert state.get(key) == {"completed": [{"first": first, "last": last}]}
    write(tmp_path / "c.csv", "id\n3\n")  # inside the completed range
    assert read_all(spark, tmp_path, state) == []
    write(tmp_path / "e.csv", "id\n4\n")  # behind it
    assert ids(read_all(spark, tmp_path, state)) == [4]
    assert ids(read_all(spark, tmp_path, StoredState())) == [1, 2, 3, 4]


def test_continuous_mode_takes_new_older_and_changed_files(spark: Any, tmp_path: Path) -> None:
    state = StoredState()
    write(tmp_path / "a.csv", "id\n1\n2\n3\n", mtime=2_000_000_000)
    run = Run(spark, make_source(tmp_path, state, bounded=False))
    assert ids(run.rows()) == [1, 2, 3]
    write(tmp_path / "old.csv", "id\n4\n5\n", mtime=1_000_000_000)
    assert ids(run.rows()) == [4, 5]
    state.store(run.position)
    write(tmp_path / "older.csv", "id\n6\n", mtime=900_000_000)
    write(tmp_path / "a.csv", "id\n7\n", mtime=2_000_000_001)
    run = Run(spark, make_source(tmp_path, state, bounded=False))
    assert ids(run.rows()) == [6, 7]
    assert state.get(f"{NAME}:watermark")["last_modified_ms"] == 2_000_000_000_000
