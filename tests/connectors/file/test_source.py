"""The file source as driven by the engine."""

from __future__ import annotations

import os
import random
import tempfile
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamling.connectors.file import source as source_module
from streamling.connectors.file.source import FileSource
from streamling.errors import StreamlingError
from streamling.pipeline.config import AppConfig
from tests.connectors.file.driver import NAME, Run, StoredState, make_source, read_all

pytestmark = pytest.mark.spark


def write(path: Path, content: str, mtime: float | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, newline="")
    if mtime is not None:
        os.utime(path, (mtime, mtime))
    return path


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return sorted(row["id"] for row in rows)


def test_csv_values_have_the_types_of_the_schema(spark: Any, tmp_path: Path) -> None:
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


def test_parquet_columns_with_only_nulls(spark: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "t": pa.nulls(1), "n": pa.nulls(1)}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": [2], "t": ["x"], "n": pa.nulls(1)}), tmp_path / "b.parquet")
    run = Run(spark, make_source(tmp_path, format="parquet", parallelism=1))
    assert run.rows() == [{"id": 1, "t": None, "n": None}, {"id": 2, "t": "x", "n": None}]
    pq.write_table(pa.table({"id": [3], "t": pa.nulls(1), "n": ["y"]}), tmp_path / "c.parquet")
    run.position = dict(run.position)  # as after a restart: the folder is listed again
    assert run.rows() == [{"id": 3, "t": None, "n": "y"}]
    only = tmp_path / "only.parquet"
    pq.write_table(pa.table({"n": pa.nulls(2)}), only)
    assert read_all(spark, only, format="parquet") == [{"n": None}, {"n": None}]


def test_rerunning_a_finished_bounded_job_reads_nothing_until_its_state_is_cleared(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "b.csv", "id\n1\n")
    write(tmp_path / "d.csv", "id\n2\n")
    state = StoredState()
    assert ids(read_all(spark, tmp_path, state)) == [1, 2]
    key = f"{NAME}:bounded_progress"
    first, last = str(tmp_path / "b.csv").lstrip("/"), str(tmp_path / "d.csv").lstrip("/")
    assert state.get(key) == {"completed": [{"first": first, "last": last}]}
    write(tmp_path / "c.csv", "id\n3\n")  # inside the completed range
    assert read_all(spark, tmp_path, state) == []
    write(tmp_path / "e.csv", "id\n4\n")  # after it
    assert ids(read_all(spark, tmp_path, state)) == [4]
    assert ids(read_all(spark, tmp_path, StoredState())) == [1, 2, 3, 4]


def test_continuous_mode_reads_new_older_and_changed_files(spark: Any, tmp_path: Path) -> None:
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


ODD_NAMES = [
    "a b.csv", "c#d.csv", "p%20q.csv", "x,y.csv", "ü漢.csv", "br[1].csv", "cu{r}.csv", "st*r.csv", "q?.csv",
    "back\\slash.csv", "2024-01-01T10:00:00.csv", "quote'\".csv", "dollar$1.csv", "plus+&=.csv",
]  # fmt: skip


def test_files_with_any_name_are_read(spark: Any, tmp_path: Path) -> None:
    for number, name in enumerate(ODD_NAMES):
        write(tmp_path / "in [x] #1" / name, f"id\n{number}\n")
    assert ids(read_all(spark, tmp_path / "in [x] #1")) == list(range(len(ODD_NAMES)))


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_single_file_with_any_name_is_read(spark: Any, tmp_path: Path, name: str) -> None:
    write(tmp_path / name, "id\n1\n")
    assert ids(read_all(spark, tmp_path / name)) == [1]


def test_a_hidden_file_is_read_when_it_is_named(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "_orders.csv", "id\n1\n")
    assert ids(read_all(spark, tmp_path / "_orders.csv")) == [1]


def test_hive_folders_add_columns(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "dt=2024-01-01" / "shard=7" / "city=New%20York" / "a.csv", "id\n1\n")
    write(tmp_path / "dt=2024-01-02" / "shard=8" / "city=Rome" / "b:c.csv", "id\n2\n")
    source = make_source(tmp_path)
    assert source.schema() == pa.schema(
        [
            pa.field("id", pa.int64()),
            pa.field("dt", pa.string(), nullable=False),
            pa.field("shard", pa.int64(), nullable=False),
            pa.field("city", pa.string(), nullable=False),
        ]
    )
    assert sorted(Run(spark, source).rows(), key=lambda row: row["id"]) == [
        {"id": 1, "dt": "2024-01-01", "shard": 7, "city": "New York"},
        {"id": 2, "dt": "2024-01-02", "shard": 8, "city": "Rome"},
    ]


