"""The generated files have the same rows in every format."""

from __future__ import annotations

from pyarrow import csv, dataset, parquet

from benchmarks import data


def test_csv_and_parquet_hold_the_same_rows(tmp_path):
    folder = data.prepare(tmp_path, 1001)
    rows = parquet.read_table(folder / "parquet").sort_by("order_id")
    texts = dataset.dataset(folder / "csv", format="csv").to_table().sort_by("order_id")
    assert rows.num_rows == 1001
    assert texts.cast(rows.schema).equals(rows)


def test_the_filter_keeps_about_half(tmp_path):
    rows = parquet.read_table(data.prepare(tmp_path, 20_000) / "parquet")
    kept = sum(amount >= 50 for amount in rows.column("amount").to_pylist())
    assert 0.45 < kept / rows.num_rows < 0.55


def test_files_are_written_once(tmp_path):
    before = {file: file.stat().st_mtime_ns for file in data.prepare(tmp_path, 100).rglob("*.csv")}
    data.prepare(tmp_path, 100)
    assert before == {file: file.stat().st_mtime_ns for file in before}


def test_a_header_names_the_columns_of_the_schema(tmp_path):
    one = next((data.prepare(tmp_path, 100) / "csv").iterdir())
    assert csv.read_csv(one).column_names == [column.split()[0] for column in data.SCHEMA.split(", ")]
