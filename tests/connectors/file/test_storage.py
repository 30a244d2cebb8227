"""Which files a path selects."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from streamling.connectors.file.own_files import OwnFiles
from streamling.connectors.file.storage import LocalStorage, is_data_file, is_hidden
from streamling.errors import StreamlingError
from tests.harness.pipelines import new_run


def names(path: Path | str, format: str = "csv") -> list[str]:
    return [os.path.basename(file.path) for file in LocalStorage(str(path), format, OwnFiles()).list_files()]


def touch(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")


@pytest.mark.parametrize(
    ("name", "format", "wanted"),
    [
        ("a.csv", "csv", True),
        ("A.CSV", "csv", True),
        ("a.csv.gz", "csv", True),
        ("a.json", "csv", False),
        ("a.json", "json", True),
        ("a.jsonl", "json", True),
        ("a.ndjson.zst", "json", True),
        ("a.snappy.parquet", "parquet", True),
        ("a.parquet.gz", "parquet", False),
        ("a.avro", "avro", True),
        ("acsv", "csv", False),
    ],
)
def test_a_format_has_its_extensions(name: str, format: str, wanted: bool) -> None:
    assert is_data_file(name, format) is wanted


@pytest.mark.parametrize("name", [".x.csv", "_SUCCESS", "a.csv.tmp", "a.csv.crc", "_temporary", "a.csv~"])
def test_hidden_and_temporary_files_are_skipped(name: str) -> None:
    assert is_hidden(name)
    assert not is_hidden("a.csv")
    assert not is_hidden("_dt=2024-01-01")


def test_folders_are_listed_recursively_in_path_order(tmp_path: Path) -> None:
    touch(tmp_path / "b.csv", tmp_path / "a" / "z.csv", tmp_path / ".hidden" / "h.csv", tmp_path / "c.txt")
    assert names(tmp_path) == ["z.csv", "b.csv"]


def test_a_named_file_is_read_whatever_its_extension(tmp_path: Path) -> None:
    touch(tmp_path / "export.txt", tmp_path / "a.csv")
    assert names(tmp_path / "export.txt") == ["export.txt"]


def test_a_pattern_selects_files_and_folders(tmp_path: Path) -> None:
    touch(
        tmp_path / "2024" / "a.csv",
        tmp_path / "2024" / "a.txt",
        tmp_path / "2025" / "b.csv",
        tmp_path / "x.txt",
    )
    assert names(tmp_path / "*.txt") == ["x.txt"]
    assert names(tmp_path / "20*") == ["a.csv", "b.csv"]
    assert names(tmp_path / "**" / "*.csv") == ["a.csv", "b.csv"]


def test_a_path_that_exists_is_not_a_pattern(tmp_path: Path) -> None:
    touch(tmp_path / "[1]" / "a.csv", tmp_path / "1" / "b.csv")
    assert names(tmp_path / "[1]") == ["a.csv"]


def test_key_value_folders_below_the_root_are_partitions(tmp_path: Path) -> None:
    touch(tmp_path / "k=0" / "dt=2024-01-01" / "city=New%20York" / "a.csv")
    for path in (tmp_path / "k=0", tmp_path / "k=0" / "dt=*" / "*" / "*.csv"):
        (file,) = LocalStorage(str(path), "csv", OwnFiles()).list_files()
        assert file.partitions == (("dt", "2024-01-01"), ("city", "New York"))


def test_links_are_followed_and_cycles_end(tmp_path: Path) -> None:
    touch(tmp_path / "real" / "a.csv")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "folder").symlink_to(tmp_path / "real")
    (tmp_path / "in" / "file.csv").symlink_to(tmp_path / "real" / "a.csv")
    (tmp_path / "in" / "nowhere.csv").symlink_to(tmp_path / "missing")
    (tmp_path / "real" / "up").symlink_to(tmp_path / "in")
    assert names(tmp_path / "in") == ["file.csv", "a.csv"]


def test_a_missing_folder_has_no_files(tmp_path: Path) -> None:
    assert names(tmp_path / "missing") == []


def test_a_link_to_itself_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.csv").symlink_to("x.csv")
    with pytest.raises(StreamlingError, match=r"x\.csv' cannot be listed") as raised:
        names(tmp_path)
    assert "Too many levels" in str(raised.value.__cause__)
    assert "remove it from the folder" in (raised.value.remedy or "")


# ── files and folders of another user ────────────────────────────────────────────────────────────────────────


@pytest.fixture
def forbidden() -> Iterator[Path]:
    """Create a folder with `secret.csv` and the folder `secrets`, which the effective user may not read."""
    with TemporaryDirectory() as folder:
        root = Path(folder)
        root.chmod(0o755)
        (root / "secret.csv").write_text("id\n1\n")
        (root / "secrets").mkdir()
        for path in (root / "secret.csv", root / "secrets"):
            path.chmod(0)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)  # root may read everything
        try:
            yield root
        finally:
            os.seteuid(user)
            (root / "secrets").chmod(0o700)


def test_a_folder_that_may_not_be_listed_is_named(forbidden: Path) -> None:
    with pytest.raises(StreamlingError, match=r"the folder '.*secrets' cannot be listed") as raised:
        names(forbidden)
    assert raised.value.remedy == "allow this user to read it"


def test_a_file_that_may_not_be_read_is_named(forbidden: Path) -> None:
    fields = {"type": "file", "path": str(forbidden / "secret.csv"), "format": "csv", "primary_key": "id"}
    nodes = {"sources": {"rows": fields}, "sinks": {"out": {"type": "blackhole", "from": "rows"}}}
    run = new_run(json.dumps(nodes))
    with pytest.raises(StreamlingError, match=r"file source 'rows': .*secret\.csv' cannot be read \(allow this user"):
        run.resolve_sources()