def test_csv_columns_are_matched_by_name_not_by_position(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "a.csv", "id,name\n1,x\n")
    write(tmp_path / "b.csv", "\ufeffname,extra,id\ny,true,2\n")
    write(tmp_path / "c.csv", "id\n")
    write(tmp_path / "d.csv", "")
    rows = sorted(read_all(spark, tmp_path), key=lambda row: row["id"])
    assert rows == [{"id": 1, "name": "x", "extra": None}, {"id": 2, "name": "y", "extra": True}]


def test_blanks_and_empty_quotes_in_number_columns(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "a.csv", 'id,price,name\n" 1 ","",""\n2, 2.5, x\n')
    assert read_all(spark, tmp_path) == [
        {"id": 1, "price": None, "name": ""},
        {"id": 2, "price": 2.5, "name": " x"},
    ]


def test_compressed_files(spark: Any, tmp_path: Path) -> None:
    import gzip

    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b'id,t\n1,"x\ny"\n'))
    with pa.CompressedOutputStream(str(tmp_path / "b.csv.zst"), "zstd") as out:
        out.write(b"id,t\n2,z\n")
    assert sorted(read_all(spark, tmp_path), key=lambda row: row["id"]) == [
        {"id": 1, "t": "x\ny"},
        {"id": 2, "t": "z"},
    ]
    with pa.CompressedOutputStream(str(tmp_path / "c.jsonl.zst"), "zstd") as out:
        out.write(b'{"id": 3}\n')
    assert ids(read_all(spark, tmp_path, format="json")) == [3]


def test_files_are_read_in_order_of_age_in_continuous_mode(spark: Any, tmp_path: Path) -> None:
    for number in range(20):  # Spark would put larger files first
        write(tmp_path / f"{number:02}.csv", "id,_gs_op\n" + f"{number},u\n" * (number % 5 + 1), mtime=5000 - number)
    rows = read_all(spark, tmp_path, bounded=False)
    expected = [number for number in reversed(range(20)) for _ in range(number % 5 + 1)]
    assert [row["id"] for row in rows] == expected


def test_files_are_read_in_order_of_their_paths_in_bounded_mode_with_one_reader(spark: Any, tmp_path: Path) -> None:
    for number in range(9):
        write(tmp_path / f"{number}.csv", "id\n" + f"{number}\n" * (number % 3 + 1), mtime=5000 - number)
    rows = read_all(spark, tmp_path, parallelism=1)
    assert [row["id"] for row in rows] == [number for number in range(9) for _ in range(number % 3 + 1)]


def test_files_of_changes_are_read_one_after_the_other(spark: Any, tmp_path: Path) -> None:
    for number, rows in enumerate((3, 400, 50)):  # Spark alone would start with the largest
        lines = [f"{number * 1000 + row},i" for row in range(rows)]
        (tmp_path / f"{number}.csv").write_text("id,_gs_op\n" + "\n".join(lines))
    ids = [row["id"] for row in read_all(spark, tmp_path)]
    assert ids == sorted(ids)
    assert len(ids) == 453


def test_parallelism_limits_the_files_read_concurrently(spark: Any, tmp_path: Path) -> None:
    for number in range(100):
        write(tmp_path / f"{number}.csv", f"id\n{number}\n")
    for parallelism in (1, 3):
        source = make_source(tmp_path, parallelism=parallelism)
        batch = source.read({})
        assert batch.rows.frame(spark).rdd.getNumPartitions() <= parallelism


# ── what is refused ───────────────────────────────────────────────────────────────────────────────────────


def failure(action: Any) -> StreamlingError:
    with pytest.raises(StreamlingError) as caught:
        action()
    assert not caught.value.internal
    assert caught.value.remedy
    return caught.value


def run_failure(spark: Any, source: FileSource) -> StreamlingError:
    """Return the source's translation of Spark's failure."""
    with pytest.raises(Exception) as caught:
        Run(spark, source).rows()
    if isinstance(caught.value, StreamlingError):
        return caught.value
    explained = source.translate_error(caught.value)
    assert explained is not None
    assert not explained.internal
    return explained


def test_no_matching_file(tmp_path: Path) -> None:
    write(tmp_path / "a.json", "{}")
    error = failure(make_source(tmp_path, format="parquet").schema)
    assert "parquet" in str(error)
    assert str(tmp_path) in str(error)


