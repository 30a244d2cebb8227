"""Files that arrive, change and disappear while a continuous source runs."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamling.errors import StreamlingError
from tests.connectors.file.driver import Run, StoredState, make_source

pytestmark = pytest.mark.spark

FORMATS = ["csv", "json", "parquet", "avro"]
_AVRO = {int: "long", str: "string"}


def avro_type(value: Any, path: str) -> Any:
    if isinstance(value, dict):
        fields = [{"name": name, "type": ["null", avro_type(item, path + name)]} for name, item in value.items()]
        return {"type": "record", "name": path, "fields": fields}
    return {"type": "array", "items": avro_type(value[0], path)} if isinstance(value, list) else _AVRO[type(value)]


def save(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows with the same columns in the format of the extension."""
    if path.suffix == ".csv":
        lines = [rows[0].keys(), *(row.values() for row in rows)]
        path.write_text("".join(",".join(map(str, line)) + "\n" for line in lines))
    elif path.suffix == ".json":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        fields = [{"name": name, "type": ["null", avro_type(value, name)]} for name, value in rows[0].items()]
        with path.open("wb") as stream:
            fastavro.writer(stream, {"type": "record", "name": "row", "fields": fields}, rows)


@pytest.mark.parametrize("format", FORMATS)
def test_a_new_column_is_added_and_reported_once(
    spark: Any, tmp_path: Path, format: str, caplog: pytest.LogCaptureFixture
) -> None:
    save(tmp_path / f"a.{format}", [{"id": 1}])
    run = Run(spark, make_source(tmp_path, format=format, bounded=False))
    assert run.rows() == [{"id": 1}]
    save(tmp_path / f"b.{format}", [{"new": "x", "id": 2}])
    os.utime(tmp_path / f"b.{format}", (2, 2))
    save(tmp_path / f"c.{format}", [{"id": 3}])
    assert run.rows() == [{"id": 2, "new": "x"}, {"id": 3, "new": None}]
    save(tmp_path / f"d.{format}", [{"new": "y", "id": 4}])
    assert run.rows() == [{"id": 4, "new": "y"}]
    reports = [record.getMessage() for record in caplog.records if "new columns" in record.getMessage()]
    assert len(reports) == 1
    assert f"b.{format}'" in reports[0]
    assert "'new'" in reports[0]
    save(tmp_path / f"e.{format}", [{"NEW": "y", "id": 4}])
    with pytest.raises(StreamlingError, match="names are not case-sensitive"):
        run.rows()
    run.source.close()


@pytest.mark.parametrize("format", ["json", "parquet", "avro"])
def test_a_new_field_of_a_struct_is_added(
    spark: Any, tmp_path: Path, format: str, caplog: pytest.LogCaptureFixture
) -> None:
    save(tmp_path / f"a.{format}", [{"o": {"k": 1}, "l": [{"k": 1}]}])
    run = Run(spark, make_source(tmp_path, format=format, bounded=False))
    run.rows()
    save(tmp_path / f"b.{format}", [{"o": {"k": 2, "n": {"m": 3}}, "l": [{"k": 2, "n": "y"}]}])
    assert run.rows() == [{"o": {"k": 2, "n": {"m": 3}}, "l": [{"k": 2, "n": "y"}]}]
    save(tmp_path / f"c.{format}", [{"o": {"k": 3}, "l": [{"k": 3}]}])
    assert run.rows() == [{"o": {"k": 3, "n": None}, "l": [{"k": 3, "n": None}]}]
    assert [record.args[1] for record in caplog.records if "new columns" in record.getMessage()] == ["'o', 'l'"]
    run.source.close()


def test_keys_missing_from_the_sample_are_read(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("streamling.connectors.file.schema", fromlist=["x"]).SAMPLE_BYTES, "json", 100)
    rows = [{"id": number} for number in range(1000)]
    lines = [json.dumps(row) for row in rows] + [json.dumps({"id": 1000, "late": 1.5})]
    (tmp_path / "a.json").write_text("\n".join(lines))
    assert Run(spark, make_source(tmp_path, format="json")).rows()[-1] == {"id": 1000, "late": 1.5}


