"""Large files are split between rows, and reading resumes in the middle of a file after a restart."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamling.connectors.file import reader as file_reader
from streamling.connectors.file.splits import split_file
from streamling.errors import StreamlingError
from tests.connectors.file.driver import NAME, Run, StoredState, make_source, split_files


def pieces(content: bytes, format: str, size: int, offset: int = 0, path: str = "") -> list[tuple[bytes, int | None]]:
    return list(split_file(io.BytesIO(content), path, format, offset, size))


def csv_bytes(rng: random.Random, rows: int) -> bytes:
    out = io.StringIO()
    line_end = rng.choice(["\n", "\r\n", "\r"])
    writer = csv.writer(out, lineterminator=line_end)
    writer.writerow(["id", "text\nwith break" if rng.random() < 0.3 else "text"])
    for number in range(rows):
        writer.writerow([number, rng.choice(["plain", "a,b", 'say "hi"', "two\nlines", "\n", '"', ""])])
        if rng.random() < 0.05:
            out.write(f'{number},5" pipe{line_end}')
    return out.getvalue().encode()


@pytest.mark.parametrize("seed", range(50))
def test_csv_splits_hold_whole_rows_and_together_all_of_them(seed: int) -> None:
    rng = random.Random(seed)
    content = csv_bytes(rng, rng.randint(0, 60))
    everything = list(csv.reader(io.StringIO(content.decode(), newline="")))
    found = pieces(content, "csv", size=rng.randint(1, 200))
    rows = [list(csv.reader(io.StringIO(piece.decode(), newline=""))) for piece, _ in found]
    assert all(part[0] == everything[0] for part in rows)
    assert [row for part in rows for row in part[1:]] == everything[1:]
    for index, (_, end) in enumerate(found[:-1]):
        assert end is not None
        assert pieces(content, "csv", 10**6, end)[0][0].endswith(found[-1][0][-1:])
        assert pieces(content, "csv", 20, end)[-1][1] is None
        rest = pieces(content, "csv", 10**6, end)
        again = list(csv.reader(io.StringIO(rest[0][0].decode(), newline="")))[1:]
        assert again == [row for part in rows[index + 1 :] for row in part[1:]]


def test_json_splits_end_at_lines_also_in_compressed_files() -> None:
    content = b"".join(b'{"id": %d}\n' % number for number in range(100))
    packed = gzip.compress(content)
    found = pieces(packed, "json", 64, path="a.json.gz")
    assert b"".join(piece for piece, _ in found) == content
    assert all(piece.endswith(b"\n") for piece, _ in found[:-1])
    end = found[3][1]
    assert end is not None
    assert b"".join(piece for piece, _ in pieces(packed, "json", 64, end, "a.json.gz")) == content[end:]


def test_parquet_splits_are_row_groups() -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": range(1000)}), sink, row_group_size=100)
    found = pieces(sink.getvalue().to_pybytes(), "parquet", 2000)
    assert len(found) > 2
    tables = [pq.read_table(io.BytesIO(piece)) for piece, _ in found]
    assert pa.concat_tables(tables).column("id").to_pylist() == list(range(1000))


def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat files of a few kilobytes as large."""
    split_files(monkeypatch, 1000)
    monkeypatch.setattr(file_reader, "BATCH_BYTES", dict.fromkeys(("csv", "json", "parquet", "avro"), 3000))


@pytest.mark.spark
@pytest.mark.parametrize("format", ["csv", "csv.gz", "json", "parquet"])
@pytest.mark.parametrize("bounded", [True, False])
def test_a_large_file_is_read_in_splits_and_resumed_in_the_middle(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str, bounded: bool
) -> None:
    small_pieces(monkeypatch)
    rows = [{"id": number, "text": f"line\n{number}"} for number in range(600)]
    folder = tmp_path / "in"
    folder.mkdir()
    write_rows(folder / f"big.{format}", rows)
    write_rows(folder / f"small.{format}", [{"id": 1000, "text": "x"}])
    state, found, lives = StoredState(), [], 0
    while True:
        lives += 1
        run = Run(spark, make_source(folder, state, format=format.partition(".")[0], bounded=bounded))
        done = False
        for _ in range(2):
            table = run.step()
            if table is None:
                done = True
                break
            found += table.to_pylist()
            assert table.num_rows < 500
            state.store(run.position)
        run.source.close()
        if done:
            break
    assert sorted(found, key=lambda row: row["id"]) == [*rows, {"id": 1000, "text": "x"}]
    assert lives > 2
    assert state.get(f"{NAME}:partial") is None


@pytest.mark.spark
def test_the_line_of_a_bad_value_in_a_later_split(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = [f'{number},"a\nb"' for number in range(700)]
    path = tmp_path / "big.csv"
    path.write_text("id,text\n" + "\n".join(good) + "\n")
    source = make_source(tmp_path)
    source.schema()
    small_pieces(monkeypatch)
    path.write_text("id,text\n" + "\n".join([*good, "oops,x"]) + "\n")
    with pytest.raises(StreamlingError, match="line 1402, column 'id': 'oops' is not a whole number"):
        Run(spark, source).rows()


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=20)
        return
    out = io.StringIO()
    if ".csv" in path.name:
        writer = csv.DictWriter(out, ["id", "text"])
        writer.writeheader()
        writer.writerows(rows)
    else:
        out.writelines(json.dumps(row) + "\n" for row in rows)
    content = out.getvalue().encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