def test_unsupported_scheme() -> None:
    assert "ftp" in str(failure(lambda: make_source("ftp://host/folder")))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("id,n\n1,2\n3\n", "line 3 has 1 fields, but the header has 2"),
        ("id,n\n1,2\n3,4,5\n", "line 3 has 3 fields, but the header has 2"),
        ("id,ID\n1,2\n", "two columns named 'ID'"),
    ],
)
def test_a_csv_file_that_is_invalid_at_the_start(tmp_path: Path, content: str, expected: str) -> None:
    write(tmp_path / "a.csv", content)
    error = failure(make_source(tmp_path).schema)
    assert expected in str(error)
    assert "a.csv" in str(error)


def test_a_json_file_that_is_invalid_at_the_start(tmp_path: Path) -> None:
    write(tmp_path / "a.json", '[\n  {"id": 1}\n]\n')
    assert "line 1" in str(failure(make_source(tmp_path, format="json").schema))
    write(tmp_path / "a.json", '{"id": 1}\n[1]\n')
    assert "line 2 of" in str(failure(make_source(tmp_path, format="json").schema))


@pytest.mark.parametrize(
    ("format", "first", "later", "expected"),
    [
        ("csv", "id,n\n1,2\n", 'id,n\n5,6\n7,"a\nb"\n8,x\n', "line 3, column 'n': 'a\\nb' is not a whole number"),
        ("csv", "id,n\n1,2\n", "id,n\n5,6\n\n7,1.5\n", "line 4, column 'n': '1.5' is not a whole number"),
        ("csv", "id,n\n1,2\n", "id,n\n5\n", "line 2 has 1 fields, but the header has 2"),
        ("csv", "id,d\n1,2024-01-01\n", "id,d\n5,2024-02-31\n", "line 2, column 'd': '2024-02-31' is not a date"),
        ("csv", "id,n\n1, 2\n", "id,n\n5,x\n", "line 2, column 'n': 'x' is not a whole number"),
        ("json", '{"id": 1}', '{"id": 2}\n{"id": "x"}', "line 2, column 'id': \"x\" is not a whole number"),
        ("json", '{"id": 1}', '{"id": 2}\n{"id": 3', "line 2 is not valid JSON"),
        ("json", '{"id": 1}', "[1]", "line 1 is an array, expected an object"),
    ],
)
def test_a_later_file_that_does_not_fit_is_named_with_line_and_column(
    spark: Any, tmp_path: Path, format: str, first: str, later: str, expected: str
) -> None:
    write(tmp_path / f"a.{format}", first, mtime=1)
    run = Run(spark, make_source(tmp_path, format=format, bounded=False))
    assert len(run.rows()) == 1
    write(tmp_path / f"b.{format}", later, mtime=2)
    error = failure(run.rows)
    assert expected in str(error)
    assert f"b.{format}" in str(error)


def test_a_row_with_too_few_fields_fails_whatever_columns_are_selected(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "a.csv", "id,a,b\n1,2,3\n")
    source = make_source(tmp_path)
    source.schema()
    write(tmp_path / "a.csv", "id,a,b\n1,2\n")
    assert "line 2 has 2 fields" in str(failure(lambda: source.read({})))


def test_a_parquet_file_of_another_type_names_column_and_types(spark: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1]}), tmp_path / "a.parquet")
    source = make_source(tmp_path, format="parquet")
    source.schema()
    pq.write_table(pa.table({"id": ["x"]}), tmp_path / "b.parquet")
    assert "b.parquet': column 'id' has type string, expected int64" in str(run_failure(spark, source))
    (tmp_path / "b.parquet").write_bytes(b"PAR1 but not really")
    assert "b.parquet' is not a valid Parquet file" in str(run_failure(spark, source))


def test_a_failure_that_is_not_about_the_files_is_not_translated(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "a.csv", "id\n0\n")
    source = make_source(tmp_path)
    batch = source.read({})
    with pytest.raises(Exception) as caught:
        batch.rows.frame(spark).selectExpr("1 / id").toArrow()
    assert source.translate_error(caught.value) is None


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_a_file_deleted_before_a_bounded_source_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    monkeypatch.setattr(source_module, "BATCH_FILES", 1)
    paths = [tmp_path / f"{name}.{format}" for name in ("a", "b")]
    for path in paths:
        pq.write_table(pa.table({"id": [1]}), path) if format == "parquet" else write(path, "id\n1\n")
    source = make_source(tmp_path, format=format)
    position = source.read({}).position
    paths[1].unlink()
    assert f"b.{format}' was deleted before it was read" in str(failure(lambda: source.read(position)))