def test_an_operation_column_that_appears_later_stops_the_source(spark: Any, tmp_path: Path) -> None:
    for format in FORMATS:
        folder = tmp_path / format
        folder.mkdir()
        save(folder / f"a.{format}", [{"id": 1}])
        run = Run(spark, make_source(folder, format=format, bounded=False))
        run.rows()
        save(folder / f"b.{format}", [{"id": 1, "_gs_op": "d"}])
        with pytest.raises(StreamlingError, match=r"'_gs_op' is in .*, but not in the first files"):
            run.rows()
        run.source.close()


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("cut", [False, True])
def test_a_file_that_disappears_is_skipped_and_read_when_it_reappears(
    spark: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    format: str,
    cut: bool,
) -> None:
    monkeypatch.setattr("streamling.connectors.file.source.BATCH_FILES", 1)
    if cut:
        monkeypatch.setattr("streamling.connectors.file.reader.SPLIT_BYTES", 1)
    folder, state = tmp_path / "in", StoredState()
    folder.mkdir()
    for number in range(4):
        save(folder / f"{number}.{format}", [{"id": number}])
        os.utime(folder / f"{number}.{format}", (number, number))
    run = Run(spark, make_source(folder, state, format=format, bounded=False))
    assert run.step().to_pylist() == [{"id": 0}]
    (folder / f"1.{format}").rename(tmp_path / "kept")
    (folder / f"2.{format}").rename(folder / f"renamed.{format}")
    assert sorted(row["id"] for row in run.rows()) == [2, 3]
    assert any(f"1.{format}' was deleted or renamed" in record.getMessage() for record in caplog.records)
    state.store(run.position)
    run.source.close()
    run = Run(spark, make_source(folder, state, format=format, bounded=False))
    assert run.rows() == []
    (tmp_path / "kept").rename(folder / f"1.{format}")
    assert run.rows() == [{"id": 1}]
    run.source.close()


@pytest.mark.parametrize("format", ["parquet", "avro"])
def test_a_file_that_disappears_while_spark_reads_is_read_when_it_reappears(
    spark: Any, tmp_path: Path, format: str
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(2):
        save(folder / f"{number}.{format}", [{"id": number}])
    run = Run(spark, make_source(folder, format=format, bounded=False))
    for planned in (False, True):
        batch = run.source.read(run.position)
        frame = batch.rows.frame(spark) if planned else None
        (folder / f"1.{format}").rename(tmp_path / "kept")
        frame = frame or batch.rows.frame(spark)
        assert frame.toArrow().to_pylist() == [{"id": 0}] * (not planned)
        run.position = batch.position
        assert run.rows() == []
        (tmp_path / "kept").rename(folder / f"1.{format}")
        if planned:
            assert run.rows() == [{"id": 1}]
    run.source.close()


def damaged(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "cut":
        path.write_bytes(content[: len(content) * 2 // 3])
    elif how == "garbage":
        path.write_bytes(b"\x00garbage" * 5)
    elif how == "folder":
        path.unlink()
        path.mkdir()


@pytest.mark.parametrize(
    ("name", "how"),
    [
        (f"b.{format}", how)
        for format in ("parquet", "avro", "csv.gz", "json.zst")
        for how in ("cut", "garbage", "folder")
    ],
)
def test_a_file_that_cannot_be_read_is_an_error_with_its_name(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, how: str
) -> None:
    format = name.split(".")[1]
    monkeypatch.setattr("streamling.connectors.file.source.BATCH_FILES", 1)
    rows = [{"id": number, "text": f"{number * 7919 % 1009} and so on"} for number in range(500)]
    save(tmp_path / f"a.{format}", rows)
    os.utime(tmp_path / f"a.{format}", (1, 1))
    path = tmp_path / name
    if path.suffix == f".{format}":
        save(path, rows)
    else:
        content = (tmp_path / f"a.{format}").read_bytes()
        path.write_bytes(
            gzip.compress(content) if name.endswith("gz") else pa.Codec("zstd").compress(content, asbytes=True)
        )
    source = make_source(tmp_path, format=format, bounded=False)
    run = Run(spark, source)
    run.step()
    damaged(path, how)
    with pytest.raises(Exception) as caught:
        run.rows()
    error = caught.value if isinstance(caught.value, StreamlingError) else source.translate_error(caught.value)
    assert error is not None
    assert f"{name}'" in str(error)
    assert error.remedy
    source.close()
