from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from streamling.engine.state import sqlite_file
from streamling.engine.state.sqlite import SqliteState
from streamling.errors import StreamlingError
from streamling.plugins.shared import SharedResources


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def raw(path: Path) -> Iterator[sqlite3.Connection]:
    """The same file without our code."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def test_the_table_has_the_layout_that_other_tools_expect(path: Path, raw: sqlite3.Connection) -> None:
    with SqliteState("app", path) as state:
        state.put("key", {"offset": 1})

    assert raw.execute("SELECT namespace, key, data FROM state").fetchall() == [("app", "key", '{"offset": 1}')]
    assert raw.execute("SELECT name, type, pk FROM pragma_table_info('state')").fetchall() == [
        ("namespace", "TEXT", 1),
        ("key", "TEXT", 2),
        ("data", "TEXT", 0),
        ("created_at", "DATETIME", 0),
    ]


def test_a_file_made_by_the_original_is_read(path: Path, raw: sqlite3.Connection) -> None:
    raw.execute(
        "CREATE TABLE state (namespace TEXT, key TEXT, data TEXT NOT NULL, "
        "created_at DATETIME DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY(namespace, key))"
    )
    raw.execute("INSERT INTO state VALUES ('app', 'k:t:0', '{\"offset\":5}', '2020-01-01')")

    with SqliteState("app", path) as state:
        assert state.get("k:t:0") == {"offset": 5}


def test_an_update_keeps_the_time_of_creation(path: Path, raw: sqlite3.Connection) -> None:
    with SqliteState("app", path) as state:
        state.put("key", 1)
        raw.execute("UPDATE state SET created_at = '2001-01-01'")
        state.put("key", 2)

    assert raw.execute("SELECT data, created_at FROM state").fetchall() == [("2", "2001-01-01")]


def test_folders_on_the_way_are_made(tmp_path: Path) -> None:
    SqliteState("app", tmp_path / "deep" / "down" / "state.db").close()

    assert (tmp_path / "deep" / "down" / "state.db").exists()


def test_a_table_name_that_is_none_is_refused(path: Path) -> None:
    with pytest.raises(StreamlingError, match="state_table_name"):
        SqliteState("app", path, table="state; DROP TABLE state")


def test_a_file_that_is_not_a_database_is_named(path: Path) -> None:
    path.write_text("not a database, but long enough to look like a page" * 100)

    with pytest.raises(StreamlingError, match=r"state\.db cannot be opened: file is not a database") as raised:
        SqliteState("app", path)
    assert not raised.value.retriable


def test_a_path_that_is_a_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StreamlingError, match=f"the state file {tmp_path} is a folder") as raised:
        SqliteState("app", tmp_path)
    assert "state_backend.sqlite.database_path" in str(raised.value.remedy)


def test_another_writer_is_waited_for_and_then_reported_as_temporary(
    path: Path, raw: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "BUSY_TIMEOUT", 0.05)
    with SqliteState("app", path) as state:
        raw.execute("BEGIN IMMEDIATE")
        with pytest.raises(StreamlingError, match="locked") as raised:
            state.put("key", 1)
        assert raised.value.retriable
        raw.execute("COMMIT")
        state.put("key", 1)


WRITER = """
import sys
from pathlib import Path
from streamling.engine.state.sqlite import SqliteState

state = SqliteState("app", Path(sys.argv[1]))
for number in range(int(sys.argv[3])):
    state.put_many({sys.argv[2] + "a": number, sys.argv[2] + "b": number})
    print(number, flush=True)
"""


def writer(path: Path, prefix: str, writes: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, path, prefix, str(writes)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def test_processes_on_one_file_wait_for_each_other(path: Path) -> None:
    writers = [writer(path, prefix, 100) for prefix in ("x", "y", "z")]
    for process in writers:
        process.communicate(timeout=60)

    assert [process.returncode for process in writers] == [0, 0, 0]
    with SqliteState("app", path) as state:
        assert state.items() == {f"{prefix}{key}": 99 for prefix in "xyz" for key in "ab"}


@pytest.mark.parametrize("after", [1, 2, 17])
def test_a_killed_process_leaves_its_last_write_whole(path: Path, after: int) -> None:
    process = writer(path, "", 100_000)
    assert process.stdout is not None
    acknowledged = [int(process.stdout.readline()) for _ in range(after)][-1]
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)

    with SqliteState("app", path) as state:
        assert state.get("a") == state.get("b")
        assert state.get("a") >= acknowledged


# ── the file disappears while the pipeline runs ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize("gone", ["state.db", "state.db-wal"])
def test_a_deleted_file_is_noticed_at_the_next_write(path: Path, gone: str) -> None:
    with SqliteState("app", path) as state:
        state.put("key", 1)
        (path.parent / gone).unlink()
        with pytest.raises(StreamlingError, match=f"{gone} was deleted while the pipeline was running") as caught:
            state.put("key", 2)
        assert not caught.value.retriable
        assert "restart the pipeline" in (caught.value.remedy or "")


def test_a_replaced_file_is_noticed_and_not_written(path: Path, tmp_path: Path) -> None:
    with SqliteState("app", path) as state:
        state.put("key", 1)
        with SqliteState("app", tmp_path / "other.db") as other:
            other.put("key", "of the other file")
        (tmp_path / "other.db").rename(path)
        with pytest.raises(StreamlingError, match=r"state\.db was replaced while the pipeline was running"):
            state.put("key", 2)


# ── pipelines of one process ─────────────────────────────────────────────────────────────────────────────────


def open_files(path: Path) -> int:
    """Descriptors of the database and its log."""
    files = [os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return sum(file.startswith(str(path)) for file in files)


def test_pipelines_of_a_process_share_one_connection(path: Path) -> None:
    shared = SharedResources()
    with SqliteState("first", path, shared=shared) as first:
        first.put("key", 0)
        files = open_files(path)
        states = [SqliteState(f"pipeline-{number}", path, shared=shared) for number in range(20)]
        for number, state in enumerate(states):
            state.put("key", number)
        assert [state.get("key") for state in states] == list(range(20))
        assert open_files(path) == files > 0
        for state in states:
            state.close()
        assert first.get("key") == 0
    assert open_files(path) == 0


def test_a_pipeline_that_starts_after_the_file_was_replaced_uses_the_new_file(path: Path) -> None:
    shared = SharedResources()
    with SqliteState("old", path, shared=shared) as old:
        old.put("key", 1)
        for file in path.parent.glob(f"{path.name}*"):
            file.unlink()
        with SqliteState("new", path, shared=shared) as new:
            new.put("key", 2)
            with pytest.raises(StreamlingError, match=r"state\.db was replaced while the pipeline was running"):
                old.put("key", 3)
            assert new.get("key") == 2