def test_a_file_deleted_while_spark_reads_for_a_bounded_source(spark: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1]}), tmp_path / "a.parquet")
    source = make_source(tmp_path, format="parquet")
    frame = source.read({}).rows.frame(spark)
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(Exception) as caught:
        frame.toArrow()
    assert "a.parquet' was deleted before it was read" in str(source.translate_error(caught.value))


@pytest.mark.parametrize(
    ("content", "expected"),
    [("id,_gs_op\n1,7\n", "has type int64, expected text"), ("id,_gs_op\n1,i\n2,\n", "has no value in some rows")],
)
def test_operations_that_are_not_text_or_missing(tmp_path: Path, content: str, expected: str) -> None:
    write(tmp_path / "a.csv", content)
    assert expected in str(failure(make_source(tmp_path).schema))


def test_an_operation_missing_in_a_later_file(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "a.csv", "id,_gs_op\n1,d\n")
    source = make_source(tmp_path)
    assert source.schema().field("_gs_op") == pa.field("_gs_op", pa.string(), nullable=False)
    write(tmp_path / "b.csv", "id\n2\n")
    assert "'_gs_op' has no value" in str(run_failure(spark, source))


def test_mixed_partition_folders_are_rejected(tmp_path: Path) -> None:
    write(tmp_path / "dt=1" / "a.csv", "id\n1\n")
    write(tmp_path / "b.csv", "id\n1\n")
    assert "key=value folders" in str(failure(make_source(tmp_path).schema))


@pytest.mark.parametrize(("folder", "expected"), [("n=x", "is not a whole number"), ("m=1", "other key=value folders")])
def test_a_later_file_in_a_folder_that_does_not_fit(spark: Any, tmp_path: Path, folder: str, expected: str) -> None:
    write(tmp_path / "n=1" / "a.csv", "id\n1\n")
    run = Run(spark, make_source(tmp_path, bounded=False))
    assert ids(run.rows()) == [1]
    write(tmp_path / "n=02" / "a.csv", "id\n2\n")
    assert run.rows() == [{"id": 2, "n": 2}]
    write(tmp_path / folder / "a.csv", "id\n3\n")
    assert expected in str(failure(run.rows))


@pytest.mark.parametrize("seed", range(4))
def test_random_arrivals_and_restarts_lose_no_row(spark: Any, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    state, expected, found, next_id = StoredState(), set(), set(), 0
    run = None
    for _ in range(12):
        for _ in range(rng.randint(0, 3)):  # new and rewritten files, with any timestamp
            content = "".join(f"{next_id + i}\n" for i in range(3))
            next_id += 3
            write(tmp_path / f"{rng.randint(0, 30)}.csv", "id\n" + content, mtime=rng.randint(1, 10**6))
            if run is not None and rng.random() < 0.5:
                found.update(ids(run.rows()))
        if run is None and not os.listdir(tmp_path):
            continue
        run = run or Run(spark, make_source(tmp_path, state, bounded=False))
        found.update(ids(run.rows()))
        expected.update(row for file in tmp_path.iterdir() for row in map(int, file.read_text().split()[1:]))
        assert expected <= found, f"seed {seed}"
        if rng.random() < 0.5:
            state.store(run.position)
        if rng.random() < 0.4:
            run.source.close()
            run = None
    if run is not None:
        run.source.close()


def test_scratch_files_are_removed_on_close(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    write(tmp_path / "in" / "a:b.csv", "id\n1\n")
    run = Run(spark, make_source(tmp_path / "in"))
    assert ids(run.rows()) == [1]
    assert list(scratch.glob("*/files/*"))
    run.source.close()
    assert not list(scratch.iterdir())


def test_a_cluster_reads_local_files_with_odd_names_on_its_executors(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "a:b.csv", "id,t\n1,x\n")
    config = AppConfig.model_validate({"spark": {"master": "spark://127.0.0.1:7077"}})
    assert read_all(spark, tmp_path, config=config) == [{"id": 1, "t": "x"}]
    write(tmp_path / "plain.csv", "id,t\n2,y\n")
    assert read_all(spark, tmp_path / "plain.csv", config=config) == [{"id": 2, "t": "y"}]
